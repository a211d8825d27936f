"""WebVision 1.0 (Li et al. 2017), its first 50 classes from Google, and ILSVRC12's validation images of the same."""

from __future__ import annotations

import re
from pathlib import Path

from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.augment import View
from selc.data.preprocess.imagery import Reading
from selc.data.published.listed import IMAGENET, ImageFiles, image_bundle, lines
from selc.data.published.places import base_folder, folders, not_there
from selc.data.published.shared import checked
from selc.errors import InputError

PAGE = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
IMAGENET_PAGE = "https://image-net.org/challenges/LSVRC/2012"
CLASSES = 50  # what is called mini WebVision
SYNSET = re.compile(r"n\d{8}")
# The paper's, appendix A.3.
PAPER = Recipe(
    net="inception-resnet-v2",
    plan={
        "epochs": 100,
        "batch_size": 32,
        "lr": 0.01,
        "momentum": 0.9,
        "weight_decay": 0.0005,
        "schedule": "step",
        "milestones": [40, 80],
        "gamma": 0.1,
    },
)


@dataset("webvision", PAPER, Facts(66_000, 0, 2_500, CLASSES, "256 x 256", "20"))
def webvision(
    *,
    root: str = "",
    augment: bool = True,
    rows: int = 0,
    ilsvrc12: bool = True,
    cache: str = "auto",
    workers: int = 0,
    skip_bad: bool = False,
    cache_gb: float = 8.0,
) -> Bundle:
    """Mini WebVision: 66,000 images of 50 classes found by Google, tested on WebVision's own and ILSVRC12's images."""
    places = folders(root, "webvision", "WebVision")
    folder = next((f for f in places if (f / "info/train_filelist_google.txt").is_file()), None)
    if folder is None:
        raise not_there("webvision", root, "the folders info, google and val_images_256", PAGE)
    synsets, names = _classes(folder)
    tests = {"webvision": _listed(folder, "info/val_filelist.txt", ("val_images_256", "val_images", "."))}
    if ilsvrc12:
        tests["ilsvrc12"] = _ilsvrc12(folder, root, synsets)
    return image_bundle(
        "webvision",
        _listed(folder, "info/train_filelist_google.txt", (".",)),
        tests,
        classes=names,
        stored=(256, 256),
        view=View((227, 227), *IMAGENET, flip=True),
        augment=augment,
        rows=rows,
        reading=Reading(skip_bad=skip_bad, workers=workers, cache=cache, cache_gb=cache_gb),
    )


def _classes(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """The synsets of all classes and the names of the first ones, from lines such as `n01440764 tench, Tinca tinca`."""
    path = folder / "info/synsets.txt"
    pairs = [line.split(maxsplit=1) for line in lines(path)]
    if len(pairs) < CLASSES or not all(len(pair) == 2 and SYNSET.fullmatch(pair[0]) for pair in pairs):
        raise InputError(f"{path} must hold a line such as `n01440764 tench, Tinca tinca` for each class; got others.")
    full = [pair[1] for pair in pairs[:CLASSES]]
    short = [name.split(",")[0].strip() for name in full]
    return [pair[0] for pair in pairs], tuple(short if len(set(short)) == CLASSES else full)


def _listed(folder: Path, name: str, places: tuple[str, ...]) -> ImageFiles:
    """The images of a list of the first classes, in its order."""
    pairs = _pairs(folder / name, {})
    inside = next((folder / p for p in places if pairs and (folder / p / pairs[0][0]).is_file()), folder / places[0])
    return _files(inside, pairs, str(folder / name))


def _ilsvrc12(folder: Path, root: str, synsets: list[str]) -> ImageFiles:
    """The validation images of ILSVRC12: with a list val.txt, or in a folder for each synset."""
    number = {synset: k for k, synset in enumerate(synsets)}
    base = base_folder(root)
    for place in (folder / "imagenet", folder / "ilsvrc12", base / "imagenet", base / "ilsvrc12"):
        images = next((place / p for p in ("val", "ILSVRC2012_img_val") if (place / p).is_dir()), place)
        if (images / synsets[0]).is_dir():
            found = [
                (f"{synset}/{file.name}", k)
                for k, synset in enumerate(synsets[:CLASSES])
                for file in sorted((images / synset).glob("*.JPEG"))
            ]
            return _files(images, found, str(images))
        lists = (place / "val.txt", place / "ILSVRC2012_devkit_t12/data/val.txt")
        if path := next((p for p in lists if p.is_file()), None):
            return _files(images, _pairs(path, number), str(path))
    raise InputError(
        f"the second test set of data 'webvision' must lie in {base / 'imagenet'}; got none. Put ILSVRC12's validation "
        f"images there, from {IMAGENET_PAGE}: in a folder val with a folder for each synset, or all in val with a list "
        "val.txt of lines such as `ILSVRC2012_val_00000001.JPEG 65`; or go without it: --set data.ilsvrc12=false."
    )


def _pairs(path: Path, number: dict[str, int]) -> list[tuple[str, int]]:
    """(image, class) of the first classes, from lines of an image and its class, a number or a synset."""
    pairs = []
    for line in lines(path):
        name, _, word = line.rpartition(" ")
        label = number.get(word, -1) if SYNSET.fullmatch(word) else int(word) if word.isdecimal() else -1
        if not name or label < 0:
            raise InputError(f"{path} must hold lines of an image and the number of its class; got {line[:80]!r}.")
        if label < CLASSES:
            pairs.append((name.strip(), label))
    return pairs


def _files(folder: Path, pairs: list[tuple[str, int]], where: str) -> ImageFiles:
    if not pairs:
        raise InputError(f"{where} must name images of the first {CLASSES} classes; got none.")
    names, labels = zip(*pairs, strict=True)
    return ImageFiles(folder, names, checked(labels, len(names), CLASSES, where))
