"""What the tests of noise share: bounds on counts, and all models with what they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.helpers import random_labels, random_targets, rng

SIGMAS = 5  # a bound of five standard deviations fails by chance once in two million draws


def assert_binomial(count: float, trials: int, share: float) -> None:
    """``count`` hits in ``trials`` are what the share lets expect."""
    assert abs(count - trials * share) <= SIGMAS * math.sqrt(trials * share * (1 - share)) + 1e-9


def assert_matrix(matrix: Tensor, labels: Tensor, expected: list[list[float]] | Tensor) -> None:
    """Every entry of a realised matrix is what its class's draws let expect."""
    sizes = torch.bincount(labels, minlength=len(matrix)).tolist()
    for i, size in enumerate(sizes):
        for j in range(len(matrix)):
            assert_binomial(float(matrix[i, j]) * size, size, float(expected[i][j]))


def suppliers(labels: Tensor, num_classes: int) -> dict[str, Callable[[], Tensor]]:
    """What a network that is right, if not sure, would supply."""
    probs = 0.5 * torch.eye(num_classes)[labels] + 0.5 * random_targets(len(labels), num_classes, seed=1)
    x = torch.randn(len(labels), 7, generator=rng(3))
    return {"mean_probs": lambda: probs, "last_probs": lambda: probs, "x": lambda: x}


def example_options(name: str, num_classes: int) -> dict[str, Any]:
    """Options for the models that cannot do without."""
    uniform = [[1 / num_classes] * num_classes] * num_classes
    examples: dict[str, dict[str, Any]] = {
        "map": {"to": {0: 1, 1: 0}},
        "matrix": {"rows": uniform},
        "hybrid": {"steps": [{"name": "pair", "rate": 0.2}, {"name": "part"}]},
    }
    return examples.get(name, {})


def classes_of(name: str) -> int:
    return 100 if name == "asymmetric-cifar100" else 10


def labels_for(name: str, rows: int = 2000) -> Tensor:
    return random_labels(rows, classes_of(name), seed=0)
