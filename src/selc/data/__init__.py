"""Data: arrays in memory, images, datasets, batched augmentation, and the sets known by name."""

import pkgutil
from importlib import import_module

from selc.data.arrays import ArrayInputs
from selc.data.augment import View, crop_and_flip
from selc.data.base import DATASETS, FACTS, RECIPES, Bundle, Facts, Recipe
from selc.data.datasets import DatasetInputs
from selc.data.images import ArrayPixels, ImageInputs
from selc.data.toy import digits, moons

for _module in pkgutil.iter_modules(__path__):  # a file with a dataset registers it when it is imported
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "DATASETS",
    "FACTS",
    "RECIPES",
    "ArrayInputs",
    "ArrayPixels",
    "Bundle",
    "DatasetInputs",
    "Facts",
    "ImageInputs",
    "Recipe",
    "View",
    "crop_and_flip",
    "digits",
    "moons",
]
