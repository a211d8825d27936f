"""Data: arrays in memory, images, datasets, batched augmentation, and the sets known by name."""

import pkgutil
from importlib import import_module

from selc.data.base import DATASETS, FACTS, RECIPES, Bundle, Facts, Recipe
from selc.data.inputs.arrays import ArrayInputs
from selc.data.inputs.augment import View, crop_and_flip
from selc.data.inputs.images import ArrayPixels, ImageInputs
from selc.data.inputs.torch_datasets import DatasetInputs
from selc.data.published.toy import digits, moons

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):  # a file with a dataset registers it when imported
    import_module(_module.name)

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
