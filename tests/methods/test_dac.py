"""The abstaining classifier against its published loss, written out in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.ce import CE
from selc.methods.dac import DAC, kept_rows, log_answering, with_every_class
from selc.types import Outcome, StagePlan, Sweep, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    one_hot64,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, PLAN, Asked, B, C, N, Stages, outcome, ready, sweeping


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("factor", "final"), [(64.0, 1.0), (4.0, 0.3)])
def test_loss_follows_the_paper_over_several_epochs(factor: float, final: float, soft: bool) -> None:
    """Two epochs of CE over all outputs, then six of abstaining, with a price that ends at ``final``."""
    labels = stored(random_targets(N, C, seed=3)) if soft else LABELS
    method = DAC(warm_up=2, factor=factor, final=final)
    data = ready(method, train_set(labels, C))
    average = first_price = None
    prices = []
    for epoch in range(8):
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C + 1, seed=10 * epoch + part).requires_grad_()
            batch = batch_of(data, index, epoch + part / 3)
            loss = method.loss(outputs, batch)
            p = softmax64(outputs)
            a = p[:, C]
            h = entropy64(batch.target, softmax64(outputs[:, :C]))
            now = float(((1 - a) * h).mean().detach())
            average = now if average is None else 0.05 * now + 0.95 * average
            if epoch < 2:
                expected = entropy64(F.pad(batch.target, (0, 1)), p)
            else:
                if first_price is None:
                    first_price = average / factor
                price = first_price + (epoch - 2) * (final - first_price) / 5
                prices.append(price)
                expected = (1 - a) * h - price * torch.log(1 - a)
            close(loss, expected, atol=1e-5)
            close(gradient(loss, outputs), gradient(expected, outputs), atol=1e-5)
    assert prices[-1] == pytest.approx(final)
    assert prices[0] == first_price


def test_the_first_part_is_cross_entropy_over_all_outputs() -> None:
    method = DAC(warm_up=2)
    data = ready(method)
    outputs = random_logits(N, C + 1, seed=0)
    expected = F.cross_entropy(outputs, LABELS, reduction="none")
    close(method.loss(outputs, batch_of(data, torch.arange(N))), expected)


def test_the_warm_up_is_a_share_of_the_epochs() -> None:
    method = DAC()
    ready(method, epochs=200)
    assert method.start == 20  # the authors'
    ready(method, epochs=60)
    assert method.start == 6


@pytest.mark.parametrize("difference", [-100.0, -30.0, 0.0, 30.0, 100.0])
def test_the_log_of_not_abstaining_is_exact_at_both_ends(difference: float) -> None:
    """With one class log(1 - a) is -log(1 + e^d), d the logit to abstain above that of the class."""
    found = float(log_answering(torch.tensor([[0.0, difference]])))
    expected = -math.log1p(math.exp(difference)) if difference < 50 else -difference
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])
@pytest.mark.parametrize("clock", [0.0, 5.0])
def test_loss_and_gradient_are_finite_where_it_abstains_surely_or_never(
    clock: float, size: float, dtype: torch.dtype
) -> None:
    method = DAC(warm_up=2)
    data = ready(method)
    for label in (LABELS, (LABELS + 1) % C, torch.full((N,), C)):
        outputs = (size * one_hot64(label, C + 1)).to(dtype).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N), clock))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()


def test_a_batch_may_hold_one_sample() -> None:
    """By hand: it is alone in the running mean, and of the five epochs that follow the first price three are over."""
    method = DAC(warm_up=2, factor=4.0, final=0.3)
    data = ready(method, epochs=8)
    outputs = random_logits(1, C + 1, seed=0)
    expected = F.cross_entropy(outputs, LABELS[[4]], reduction="none")
    close(method.loss(outputs, batch_of(data, torch.tensor([4]))), expected)
    a = softmax64(outputs)[:, C]
    answered = (1 - a) * F.cross_entropy(outputs[:, :C].double(), LABELS[[4]], reduction="none")
    price = 0.4 * answered / 4 + 0.6 * 0.3
    close(method.loss(outputs, batch_of(data, torch.tensor([4]), 5)), answered - price * torch.log(1 - a))


def test_predictions_are_among_the_classes_alone() -> None:
    outputs = random_logits(N, C + 1, seed=0)
    close(DAC().probs(outputs), softmax64(outputs[:, :C]))
    model = DAC().build(lambda outputs: nn.Linear(3, outputs), C)
    assert isinstance(model, nn.Linear)
    assert model.out_features == C + 1


# What is left out


def test_the_best_epoch_says_from_whom_it_abstains() -> None:
    """By hand: among the judges' rows most labels are predicted in the second epoch in which it may abstain."""
    method = DAC(warm_up=1)
    method.judges = torch.tensor([0, 1, 2, 3])
    data = ready(method)
    right = [4, 1, 3, 3, 2]  # labels of the judges that are predicted in each epoch
    for epoch, count in enumerate(right):
        guess = torch.cat([LABELS[:count], (LABELS[count:] + 1) % C])
        outputs = F.pad(4.0 * torch.eye(C)[guess], (0, 1))
        outputs[epoch, C] = 6.0  # where it abstains
        method.end_epoch(epoch, sweep_of(outputs, data))
    a, abstains = method.abstained.full().T
    best = 2  # epoch 0 is before abstaining, and of two as good the first counts
    assert abstains.nonzero().flatten().tolist() == [best]
    e4, e6 = math.exp(4), math.exp(6)
    assert float(a[best]) == pytest.approx(e6 / (e6 + e4 + C - 1))
    assert float(a[5]) == pytest.approx(1 / (1 + e4 + C - 1))
    p = random_targets(N, C, seed=1)
    close(method.belief(sweeping(p)).full(), (1 - a[:, None]) * GIVEN + a[:, None] * p)


def sweep_of(outputs: Tensor, data: TrainSet) -> Sweep:
    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is not None
        return stored(fn(outputs, data.labels.read(torch.arange(N))))

    return sweep


def test_a_class_that_would_lose_every_sample_keeps_them() -> None:
    data = train_set(torch.tensor([0, 0, 1, 1, 2, 2]), 3)
    left_out = torch.tensor([True, False, True, True, False, False])
    assert with_every_class(left_out, data).tolist() == [True, False, False, False, False, False]
    some = TrainSet(data.inputs, data.labels, torch.tensor([0, 2, 3, 4, 5]))  # of class 0 only a sample left out
    assert with_every_class(left_out, some).tolist() == [False] * 6
    assert kept_rows(torch.tensor([True, False, False, False, True, False]), some).tolist() == [2, 3, 5]


@pytest.mark.parametrize("retrain", [True, False])
def test_a_fresh_network_learns_the_rest_with_ce(retrain: bool) -> None:
    a = torch.linspace(0.0, 0.9, N)
    from_whom = torch.zeros(N)
    from_whom[[5, 7]] = 1.0  # each of a class that has others

    def answer(number: int, asked: Asked) -> Outcome:
        if isinstance(asked.method, DAC):
            asked.method.setup(asked.data, PLAN)
            asked.method.abstained.write(torch.arange(N), torch.stack([a, from_whom], dim=1))
        return outcome(random_targets(N, C, seed=30 + number))

    method, train = DAC(retrain=retrain, held_out=0.2), Stages(answer)
    result = method.fit(train_set(LABELS, C), train)
    first = train.asked[0]
    assert first.method is method
    assert method.judges is not None
    assert first.data.rows is not None
    assert sorted([*method.judges.tolist(), *first.data.rows.tolist()]) == list(range(N))
    if retrain:
        second = train.asked[1]
        assert isinstance(second.method, CE)
        assert second.data.rows is not None
        assert second.data.rows.tolist() == [row for row in first.data.rows.tolist() if row not in (5, 7)]
    else:
        assert len(train.asked) == 1
    weight = torch.where(from_whom > 0, 0.0, 1 - a)[:, None]
    p = random_targets(N, C, seed=31 if retrain else 30)
    close(result.target.full(), weight * GIVEN + (1 - weight) * p)


def test_it_trains_with_rows_held_out() -> None:
    outcome = toy.fit(DAC(warm_up=2), val_fraction=0.2)
    assert outcome.history[-1]["val"]["top1"] >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"held_out": 1.0},
        {"held_out": 0.0},
        {"warm_up": -1.0},
        {"factor": 0.0},
        {"final": 0.0},
        {"final": math.nan},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        DAC(**options)


def test_a_warm_up_without_end_is_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="warm_up must end before the 20 epochs"):
        DAC(warm_up=20).check(train_set(LABELS, C), StagePlan(20, B))
