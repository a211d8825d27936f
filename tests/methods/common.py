"""What the tests of the methods share: twelve labels, a method set up on them, and trainings that are none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from selc.callbacks import Callback
from selc.data import ArrayInputs
from selc.memory import Store
from selc.methods.base import Method
from selc.training import Trainer
from selc.types import Batch, Decided, EvalSet, Labels, Outcome, Pass, StagePlan, Sweep, TrainSet
from tests.helpers import batch_of, one_hot64, random_labels, stored, train_set

N, B, C = 12, 5, 4  # samples, batch size, classes
LABELS = random_labels(N, C, seed=0)
GIVEN = one_hot64(LABELS, C)


PLAN = StagePlan(epochs=200, batch_size=128)  # where nothing hangs on it: that of most papers


def ready(method: Method, data: TrainSet | None = None, epochs: int = 8, batch_size: int = B) -> TrainSet:
    """Set a method up for a run, and return the data."""
    data = data or train_set(LABELS, C)
    plan = StagePlan(epochs, batch_size)
    method.check(data, plan)
    method.setup(data, plan)
    return data


def set_up(method: Method) -> Method:
    """The method itself, where only its formula is looked at."""
    method.setup(train_set(LABELS, C), PLAN)
    return method


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
    looks: EvalSet | None
    per_epoch: int
    callbacks: Sequence[Callback]
    back: float
    start_from: tuple[Outcome, float] | None
    aside: str
    changes: dict[str, Any]


class NoTrain:
    """What a training offers beside trainings, of which there are none."""

    seed = 0
    epochs = 4
    batch_size = B
    val: EvalSet | None = None

    def tell(self, text: str) -> None:
        raise AssertionError(f"nothing here decides by held-out rows: {text}")

    def decided(self, decided: Decided) -> None:
        raise AssertionError("nothing here decides by held-out rows")

    def forecast(self, data: TrainSet) -> float:
        raise AssertionError("nothing here decides by held-out rows")


class Over:
    """A training that hands everything on to a real one; whoever watches it overrides what it is called for."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    @property
    def seed(self) -> int:
        return self.trainer.seed

    @property
    def epochs(self) -> int:
        return self.trainer.epochs

    @property
    def batch_size(self) -> int:
        return self.trainer.batch_size

    @property
    def val(self) -> EvalSet | None:
        return self.trainer.val

    def tell(self, text: str) -> None:
        self.trainer.tell(text)

    def decided(self, decided: Decided) -> None:
        self.trainer.decided(decided)

    def forecast(self, data: TrainSet) -> float:
        return self.trainer.forecast(data)

    def __call__(self, method: Method, data: TrainSet, **how: Any) -> Outcome:
        return self.trainer(method, data, **how)


class Stages(NoTrain):
    """A training that is not one: it notes what it was asked to do, and hands out made-up outcomes.

    Rows that it is to look at are predicted as `shown` makes it up, with a share of ``wrong`` labels.
    """

    def __init__(
        self,
        answer: Callable[[int, Asked], Outcome],
        seed: int = 0,
        *,
        epochs: int = 4,
        wrong: float = 0.0,
        val: EvalSet | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.answer, self.seed, self.epochs, self.wrong, self.val = answer, seed, epochs, wrong, val
        self.seconds = seconds
        self.asked: list[Asked] = []
        self.told: list[str] = []
        self.decisions: list[Decided] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    def decided(self, decided: Decided) -> None:
        self.decisions.append(decided)

    def forecast(self, data: TrainSet) -> float:
        return self.seconds

    def __call__(
        self,
        method: Method,
        data: TrainSet,
        *,
        model: nn.Module | None = None,
        looks: EvalSet | None = None,
        per_epoch: int = 1,
        callbacks: Sequence[Callback] = (),
        back: float = 0.0,
        start_from: tuple[Outcome, float] | None = None,
        aside: str = "",
        **changes: Any,
    ) -> Outcome:
        self.asked.append(Asked(method, data, model, looks, per_epoch, callbacks, back, start_from, aside, changes))
        found = self.answer(len(self.asked) - 1, self.asked[-1])
        times = self.epochs * per_epoch
        return found if looks is None else replace(found, looks=shown(looks, data.num_classes, self.wrong, times))


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


def many(rows: int = 240, num_classes: int = C) -> TrainSet:
    """So many labels that some can be held out, and inputs of which no two are the same."""
    inputs = ArrayInputs(torch.arange(rows, dtype=torch.float32)[:, None])
    return TrainSet(inputs, Labels(random_labels(rows, num_classes, seed=0), num_classes))


def contradicted(rows: Tensor, wrong: float) -> Tensor:
    """Of the rows of `many`, which are predicted to be another class than their label says: of every fourth, about
    which the network is unsure, three in four; of the others, however sure it is, the share ``wrong``."""
    return torch.where(rows % 4 == 0, rows // 4 % 4 != 0, rows // 4 % 10 < round(10 * wrong))


def shown(looks: EvalSet, num_classes: int, wrong: float, epochs: int) -> Pass:
    """Looks at rows of `many`, in every epoch the same. The surest rows leave no doubt how many labels are wrong."""
    rows = torch.arange(len(looks.labels)) if looks.rows is None else looks.rows
    sure = torch.tensor([0.3, 0.9, 0.99, 0.999])[rows % 4]
    off = contradicted(rows, wrong)
    predicted = torch.where(off, (looks.labels + 1) % num_classes, looks.labels)
    losses = -torch.where(off, (1 - sure) / num_classes, sure).log()
    return Pass(*(field.expand(epochs, -1) for field in (losses, predicted, sure, torch.full_like(rows, -1))))
