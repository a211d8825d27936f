"""The abstaining classifier against its published loss, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import Method
from selc.methods.ce import CE
from selc.methods.dac import DAC, abstained, kept_rows, log_answering
from selc.types import Labels, Outcome, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    no_sweep,
    one_hot64,
    random_labels,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)

N, B, C = 12, 5, 4
LABELS = random_labels(N, C, seed=0)
GIVEN = one_hot64(LABELS, C)


def ready(method: DAC, data: TrainSet | None = None, epochs: int = 8) -> TrainSet:
    data = data or train_set(LABELS, C)
    method.setup(data)
    assert method.check(data, epochs, B) is None
    return data


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
    method = DAC(warm_up=2)
    data = ready(method)
    outputs = random_logits(1, C + 1, seed=0)
    expected = F.cross_entropy(outputs, LABELS[[4]], reduction="none")
    close(method.loss(outputs, batch_of(data, torch.tensor([4]))), expected)
    assert method.loss(outputs, batch_of(data, torch.tensor([4]), 5)).isfinite().all()


def test_predictions_are_among_the_classes_alone() -> None:
    outputs = random_logits(N, C + 1, seed=0)
    close(DAC().probs(outputs), softmax64(outputs[:, :C]))
    model = DAC().build(lambda outputs: nn.Linear(3, outputs), C)
    assert isinstance(model, nn.Linear)
    assert model.out_features == C + 1


# What is left out


@pytest.mark.parametrize("soft", [False, True])
def test_its_belief_tells_how_often_it_abstained(soft: bool) -> None:
    labels = stored(random_targets(N, C, seed=3)) if soft else LABELS
    method = DAC(warm_up=2)
    data = ready(method, train_set(labels, C))
    given = data.labels.read(torch.arange(N)).double()
    close(method.belief(no_sweep).full(), given)
    times = torch.zeros(N, dtype=torch.float64)
    for epoch in range(8):
        outputs = random_logits(N, C + 1, seed=epoch)
        method.loss(outputs, batch_of(data, torch.arange(N), epoch))
        if epoch >= 2:
            times += (outputs.argmax(dim=1) == C).double()
    share = times / 6
    assert share.max() > 0
    belief = method.belief(no_sweep)
    close(belief.full(), (1 - share[:, None]) * given + share[:, None] / C)
    close(abstained(belief, data.labels), share, atol=1e-5)


def test_a_label_that_says_nothing_can_be_read_too() -> None:
    uniform = stored(torch.full((N, C), 1 / C))
    close(abstained(uniform, Labels(uniform, C)), torch.zeros(N))


def test_the_samples_abstained_from_most_often_are_left_out() -> None:
    share = torch.tensor([0.1, 0.9, 0.0, 0.5, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0])
    data = train_set(random_labels(10, C, seed=1), C)
    assert kept_rows(share, data, 0.3).tolist() == [0, 2, 4, 6, 7, 8, 9]
    assert kept_rows(share, data, 0.0).tolist() == list(range(10))
    assert kept_rows(share, data, 0.8).tolist() == [2, 4, 6, 7, 8, 9]  # it never abstained from these
    rows = torch.tensor([0, 1, 2, 5])
    assert kept_rows(share, TrainSet(data.inputs, data.labels, rows), 0.5).tolist() == [0, 2]


def test_somebody_is_left_even_if_it_abstained_from_all() -> None:
    data = train_set(random_labels(10, C, seed=1), C)
    assert len(kept_rows(torch.ones(10), data, 0.99)) == 1


class Trainings:
    """Trainings that are none: they note what they were asked to do, and hand out made-up results."""

    def __init__(self, targets: list[Tensor]) -> None:
        self.asked: list[tuple[Method, TrainSet]] = []
        self.targets = [stored(target) for target in targets]
        self.probs = [stored(random_targets(N, C, seed=30 + number)) for number in range(len(targets))]

    def __call__(self, method: Method, data: TrainSet, *, model: nn.Module | None = None, **changes: Any) -> Outcome:
        number, nothing = len(self.asked), torch.zeros(0, N)
        self.asked.append((method, data))
        return Outcome(nn.Identity(), self.targets[number], self.probs[number], nothing, nothing, nothing, nothing)


@pytest.mark.parametrize("retrain", [True, False])
def test_a_fresh_network_learns_the_rest_with_ce(retrain: bool) -> None:
    share = torch.zeros(N, 1)
    share[[2, 5, 7]] = torch.tensor([[0.5], [0.9], [0.7]])
    belief = ((1 - share) * GIVEN + share / C).float()
    method, train = DAC(remove=2 / 12, retrain=retrain), Trainings([belief, belief])
    outcome = method.fit(train_set(LABELS, C), train)
    kept = [row for row in range(N) if row not in (5, 7)]
    assert train.asked[0][0] is method
    assert train.asked[0][1].rows is None
    if retrain:
        second, data = train.asked[1]
        assert isinstance(second, CE)
        assert data.rows is not None
        assert data.rows.tolist() == kept
    else:
        assert len(train.asked) == 1
    expected = train.probs[-1 if retrain else 0].full().clone()
    expected[kept] = GIVEN[kept].float()
    close(outcome.target.full(), expected)


def test_the_share_to_leave_out_is_estimated_by_default() -> None:
    """Nine of the ninety labels of the toy are wrong."""
    asked: list[Method] = []
    trainer = toy.trainer(epochs=12)

    def train(method: Method, data: TrainSet, **given: Any) -> Outcome:
        asked.append(method)
        return trainer(method, data, **given)

    method, data = DAC(warm_up=4), toy.train_set()
    method.check(data, 12, 16)
    outcome = method.fit(data, train)
    assert [type(each) for each in asked] == [CE, DAC, CE]
    assert outcome.target.columns == toy.CLASSES


def test_it_trains_with_rows_held_out() -> None:
    outcome = toy.fit(DAC(warm_up=2, remove=0.2), val_fraction=0.2)
    assert outcome.history[-1]["val"]["top1"] >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"remove": 1.0},
        {"remove": -0.1},
        {"remove": "all"},
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
        DAC(warm_up=20).check(train_set(LABELS, C), 20, B)
