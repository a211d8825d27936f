"""What the tests of the methods share: twelve labels, a method set up on them, and trainings that are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from selc.core import Store
from selc.core.turning import Turn
from selc.methods.base import Method
from selc.types import Batch, Outcome, Sweep, TrainSet
from tests.helpers import batch_of, one_hot64, random_labels, stored, train_set

N, B, C = 12, 5, 4  # samples, batch size, classes
LABELS = random_labels(N, C, seed=0)
GIVEN = one_hot64(LABELS, C)


def ready(method: Method, data: TrainSet | None = None, epochs: int = 8, batch_size: int = B) -> TrainSet:
    """Set a method up for a run, and return the data."""
    data = data or train_set(LABELS, C)
    method.setup(data)
    method.check(data, epochs, batch_size)
    return data


def batch(target: Tensor | None = None) -> Batch:
    """All samples, with their labels or with other targets."""
    given = batch_of(train_set(LABELS, C), torch.arange(N))
    return given if target is None else replace(given, target=target)


def all_of(c: int) -> Batch:
    """The batch in which every label is ``c``."""
    return batch(one_hot64(torch.full((N,), c), C).float())


def sweeping(p: Tensor) -> Sweep:
    """A pass over the training set that finds these probabilities."""

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is None  # the plain pass is shared with whoever else needs it
        return stored(p)

    return sweep


class Asked(NamedTuple):
    """What a training was asked to do."""

    method: Method
    data: TrainSet
    model: nn.Module | None
    stop: Any
    changes: dict[str, Any]


class Stages:
    """A training that is not one: it notes what it was asked to do, and hands out made-up outcomes."""

    def __init__(self, answer: Callable[[int, Asked], Outcome], seed: int = 0) -> None:
        self.answer, self.seed = answer, seed
        self.asked: list[Asked] = []

    def __call__(
        self,
        method: Method,
        data: TrainSet,
        *,
        model: nn.Module | None = None,
        stop: Any = None,
        start_from: Any = None,
        **changes: Any,
    ) -> Outcome:
        self.asked.append(Asked(method, data, model, stop, changes))
        return self.answer(len(self.asked) - 1, self.asked[-1])


def outcome(
    probs: Tensor,
    *,
    target: Tensor | None = None,
    losses: Tensor | None = None,
    predictions: Tensor | None = None,
    history: list[dict[str, Any]] | None = None,
    model: nn.Module | None = None,
) -> Outcome:
    """An outcome of which only what a test needs is filled in."""
    nothing = torch.zeros(0, len(probs))
    return Outcome(
        model or nn.Identity(),
        stored(probs if target is None else target),
        stored(probs),
        nothing if losses is None else losses,
        nothing if predictions is None else predictions,
        nothing,
        nothing,
        history or [],
    )


def turned(dispute: float, half: float, peak: float = 1.5) -> list[dict[str, Any]]:
    """The history of a training that was watched: ``half`` is the dispute among the more confident half."""
    return [{"lr": 0.5, "turning_point": Turn(peak, 1.5, 0.9, dispute, half, half, "made up")._asdict()}]
