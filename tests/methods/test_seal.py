"""SEAL: the average of a training's predictions is what the next one learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import Method
from selc.methods.seal import SEAL
from selc.types import Outcome, Sweep, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    no_sweep,
    random_logits,
    random_targets,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, PLAN, C, N, NoTrain, sweeping


def test_labels_are_the_mean_prediction_of_all_epochs_so_far() -> None:
    method = SEAL()
    method.setup(train_set(LABELS, C), PLAN)
    close(method.belief(no_sweep).full(), GIVEN)  # before the first one
    seen: list[Tensor] = []
    for epoch in range(5):
        seen.append(softmax64(random_logits(N, C, seed=epoch)))
        method.end_epoch(epoch, sweeping(seen[-1].float()))
        close(method.belief(no_sweep).full(), torch.stack(seen).mean(dim=0))


def test_loss_is_cross_entropy_against_soft_labels() -> None:
    method, t = SEAL(), random_targets(N, C, seed=3)
    data = train_set(stored(t), C)
    method.setup(data, PLAN)
    outputs = random_logits(N, C, seed=1)
    close(method.loss(outputs, batch_of(data, torch.arange(N))), entropy64(t, softmax64(outputs)))


class Trainings(NoTrain):
    """Trainings that are none: they note what they were asked to do, and hand out made-up labels."""

    def __init__(self) -> None:
        self.asked: list[tuple[Method, Tensor, nn.Module | None]] = []
        self.outcomes: list[Outcome] = []

    def __call__(self, method: Method, data: TrainSet, *, model: nn.Module | None = None, **changes: Any) -> Outcome:
        self.asked.append((method, data.labels.read(torch.arange(N)), model))
        target, nothing = stored(random_targets(N, C, seed=len(self.asked))), torch.zeros(0, N)
        self.outcomes.append(Outcome(nn.Identity(), target, target, nothing, nothing, nothing, nothing))
        return self.outcomes[-1]


@pytest.mark.parametrize("init", ["fresh", "previous"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_each_training_learns_what_the_one_before_it_averaged(iterations: int, init: Any) -> None:
    method, train = SEAL(iterations=iterations, init=init), Trainings()
    outcome = method.fit(train_set(LABELS, C), train)
    assert len(train.asked) == iterations + 1
    assert outcome is train.outcomes[-1]
    assert torch.equal(train.asked[0][1].double(), GIVEN)
    for number in range(1, iterations + 1):
        asked, before = train.asked[number], train.outcomes[number - 1]
        assert asked[0] is method
        assert torch.equal(asked[1], before.target.full())
        assert asked[2] is (before.model if init == "previous" else None)


class Noting(SEAL):
    """Notes the predictions after every epoch."""

    def __init__(self) -> None:
        super().__init__(iterations=1)
        self.seen: list[Tensor] = []

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        super().end_epoch(epoch, sweep)
        self.seen.append(sweep().full().clone())


def test_a_real_training_hands_out_the_average_of_its_last_stage() -> None:
    method = Noting()
    outcome = toy.fit(method)
    assert len(method.seen) == 12
    close(outcome.target.full(), torch.stack(method.seen[6:]).mean(dim=0))
    assert outcome.history[-1]["stage"] == 1


@pytest.mark.parametrize("options", [{"iterations": 0}, {"init": "scratch"}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SEAL(**options)
