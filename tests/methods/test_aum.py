"""AUM: margins and the threshold against the authors' rule for one sample after another, written out in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError, TrainingError
from selc.memory import Store
from selc.methods.aum import AUM, Margins, margin, standardised
from selc.methods.base import Method
from selc.methods.ce import CE
from selc.types import Outcome, StagePlan, TrainSet
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    random_labels,
    random_logits,
    random_targets,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import LABELS, B, C, N, NoTrain, Over
from tests.toy import CLASSES, blobs, fit, trainer
from tests.toy import train_set as toy_set


def literal_margin(z: Tensor, y: int) -> float:
    return float(z[y].double() - max(z[c].double() for c in range(len(z)) if c != y))


# The margins


@pytest.mark.parametrize("epochs", [1, 4])
def test_the_area_is_the_mean_margin_over_the_epochs_after_the_first(epochs: int) -> None:
    """With one epoch there is no other to look at."""
    method, data = Margins(), train_set(LABELS, C)
    method.setup(data, StagePlan(epochs, B))
    margins: list[list[float]] = [[] for _ in range(N)]
    for epoch in range(epochs):
        rows = torch.randperm(N, generator=rng(epoch))[: N if epoch % 2 == 0 else 7]  # not every row in every epoch
        for part, index in enumerate(torch.split(rows, B)):
            outputs = random_logits(len(index), C, seed=100 * epoch + part).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + 0.2 * part))
            expected = -torch.log(softmax64(outputs)).gather(1, LABELS[index, None]).squeeze(1)
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
            if epoch > 0 or epochs == 1:
                for k, i in enumerate(index.tolist()):
                    margins[i].append(literal_margin(outputs[k].detach(), int(LABELS[i])))
    area = torch.tensor([sum(each) / len(each) for each in margins], dtype=torch.float64)
    close(method.belief(no_sweep).full(), area[:, None].expand(-1, C))


def test_a_row_that_was_never_seen_has_nothing_against_it() -> None:
    method, data = Margins(), train_set(LABELS, C)
    method.setup(data, StagePlan(3, B))
    method.loss(random_logits(6, C, seed=0), batch_of(data, torch.arange(6), 1))
    area = method.belief(no_sweep).full()[:, 0]
    assert area[:6].isfinite().all()
    assert (area[6:] == torch.inf).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_margins_of_huge_outputs_and_of_a_batch_of_one_are_finite(dtype: torch.dtype) -> None:
    outputs = torch.tensor([[1e4, 0.0, -1e4]]).to(dtype)
    assert margin(outputs, torch.tensor([[2]])).tolist() == [[float(outputs[0, 2] - outputs[0, 0])]]
    assert margin(outputs, torch.tensor([[0]])).tolist() == [[float(outputs[0, 0])]]


def test_margins_are_saved_with_the_training() -> None:
    data = train_set(LABELS, C)
    first, second = Margins(), Margins()
    for method in (first, second):
        method.setup(data, StagePlan(3, B))
    first.loss(random_logits(N, C, seed=0), batch_of(data, torch.arange(N), 1))
    second.load_state_dict(first.state_dict())
    for method in (first, second):
        method.loss(random_logits(N, C, seed=1), batch_of(data, torch.arange(N), 2))
    assert torch.equal(first.belief(no_sweep).full(), second.belief(no_sweep).full())


# The threshold


def literal_flags(area: list[float], chosen: list[int], quantile: float) -> list[bool]:
    """The authors' rule: wrong if more than 1 % of the threshold samples have a larger area."""
    return [sum(area[j] > a for j in chosen) / len(chosen) > 1 - quantile + 1e-12 for a in area]


@pytest.mark.parametrize("quantile", [0.99, 0.9, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 7, 100, 250])
def test_what_lies_below_the_threshold_is_what_the_authors_flag(size: int, quantile: float) -> None:
    area = random_logits(400, seed=size)
    chosen = torch.randperm(400, generator=rng(1))[:size]
    away = standardised(area, chosen, quantile)
    flags = literal_flags(area.tolist(), chosen.tolist(), quantile)
    others = [i for i in range(400) if i not in set(chosen.tolist())]
    assert [bool(away[i] < 0) for i in others] == [flags[i] for i in others]
    assert (away[chosen] == -torch.inf).all()


def test_the_distance_is_in_standard_deviations_of_the_threshold_samples() -> None:
    """By hand: of the areas 1, 3 and 5 the threshold is 5 and the deviation sqrt(8 / 3)."""
    area = torch.tensor([1.0, 3.0, 5.0, 4.0, 9.0, torch.inf])
    away = standardised(area, torch.tensor([0, 1, 2]), 0.99)
    close(away[3:5], torch.tensor([-1.0, 4.0]) / math.sqrt(8 / 3))
    assert float(away[5]) == torch.inf


def test_threshold_samples_that_are_all_alike_or_never_seen_do_no_harm() -> None:
    alike = standardised(torch.tensor([2.0, 2.0, 1.0, 2.0, 3.0]), torch.tensor([0, 1]), 0.99)
    assert [bool(a < 0) for a in alike[2:]] == [True, False, False]
    assert not alike.isnan().any()
    unseen = standardised(torch.tensor([torch.inf, 1.0]), torch.tensor([0]), 0.99)
    assert unseen.tolist() == [-torch.inf, torch.inf]


# The trainings


class MadeUp(NoTrain):
    """A training that is not one: the first two hand out made-up areas, the third made-up probabilities."""

    def __init__(self, areas: Tensor) -> None:
        self.areas = areas
        self.asked: list[tuple[Method, TrainSet, dict[str, Any]]] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        number = len(self.asked)
        self.asked.append((method, data, changes))
        rows = random_targets(len(data), data.num_classes, seed=60)
        if number < 2:
            rows = self.areas[number][:, None].expand(-1, data.num_classes)
        store = Store(len(data), data.num_classes)
        store.write(torch.arange(len(data)), rows)
        nothing = torch.zeros(0, len(data))
        return Outcome(nn.Identity(), store, store, nothing, nothing, nothing, nothing)


def test_labels_flagged_in_every_measurement_are_left_out_of_the_last_training() -> None:
    rows = 103
    labels = random_labels(rows, C, seed=2)
    areas = random_logits(2, rows, seed=3) + 2 * (torch.arange(rows) % 2)
    method, train, data = AUM(quantile=0.8), MadeUp(areas), train_set(labels, C)
    train.epochs = 300
    outcome = method.fit(data, train)
    chosen = []
    for measuring, measured, changes in train.asked[:2]:
        assert isinstance(measuring, Margins)
        assert changes == {"epochs": 150, "schedule": "constant"}  # half of the epochs, before the rate would drop
        assert measured.num_classes == C + 1
        extra = (measured.labels.hard == C).nonzero().flatten()
        assert len(extra) == rows // (C + 1)
        others = measured.labels.hard != C
        assert torch.equal(measured.labels.hard[others], labels[others])
        chosen.append(extra.tolist())
    assert not set(chosen[0]) & set(chosen[1])
    flags = [literal_flags(areas[run].tolist(), chosen[run], 0.8) for run in range(2)]
    expected = [i for i in range(rows) if not all(flags[run][i] for run in range(2) if i not in chosen[run])]
    final, used, changes = train.asked[2]
    assert type(final) is CE
    assert changes == {}
    assert used.rows is not None
    assert used.rows.tolist() == expected
    assert 0 < len(expected) < rows
    assert torch.equal(used.labels.hard, labels)
    assert used.num_classes == C
    # The belief: in what was left out the prediction weighs more than the label, in the rest less.
    belief, p = outcome.target.full(), random_targets(rows, C, seed=60)
    close(belief.sum(dim=1), torch.ones(rows))
    place = torch.arange(rows)
    weight = (belief[place, labels] - p[place, labels]) / (1 - p[place, labels])
    assert [i for i in range(rows) if float(weight[i]) >= 0.5 - 1e-5] == expected


def test_the_weight_of_the_label_is_the_logistic_function_of_the_distance() -> None:
    areas = torch.zeros(2, N)
    method, train, data = AUM(), MadeUp(areas), train_set(LABELS, C)
    train.epochs = 10
    method.fit(data, train)  # shows who the threshold samples are: two in each run
    first = (train.asked[0][1].labels.hard == C).nonzero().flatten()
    second = (train.asked[1][1].labels.hard == C).nonzero().flatten()
    others = torch.tensor([i for i in range(N) if i not in [*first.tolist(), *second.tolist()]])
    for run, extra in enumerate((first, second)):
        areas[run, extra] = torch.tensor([1.0, 3.0])  # threshold 3, deviation 1
    areas[0, others], areas[1, others] = 1.5, 2.5  # the better one counts
    again = MadeUp(areas)
    areas[0, second], areas[1, first] = 9.0, 9.0  # somebody must be left to learn from
    belief, p = method.fit(data, again).target.full(), random_targets(N, C, seed=60)
    w = 1 / (1 + math.exp(0.5))
    given = torch.eye(C)[LABELS]
    close(belief[others], w * given[others] + (1 - w) * p[others])


def test_rows_that_are_held_out_are_neither_threshold_samples_nor_changed() -> None:
    rows = torch.arange(0, 60, 2)
    data = replace(train_set(random_labels(60, C, seed=4), C), rows=rows)
    areas = torch.where(torch.arange(60) % 2 == 0, random_logits(60, seed=5), torch.inf).expand(2, -1)
    method, train = AUM(), MadeUp(areas)
    train.epochs = 10
    outcome = method.fit(data, train)
    for _, measured, _ in train.asked[:2]:
        assert set((measured.labels.hard == C).nonzero().flatten().tolist()) < set(rows.tolist())
    odd = torch.arange(1, 60, 2)
    assert torch.equal(outcome.target.full()[odd], torch.eye(C)[data.labels.hard[odd]])


def test_it_stops_with_a_sentence_when_no_label_is_above_the_threshold() -> None:
    data = train_set(LABELS, C)
    method, first = AUM(), MadeUp(torch.zeros(2, N))
    first.epochs = 10
    method.fit(data, first)
    areas = torch.zeros(2, N)
    for run in range(2):
        areas[run, first.asked[run][1].labels.hard == C] = 5.0
    with pytest.raises(TrainingError, match="aum must leave labels to learn from"):
        method.fit(data, MadeUp(areas))


def test_wrong_labels_of_the_toy_data_are_found_and_corrected() -> None:
    """Known answer: the first 9 of 90 labels are wrong."""
    method, data, real = AUM(), toy_set(), trainer(epochs=30)
    kept: list[Tensor] = []

    class Spy(Over):
        def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
            if type(method) is CE and data.rows is not None:
                kept.append(data.rows)
            return super().__call__(method, data, **changes)

    outcome = method.fit(data, Spy(real))
    assert int((kept[0] < 9).sum()) <= 1
    assert len(kept[0]) > 60
    assert outcome.model(blobs(30, seed=1)[0]).shape == (30, CLASSES)
    assert (outcome.believed_labels == torch.arange(90) % CLASSES).float().mean() > 0.95


def test_the_whole_training_measures_twice_and_then_trains() -> None:
    assert [entry["stage"] for entry in fit(AUM(), epochs=4).history] == [2] * 4


def test_too_few_samples_for_threshold_samples_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"aum must have 10 samples or more .* got 9"):
        AUM().check(replace(train_set(LABELS, C), rows=torch.arange(9)), StagePlan(10, B))


@pytest.mark.parametrize("options", [{"measure": 0.0}, {"quantile": 0.0}, {"quantile": 1.1}, {"quantile": math.nan}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        AUM(**options)
