"""Co-teaching beyond its formula (see test_formulas.py): the estimated rate, the ramp, soft targets, empty choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from selc.core import Store
from selc.core.turning import Turn
from selc.errors import ConfigError
from selc.methods import CE, CoTeaching, Method
from selc.methods.co_teaching import exchanged
from selc.types import Outcome, TrainSet
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    random_labels,
    random_logits,
    random_targets,
    softmax64,
    train_set,
)

N, B, C = 12, 6, 4
LABELS = random_labels(N, C, seed=0)


class Asked(NamedTuple):
    """What a training was asked to do."""

    method: Method
    data: TrainSet
    model: nn.Module | None
    stop: Any
    changes: dict[str, Any]


class Stages:
    """A training that is not one: it notes what it was asked to do, and hands out made-up outcomes."""

    def __init__(self, answer: Callable[[int, Asked], Outcome]) -> None:
        self.answer = answer
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


def table(rows: Tensor) -> Store:
    store = Store(*rows.shape)
    store.write(torch.arange(len(rows)), rows)
    return store


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
        table(probs if target is None else target),
        table(probs),
        nothing if losses is None else losses,
        nothing if predictions is None else predictions,
        nothing,
        nothing,
        history or [],
    )


def turned(dispute: float, half: float, peak: float = 1.5) -> list[dict[str, Any]]:
    """The history of a training that was watched: ``half`` is the dispute among the more confident half."""
    return [{"lr": 0.5, "turning_point": Turn(peak, 1.5, 0.9, dispute, half, half, "made up")._asdict()}]


def test_auto_forgets_as_many_as_a_short_training_finds_wrong() -> None:
    """By hand: the estimate is halfway between the dispute among all and that among the more confident half."""
    train = Stages(lambda number, _: outcome(random_targets(N, C, seed=number), history=turned(0.5, 0.3)))
    data = train_set(LABELS, C)
    result = CoTeaching(ramp=7).fit(data, train)
    first, second = train.asked
    assert isinstance(first.method, CE)
    assert first.stop is not None
    assert isinstance(second.method, CoTeaching)
    assert second.method.forget_rate == pytest.approx(0.4)
    assert second.method.ramp == 7
    assert second.data is data
    close(result.probs.full(), random_targets(N, C, seed=1))


def test_the_estimate_is_never_more_than_a_guess_would_be_wrong() -> None:
    train = Stages(lambda *_: outcome(random_targets(N, C, seed=0), history=turned(1.0, 1.0)))
    CoTeaching().fit(train_set(LABELS, C), train)
    method = train.asked[1].method
    assert isinstance(method, CoTeaching)
    assert method.forget_rate == pytest.approx(1 - 1 / C)


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
    method.check(data, epochs, 8)
    index, outputs = torch.arange(8), random_logits(2, 8, C, seed=0).requires_grad_()
    learnt = gradient(method.loss(outputs, batch_of(data, index, clock)), outputs).abs().sum(dim=2) > 0
    assert learnt.sum(dim=1).tolist() == [keep, keep]


def test_a_training_that_is_over_before_the_ramp_is_says_so() -> None:
    data = train_set(LABELS, C)
    assert "ramp" in (CoTeaching(ramp=10).check(data, 10, 8) or "")
    assert CoTeaching(ramp=10).check(data, 11, 8) is None
    assert CoTeaching(ramp=0.5).check(data, 2, 8) is None


def test_nobody_is_forgotten_while_the_rate_is_not_known() -> None:
    method, data = CoTeaching(), train_set(LABELS, C)
    outputs = random_logits(2, B, C, seed=3)
    expected = sum(entropy64(data.labels.read(torch.arange(B)), softmax64(net)).mean() for net in outputs)
    assert isinstance(expected, Tensor)
    close(method.loss(outputs, batch_of(data, torch.arange(B), 50)), expected)


def test_soft_targets_give_the_expected_loss_and_the_order_by_it() -> None:
    t = random_targets(N, C, seed=4)
    method, data = CoTeaching(forget_rate=0.5, ramp=1), train_set(table(t), C)
    outputs = random_logits(2, B, C, seed=5).requires_grad_()
    losses = torch.stack([entropy64(t[:B], softmax64(net)) for net in outputs])
    first, second = ([int(i) for i in row.argsort()[:3]] for row in losses.detach())
    expected = losses[0, second].mean() + losses[1, first].mean()
    loss = method.loss(outputs, batch_of(data, torch.arange(B), 5))
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_the_two_networks_are_treated_alike() -> None:
    method, data = CoTeaching(forget_rate=0.5, ramp=1), train_set(LABELS, C)
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
