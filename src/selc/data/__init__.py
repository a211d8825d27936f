"""Data: arrays in memory, datasets, batched augmentation, and the sets known by name."""

from selc.data.arrays import ArrayInputs
from selc.data.augment import crop_and_flip
from selc.data.base import DATASETS, RECIPES, Bundle, Recipe
from selc.data.datasets import DatasetInputs
from selc.data.toy import digits, moons

__all__ = [
    "DATASETS",
    "RECIPES",
    "ArrayInputs",
    "Bundle",
    "DatasetInputs",
    "Recipe",
    "crop_and_flip",
    "digits",
    "moons",
]
