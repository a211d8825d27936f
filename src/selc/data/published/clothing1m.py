"""Clothing1M (Xiao et al., CVPR 2015): a million pictures from shops, labelled by the words around them."""

from __future__ import annotations

from pathlib import Path

from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.augment import View
from selc.data.preprocess.imagery import Reading
from selc.data.published.listed import ImageFiles, image_bundle, lines
from selc.data.published.places import folders, not_there
from selc.data.published.shared import checked
from selc.errors import InputError

PAGE = "https://github.com/Cysu/noisy_label"
CLOTHES = (
    *("T-shirt", "shirt", "knitwear", "chiffon", "sweater", "hoodie", "windbreaker"),
    *("jacket", "down coat", "suit", "shawl", "dress", "vest", "underwear"),
)
MEAN, STD = (0.6959, 0.6537, 0.6371), (0.3113, 0.3192, 0.3214)
# The paper's, appendix A.3: 2,000 batches an epoch with classes in balance, and the epoch chosen on the clean
# validation set. (Its code trains 40 epochs, and chooses on the test set.) The network starts from ImageNet weights.
PAPER = Recipe(
    net="resnet50",
    plan={
        "epochs": 30,
        "batch_size": 64,
        "samples_per_epoch": 2_000 * 64,
        "lr": 0.01,
        "momentum": 0.9,
        "weight_decay": 0.001,
        "schedule": "step",
        "milestones": [10, 20],
        "gamma": 0.1,
        "pick": "best-val",
    },
)


@dataset("clothing1m", PAPER, Facts(1_000_000, 14_000, 10_000, 14, "224 x 224", "38.5"))
def clothing1m(
    *,
    root: str = "",
    augment: bool = True,
    rows: int = 0,
    cache: str = "auto",
    workers: int = 0,
    skip_bad: bool = False,
    cache_gb: float = 8.0,
) -> Bundle:
    """Clothing1M: a million pictures of 14 kinds of clothes from web shops, with clean validation and test sets."""
    folder = _folder(root)
    if folder is None:
        raise not_there("clothing1m", root, "the folders annotations and images", f"{PAGE} (the authors send a link)")
    noisy, clean = (_labels(folder, f"{kind}_label_kv.txt") for kind in ("noisy", "clean"))
    return image_bundle(
        "clothing1m",
        _files(folder, "noisy_train_key_list.txt", noisy),
        {
            "test": _files(folder, "clean_test_key_list.txt", clean),
            "val": _files(folder, "clean_val_key_list.txt", clean),
        },
        classes=CLOTHES,
        stored=(256, 256),
        view=View((224, 224), MEAN, STD, flip=True),
        augment=augment,
        rows=rows,
        reading=Reading(skip_bad=skip_bad, workers=workers, cache=cache, cache_gb=cache_gb),
    )


def _folder(root: str) -> Path | None:
    """The folder with the lists, which lie in ``annotations`` or beside the images."""
    places = folders(root, "clothing1m", "clothing1M", "Clothing1M")
    return next((f for f in places if _list(f, "noisy_train_key_list.txt").is_file()), None)


def _list(folder: Path, name: str) -> Path:
    inside = folder / "annotations" / name
    return inside if inside.is_file() else folder / name


def _labels(folder: Path, name: str) -> dict[str, int]:
    path = _list(folder, name)
    pairs = [line.rsplit(maxsplit=1) for line in lines(path)]
    try:
        return {key: int(label) for key, label in pairs}
    except ValueError:
        raise InputError(f"{path} must hold lines of an image and its label, such as images/0/1/a.jpg 3.") from None


def _files(folder: Path, name: str, labels: dict[str, int]) -> ImageFiles:
    path = _list(folder, name)
    keys = lines(path)
    if missing := [key for key in keys if key not in labels]:
        raise InputError(f"{path} must name images that have a label; got {len(missing)} without, first {missing[0]}.")
    values = checked([labels[key] for key in keys], len(keys), len(CLOTHES), str(path))
    if not (folder / "images").is_dir():  # the archives of images unpack without the first part of the keys
        keys = [key.removeprefix("images/") for key in keys]
    return ImageFiles(folder, keys, values)
