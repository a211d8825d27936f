"""Co-teaching beyond its formula (see test_formulas.py): the estimated rate, the ramp, soft targets, empty choices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods import CE, CoTeaching
from selc.methods.co_teaching import exchanged
from selc.types import StagePlan
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    random_labels,
    random_logits,
    random_targets,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import Stages, many, outcome, set_up

N, B, C = 12, 6, 4
LABELS = random_labels(N, C, seed=0)


def test_auto_forgets_as_many_as_networks_that_never_saw_a_row_find_wrong() -> None:
    """Known answer: four in ten of the labels are contradicted, however sure the networks are."""
    train = Stages(lambda number, _: outcome(random_targets(240, C, seed=number)), wrong=0.4)
    data = many()
    result = CoTeaching(ramp=7).fit(data, train)
    *splits, last = train.asked
    assert [type(asked.method) for asked in splits] == [CE] * 5
    held = [asked.looks.rows for asked in splits if asked.looks is not None and asked.looks.rows is not None]
    assert torch.cat(held).sort().values.tolist() == list(range(240))
    assert isinstance(last.method, CoTeaching)
    assert last.method.forget_rate == pytest.approx(0.4, abs=0.01)
    assert last.method.ramp == 7
    assert last.data is data
    assert (last.looks, last.aside) == (None, "")
    close(result.probs.full(), random_targets(240, C, seed=5))


def test_the_estimate_is_never_more_than_a_guess_would_be_wrong() -> None:
    train = Stages(lambda *_: outcome(random_targets(240, C, seed=0)), wrong=1.0)
    CoTeaching().fit(many(), train)
    method = train.asked[-1].method
    assert isinstance(method, CoTeaching)
    assert isinstance(method.forget_rate, float)
    assert 1 - 1 / C - 0.02 < method.forget_rate <= 1 - 1 / C


def test_where_too_few_rows_can_be_held_out_nothing_is_forgotten() -> None:
    train = Stages(lambda *_: outcome(random_targets(N, C, seed=0)), wrong=0.4)
    CoTeaching().fit(train_set(LABELS, C), train)
    (only,) = train.asked
    assert isinstance(only.method, CoTeaching)
    assert only.method.forget_rate == 0


def test_a_given_rate_needs_one_stage_only() -> None:
    train = Stages(lambda *_: outcome(random_targets(N, C, seed=0)))
    method = CoTeaching(forget_rate=0.3)
    method.fit(train_set(LABELS, C), train)
    assert [asked.method for asked in train.asked] == [method]


@pytest.mark.parametrize(("epochs", "clock", "keep"), [(200, 5, 6), (200, 10, 4), (100, 5, 4), (40, 1, 6), (3, 1, 4)])
def test_a_ramp_below_one_is_a_share_of_the_epochs(epochs: int, clock: float, keep: int) -> None:
    """By hand, of 8 samples: half of the rate 0.5 leaves 6, all of it 4; 0.05 of 200 epochs are 10, of 3 at least 1."""
    method = CoTeaching(forget_rate=0.5, ramp=0.05)
    data = train_set(LABELS, C)
    method.setup(data, StagePlan(epochs, 8))
    index, outputs = torch.arange(8), random_logits(2, 8, C, seed=0).requires_grad_()
    learnt = gradient(method.loss(outputs, batch_of(data, index, clock)), outputs).abs().sum(dim=2) > 0
    assert learnt.sum(dim=1).tolist() == [keep, keep]


def test_a_training_that_is_over_before_the_ramp_is_says_so() -> None:
    data = train_set(LABELS, C)
    assert "ramp" in (CoTeaching(ramp=10).check(data, StagePlan(10, 8)) or "")
    assert CoTeaching(ramp=10).check(data, StagePlan(11, 8)) is None
    assert CoTeaching(ramp=0.5).check(data, StagePlan(2, 8)) is None


def test_nobody_is_forgotten_while_the_rate_is_not_known() -> None:
    method, data = set_up(CoTeaching()), train_set(LABELS, C)
    outputs = random_logits(2, B, C, seed=3)
    expected = sum(entropy64(data.labels.read(torch.arange(B)), softmax64(net)).mean() for net in outputs)
    assert isinstance(expected, Tensor)
    close(method.loss(outputs, batch_of(data, torch.arange(B), 50)), expected)


def test_soft_targets_give_the_expected_loss_and_the_order_by_it() -> None:
    t = random_targets(N, C, seed=4)
    method, data = set_up(CoTeaching(forget_rate=0.5, ramp=1)), train_set(stored(t), C)
    outputs = random_logits(2, B, C, seed=5).requires_grad_()
    losses = torch.stack([entropy64(t[:B], softmax64(net)) for net in outputs])
    first, second = ([int(i) for i in row.argsort()[:3]] for row in losses.detach())
    expected = losses[0, second].mean() + losses[1, first].mean()
    loss = method.loss(outputs, batch_of(data, torch.arange(B), 5))
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_the_two_networks_are_treated_alike() -> None:
    method, data = set_up(CoTeaching(forget_rate=0.5, ramp=1)), train_set(LABELS, C)
    outputs, batch = random_logits(2, B, C, seed=6), batch_of(data, torch.arange(B), 5)
    close(method.loss(outputs, batch), method.loss(outputs.flip(0), batch))


def test_nobody_kept_is_a_loss_of_zero_with_a_gradient_of_zero() -> None:
    losses = torch.rand(2, B).requires_grad_()
    nobody = torch.zeros(B, dtype=torch.bool)
    for total in (exchanged(losses, 0), exchanged(losses, torch.tensor(0), nobody)):
        assert float(total.detach()) == 0
        assert not gradient(total, losses).any()


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan"), "automatic"])
def test_rates_out_of_range_are_refused(rate: Any) -> None:
    with pytest.raises(ConfigError, match="forget_rate"):
        CoTeaching(forget_rate=rate)
