"""A part of the test images, for trainings that are short beside the test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc.data import DATASETS
from selc.errors import ConfigError
from tests.data.miniatures import MAKERS


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_part_of_the_test_images_is_always_the_same_one_with_its_labels(name: str, data: Path) -> None:
    MAKERS[name](data)
    every, some, again = (DATASETS[name](test_rows=k).tests["test"] for k in (0, 5, 5))
    pixels = [next(iter(part.inputs.stream([torch.arange(len(part.labels))], None))) for part in (every, some, again)]
    assert len(some.labels) == 5
    assert torch.equal(some.labels, again.labels)
    assert torch.equal(pixels[1], pixels[2])
    # A test label is there once in the miniature, so it says which image must stand beside it.
    where = [int((every.labels == label).nonzero()) for label in some.labels]
    assert torch.equal(pixels[1], pixels[0][where])
    assert where == sorted(where)


@pytest.mark.parametrize("wrong", [-1, 1, 11])
def test_a_number_of_test_images_that_are_not_there_is_named(wrong: int, data: Path) -> None:
    MAKERS["cifar10"](data)
    with pytest.raises(
        ConfigError, match=f"test_rows of data 'cifar10' must be 0 for all, or from 2 to 10; got {wrong}"
    ):
        DATASETS["cifar10"](test_rows=wrong)
