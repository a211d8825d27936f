"""A dataset known by name: inputs, true labels, test sets, and settings that suit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from selc.registry import Registry
from selc.types import EvalSet, Inputs


@dataclass(frozen=True)
class Recipe:
    """Settings that suit a dataset; what the user sets goes first."""

    net: str = "mlp"
    plan: Mapping[str, Any] = field(default_factory=dict)  # fields of Plan


@dataclass(frozen=True)
class Bundle:
    """What a dataset brings. The labels are the true ones: noise is drawn on them, scores compare with them."""

    inputs: Inputs
    labels: Tensor  # [N]
    classes: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    tests: Mapping[str, EvalSet] = field(default_factory=dict)


Loader = Callable[..., Bundle]
DATASETS: Registry[Loader] = Registry("data")
RECIPES: dict[str, Recipe] = {}


def dataset(name: str, recipe: Recipe) -> Callable[[Loader], Loader]:
    """Register a dataset together with settings that suit it, which are known without loading it."""
    RECIPES[name] = recipe
    return DATASETS.register(name)
