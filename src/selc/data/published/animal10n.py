"""ANIMAL-10N (Song, Kim, Lee, ICML 2019): animals that look alike, labelled by people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.augment import View
from selc.data.preprocess.imagery import Reading
from selc.data.published.listed import IMAGENET, ImageFiles, image_bundle
from selc.data.published.places import folders, not_there
from selc.data.published.shared import checked
from selc.errors import InputError

PAGE = "https://dm.kaist.ac.kr/datasets/animal-10n"
ANIMALS = ("cat", "lynx", "wolf", "coyote", "cheetah", "jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig")
INSIDE = ("", "raw_image_ver/raw_image", "raw_image_ver", "raw_image")  # as the archive unpacks, or moved up
IMAGES = (".jpg", ".jpeg", ".png")
# The paper's, appendix A.3, which names no momentum, and its code has none; the rate is divided by five.
PAPER = Recipe(
    net="vgg19-bn",
    plan={
        "epochs": 100,
        "batch_size": 128,
        "lr": 0.1,
        "momentum": 0.0,
        "weight_decay": 0.001,
        "schedule": "step",
        "milestones": [50, 75],
        "gamma": 0.2,
    },
)


@dataset("animal10n", PAPER, Facts(50_000, 0, 5_000, 10, "64 x 64", "8"))
def animal10n(
    *,
    root: str = "",
    augment: bool = True,
    rows: int = 0,
    cache: str = "auto",
    workers: int = 0,
    skip_bad: bool = False,
    cache_gb: float = 8.0,
) -> Bundle:
    """ANIMAL-10N: 55,000 photographs of 10 animals, five pairs that are easily confused, labelled by people."""
    places = (folder / inside for folder in folders(root, "animal10n", "ANIMAL-10N") for inside in INSIDE)
    folder = next((f for f in places if (f / "training").is_dir() and (f / "testing").is_dir()), None)
    if folder is None:
        raise not_there("animal10n", root, "the folders training and testing, of images such as 0_1234.jpg,", PAGE)
    return image_bundle(
        "animal10n",
        _files(folder / "training"),
        {"test": _files(folder / "testing")},
        classes=ANIMALS,
        stored=(64, 64),
        view=View((64, 64), *IMAGENET, flip=True),  # flips only: nothing is cut off
        augment=augment,
        rows=rows,
        reading=Reading(skip_bad=skip_bad, workers=workers, cache=cache, cache_gb=cache_gb),
    )


def _files(folder: Path) -> ImageFiles:
    """The images of a folder in the order of their names, which begin with the label."""
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in IMAGES and not p.name.startswith("."))
    if not names:
        raise InputError(f"{folder} must hold images such as 0_1234.jpg; got none. Get them from {PAGE}.")
    return ImageFiles(folder, names, checked(_labels(folder, names), len(names), len(ANIMALS), str(folder)))


def _labels(folder: Path, names: Sequence[str]) -> list[int]:
    try:
        return [int(name.split("_", 1)[0]) for name in names]
    except ValueError:
        odd = next(name for name in names if not name.split("_", 1)[0].isdecimal())
        raise InputError(f"{folder} must hold images called LABEL_NAME.jpg, such as 0_1234.jpg; got {odd!r}.") from None
