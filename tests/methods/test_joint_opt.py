"""Joint optimisation against its published loss and label update, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.base import Method
from selc.methods.ce import CE
from selc.methods.joint_opt import JointOpt
from selc.types import Outcome, StagePlan, TrainSet
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    random_logits,
    random_targets,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, B, C, N, NoTrain, ready


def literal_loss(outputs: Tensor, soft: Tensor, prior: Tensor, alpha: float, beta: float) -> Tensor:
    """The three terms of the paper, each a mean over the batch."""
    p = softmax64(outputs)
    fits = -(soft * torch.log(p)).sum(dim=1).mean()
    towards_prior = -(prior * torch.log(p.mean(dim=0))).sum()
    entropy = -(p * torch.log(p)).sum(dim=1).mean()
    return fits + alpha * towards_prior + beta * entropy


@pytest.mark.parametrize("prior", ["uniform", "given"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.5), (1.2, 0.8), (0.0, 0.0)])
def test_loss_and_labels_follow_the_paper_over_several_epochs(alpha: float, beta: float, prior: Any) -> None:
    method = JointOpt(alpha=alpha, beta=beta, begin=4, window=3, prior=prior)
    data = ready(method)
    shares = GIVEN.mean(dim=0) if prior == "given" else torch.full((C,), 1 / C, dtype=torch.float64)
    soft, predictions = GIVEN.clone(), torch.zeros(N, 3, C, dtype=torch.float64)
    for epoch in range(8):
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=100 * epoch + part).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + 0.3))
            assert loss.shape == (len(index),)
            expected = literal_loss(outputs, soft[index], shares, alpha, beta)
            close(loss.mean(), expected)
            close(gradient(loss.mean(), outputs), gradient(expected, outputs))
            predictions[index, epoch % 3] = softmax64(outputs.detach())
        method.end_epoch(epoch, no_sweep)
        if epoch + 1 >= 4:  # the authors count epochs from one
            soft = predictions.mean(dim=1)
        close(method.belief(no_sweep).full(), soft)


def test_a_window_that_is_not_full_is_the_mean_of_the_epochs_that_there_were() -> None:
    method = JointOpt(begin=2, window=10)
    data = ready(method)
    seen = []
    for epoch in range(2):
        outputs = random_logits(N, C, seed=epoch)
        method.loss(outputs, batch_of(data, torch.arange(N), epoch))
        method.end_epoch(epoch, no_sweep)
        seen.append(softmax64(outputs))
    close(method.belief(no_sweep).full(), torch.stack(seen).mean(dim=0))


def test_rows_that_were_never_seen_keep_their_label() -> None:
    method = JointOpt(begin=0, window=2)
    data = ready(method)
    method.loss(random_logits(6, C, seed=0), batch_of(data, torch.arange(6)))
    method.end_epoch(0, no_sweep)
    belief = method.belief(no_sweep).full().double()
    assert torch.equal(belief[6:], GIVEN[6:])
    assert not torch.equal(belief[:6], GIVEN[:6])


def test_soft_labels_are_where_the_labels_start() -> None:
    given = Store(N, C)
    given.write(torch.arange(N), random_targets(N, C, seed=3))
    method = JointOpt(alpha=0.0, beta=0.0)
    data = ready(method, train_set(given, C))
    outputs = random_logits(N, C, seed=0)
    expected = -(random_targets(N, C, seed=3).double() * torch.log(softmax64(outputs))).sum(dim=1)
    close(method.loss(outputs, batch_of(data, torch.arange(N))), expected)


def test_the_prior_term_alone_pulls_the_mean_prediction_to_the_prior() -> None:
    """A known minimum: where the mean prediction is the prior, its gradient vanishes."""
    method = JointOpt(alpha=1.0, beta=0.0)
    data = ready(method)
    outputs = (7.0 * torch.eye(C)).requires_grad_()  # each class once: the mean is uniform
    with_prior = method.loss(outputs, batch_of(data, torch.arange(C))).mean()
    without = JointOpt(alpha=0.0, beta=0.0)
    ready(without, data)
    plain = without.loss(outputs, batch_of(data, torch.arange(C))).mean()
    close(gradient(with_prior, outputs), gradient(plain, outputs))
    assert float((with_prior - plain).detach()) == pytest.approx(math.log(C))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [200.0, 1e4])
@pytest.mark.parametrize("rows", [1, N])
def test_edges_are_finite(rows: int, size: float, dtype: torch.dtype) -> None:
    """p exactly 0 and 1, classes that no sample of the batch predicts, and a batch of one."""
    method = JointOpt(begin=0)
    data = ready(method)
    outputs = torch.zeros(rows, C, dtype=dtype)
    outputs[:, 1] = size
    outputs.requires_grad_()
    for epoch in range(2):
        loss = method.loss(outputs, batch_of(data, torch.arange(rows), epoch))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
        method.end_epoch(epoch, no_sweep)
    close(method.belief(no_sweep).full().sum(dim=1), torch.ones(N))


class MadeUp(NoTrain):
    """A training that is not one: it notes what it was asked to do, and hands out made-up tables."""

    def __init__(self) -> None:
        self.asked: list[tuple[Method, TrainSet, dict[str, Any]]] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        table = Store(N, C)
        table.write(torch.arange(N), random_targets(N, C, seed=len(self.asked)))
        self.asked.append((method, data, changes))
        nothing = torch.zeros(0, N)
        return Outcome(nn.Identity(), table, table, nothing, nothing, nothing, nothing)


def test_a_fresh_network_learns_the_soft_labels_without_the_other_terms() -> None:
    method, train, data = JointOpt(), MadeUp(), train_set(LABELS, C)
    train.epochs = 200
    outcome = method.fit(data, train)
    (first, _, first_changes), (second, relabelled, second_changes) = train.asked
    assert first is method
    assert first_changes == {"schedule": "constant"}
    assert type(second) is CE
    assert second_changes == {"epochs": 120}  # as published, of 200
    soft = random_targets(N, C, seed=0)
    assert torch.equal(relabelled.labels.read(torch.arange(N)), soft)
    assert torch.equal(outcome.target.full(), soft)
    assert torch.equal(outcome.probs.full(), random_targets(N, C, seed=1))


def test_labels_begin_to_move_after_70_of_200_epochs_and_scale_with_the_run() -> None:
    for epochs, first in ((200, 69), (20, 6)):
        method = JointOpt()
        data = ready(method, epochs=epochs)
        moved = []
        for epoch in (first - 1, first):
            method.loss(random_logits(N, C, seed=epoch), batch_of(data, torch.arange(N), epoch))
            method.end_epoch(epoch, no_sweep)
            moved.append(not torch.equal(method.belief(no_sweep).full().double(), GIVEN))
        assert moved == [False, True]


def test_it_says_before_training_when_no_label_can_change() -> None:
    assert "no label can change" in str(JointOpt(begin=70).check(train_set(LABELS, C), StagePlan(60, B)))


@pytest.mark.parametrize(
    "options", [{"alpha": -1.0}, {"beta": math.nan}, {"begin": -1}, {"window": 0}, {"second": 0}, {"prior": "true"}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        JointOpt(**options)
