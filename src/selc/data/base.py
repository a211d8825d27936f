"""A dataset known by name: inputs, labels, test sets, and settings that suit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from selc.registry import Registry
from selc.types import EvalSet, Inputs


@dataclass(frozen=True)
class Recipe:
    """Settings that suit a dataset; what the user sets goes first."""

    net: str = "mlp"
    plan: Mapping[str, Any] = field(default_factory=dict)  # fields of Plan


class Facts(NamedTuple):
    """What is known of a dataset without loading it (the paper's Table 7)."""

    train: int
    val: int
    test: int
    classes: int
    size: str  # of an input
    noise: str = "0"  # share of wrong labels as published, in per cent


@dataclass(frozen=True)
class Bundle:
    """What a dataset brings."""

    inputs: Inputs
    labels: Tensor  # [N] as the data gives them; noise is drawn on top of them
    classes: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    tests: Mapping[str, EvalSet] = field(default_factory=dict)
    val: EvalSet | None = None  # to choose an epoch by, where the data brings one
    true: Tensor | None = None  # [N] where they are known: to score a finished run, never to train
    ids: Sequence[str] | None = None  # a name for each sample; None: its row number
    notes: Sequence[str] = ()  # what the user should know: a sentence each
    skipped: Sequence[tuple[str, str]] = ()  # samples that were left out, with the reason
    recipe: Recipe | None = None  # where it can be told only from the data
    digest: str = ""  # of what the inputs were made from, to notice that it changed
    texts: Callable[[Sequence[int]], Mapping[str, Sequence[str]]] | None = None  # columns of text at rows, as written
    pictures: Callable[[Sequence[int], int], Sequence[Tensor]] | None = None  # of rows: bytes [K, H, W] up to a side
    numbered: bool = False  # whether ids are but the numbers of rows
    groups: Tensor | None = None  # [N] rows that belong together, where the data say so
    time: Tensor | None = None  # [N] when each row was taken, where the data say so
    soft: Tensor | None = None  # [N, C] shares of the votes, where several annotators labelled the data

    @property
    def by_place(self) -> bool:
        """Whether nothing but its place tells a sample from the others: in another order it would be another one."""
        return self.ids is None or self.numbered or list(self.ids) == [str(row) for row in range(len(self.ids))]


Loader = Callable[..., Bundle]
DATASETS: Registry[Loader] = Registry("data")
RECIPES: dict[str, Recipe] = {}
FACTS: dict[str, Facts] = {}


def dataset(name: str, recipe: Recipe, facts: Facts | None = None) -> Callable[[Loader], Loader]:
    """Register a dataset together with settings that suit it, which are known without loading it."""
    RECIPES[name] = recipe
    if facts is not None:
        FACTS[name] = facts
    return DATASETS.register(name)
