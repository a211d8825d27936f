"""NLNL: each of its five stages against the authors' rule, written out in float64 or left to torch's own losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import Method
from selc.methods.nlnl import NLNL, log_not, not_these
from selc.types import Labels, Outcome, StagePlan, TrainSet
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    one_hot64,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, PLAN, B, C, N, NoTrain

COUNTS = torch.bincount(LABELS, minlength=C).double()
WEIGHTS = COUNTS.max() / COUNTS  # the authors' class weights


def at(
    stage: Any, earlier: Tensor | None = None, data: TrainSet | None = None, epochs: int = 8, **options: Any
) -> NLNL:
    """The method in one of its stages, set up."""
    method = NLNL(**options)
    method.stage = stage
    method.earlier = None if earlier is None else Labels(stored(earlier), earlier.shape[1])
    data = data or train_set(LABELS, C)
    method.check(data, StagePlan(epochs, B))
    method.setup(data, StagePlan(epochs, B))
    return method


# log(1 - p), and the classes that a sample is told not to be


def test_log_not_is_the_logarithm_of_one_minus_p() -> None:
    outputs = random_logits(50, C, seed=0, scale=4.0).requires_grad_()
    expected = torch.log(1 - softmax64(outputs))
    close(log_not(outputs), expected)
    weights = random_logits(50, C, seed=1)
    close(gradient(log_not(outputs) * weights, outputs), gradient(expected * weights, outputs), atol=1e-5)


@pytest.mark.parametrize("size", [20.0, 200.0, 1e4])
def test_log_not_is_exact_where_one_minus_p_is_lost_to_rounding(size: float) -> None:
    """By hand: with outputs (size, 0, 0, 0), 1 - p of the first is 3 / (e^size + 3)."""
    outputs = torch.tensor([[size, 0.0, 0.0, 0.0]]).requires_grad_()
    loss = log_not(outputs)
    close(loss[0, 0].detach(), torch.tensor(math.log(3) - size), atol=1e-3)
    close(gradient(loss[0, 0], outputs)[0], torch.tensor([-1.0, 1 / 3, 1 / 3, 1 / 3]), atol=1e-4)
    assert gradient(log_not(outputs), outputs).isfinite().all()


def test_log_not_of_equal_classes_is_by_hand() -> None:
    close(log_not(torch.zeros(1, 2)), torch.tensor([[math.log(0.5), math.log(0.5)]]))


def test_classes_are_drawn_uniformly_from_all_but_the_label() -> None:
    """Counts are binomial: within 5 standard deviations of a third of the draws."""
    draws = 3000
    chosen = not_these(GIVEN.float(), draws, seed=4)
    assert chosen.shape == (N, draws)
    assert not bool((chosen == LABELS[:, None]).any())
    for label, row in zip(LABELS.tolist(), chosen, strict=True):
        counts = torch.bincount(row, minlength=C)
        assert int(counts[label]) == 0
        expected, error = draws / (C - 1), math.sqrt(draws * (1 / 3) * (2 / 3))
        assert all(abs(int(counts[k]) - expected) < 5 * error for k in range(C) if k != label)


def test_a_soft_label_is_drawn_each_time_before_the_classes_that_are_not_it() -> None:
    """P(k) = sum over labels y of t_y [k != y] / (C - 1), written out."""
    target, draws = random_targets(3, C, seed=2), 20_000
    chosen = not_these(target, draws, seed=5)
    for t, row in zip(target.double(), chosen, strict=True):
        expected = torch.stack([sum(t[y] / (C - 1) for y in range(C) if y != k) for k in range(C)])
        shares = torch.bincount(row, minlength=C).double() / draws
        assert float((shares - expected).abs().max()) < 5 * 0.5 / math.sqrt(draws)


def test_draws_depend_on_the_seed_of_the_batch_alone() -> None:
    target = GIVEN.float()
    assert torch.equal(not_these(target, 9, seed=1), not_these(target, 9, seed=1))
    assert not torch.equal(not_these(target, 9, seed=1), not_these(target, 9, seed=2))


@pytest.mark.parametrize(
    ("classes", "epochs", "count"),
    [(10, 720, 1), (100, 720, 110), (100, 60, 110), (14, 720, 15), (10, 60, 1), (3, 6, 1)],
)
def test_as_many_classes_are_drawn_as_published(classes: int, epochs: int, count: int) -> None:
    """With equal outputs every log(1 - p) is the same, so the loss counts them."""
    labels = torch.arange(2 * classes) % classes
    data = train_set(labels, classes)
    method = at("NL", data=data, epochs=epochs)
    loss = method.loss(torch.zeros(2 * classes, classes), batch_of(data, torch.arange(2 * classes)))
    close(loss, torch.full((2 * classes,), -count * math.log(1 - 1 / classes)), atol=1e-5)


# The five stages


def literal_negative(outputs: Tensor, index: Tensor, chosen: Tensor, keep: Tensor) -> Tensor:
    """The weighted mean over the samples that are kept, of the sum over the classes drawn."""
    p = softmax64(outputs)
    each = -sum(torch.log(1 - p[torch.arange(len(index)), chosen[:, r]]) for r in range(chosen.shape[1]))
    weight = WEIGHTS[LABELS[index]] * keep
    return (weight * each).sum() / weight.sum().clamp_min(1e-300)


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize("stage", ["NL", "SelNL"])
def test_negative_stages_learn_what_a_sample_is_not(stage: Any, negatives: int) -> None:
    earlier = random_targets(N, C, seed=7)
    method = at(stage, earlier if stage == "SelNL" else None, negatives=negatives, window=3)
    data = train_set(LABELS, C)
    history = [earlier.double()] * 3
    left_out = 0
    for epoch in range(5):
        predictions = torch.zeros(N, C, dtype=torch.float64)
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=100 * epoch + part).requires_grad_()
            batch = replace(batch_of(data, index, epoch + 0.5), seed=10 * epoch + part)
            loss = method.loss(outputs, batch).mean()
            q_y = torch.stack(history[-3:]).mean(dim=0)[index, LABELS[index]]
            keep = (q_y >= 1 / C).double() if stage == "SelNL" else torch.ones(len(index)).double()
            left_out += int((keep == 0).sum())
            expected = literal_negative(outputs, index, not_these(batch.target, negatives, batch.seed), keep)
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
            predictions[index] = softmax64(outputs.detach())
        history.append(predictions)  # the authors fill in an epoch's predictions when it is over
    assert (left_out > 0) == (stage == "SelNL")
    close(method.belief(no_sweep).full(), torch.stack(history[-3:]).mean(dim=0))


def test_selected_positive_learning_is_torchs_weighted_cross_entropy_that_ignores_the_others() -> None:
    earlier = random_targets(N, C, seed=8)
    earlier[0] = GIVEN[0].float()
    method = at("SelPL", earlier, cut=0.3, window=2)
    data = train_set(LABELS, C)
    history = [earlier.double()] * 2
    ignored = 0
    for epoch in range(4):
        predictions = torch.zeros(N, C, dtype=torch.float64)
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=100 * epoch + part).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch)).mean()
            q_y = torch.stack(history[-2:]).mean(dim=0)[index, LABELS[index]]
            label = torch.where(q_y < 0.3, -100, LABELS[index])
            ignored += int((label < 0).sum())
            if bool((label >= 0).any()):
                expected = F.cross_entropy(outputs.double(), label, weight=WEIGHTS, ignore_index=-100)
                close(loss, expected)
                close(gradient(loss, outputs), gradient(expected, outputs))
            else:
                assert float(loss.detach()) == 0.0
            predictions[index] = softmax64(outputs.detach())
        history.append(predictions)
    assert 0 < ignored < 4 * N


def test_the_first_pseudo_stage_learns_from_the_samples_that_selpl_ended_with() -> None:
    earlier = random_targets(N, C, seed=9)
    earlier[LABELS == 2] = one_hot64(torch.tensor([0]), C).float()  # no label of class 2 is believed
    method = at("pseudo-1", earlier, cut=0.25)
    data = train_set(LABELS, C)
    keep = earlier[torch.arange(N), LABELS] >= 0.25
    counts = torch.bincount(LABELS[keep], minlength=C).double()
    weights = torch.where(counts > 0, counts.max() / counts, 0.0)
    assert 0 < int(keep.sum()) < N
    assert float(counts[2]) == 0
    for epoch in range(3):
        outputs = random_logits(N, C, seed=epoch).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N), epoch)).mean()
        expected = F.cross_entropy(outputs.double(), torch.where(keep, LABELS, -100), weight=weights)
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))
    seen = [softmax64(random_logits(N, C, seed=epoch)) for epoch in range(3)]
    close(method.belief(no_sweep).full(), torch.stack(seen).mean(dim=0))  # its own predictions, on all samples


def test_the_second_pseudo_stage_learns_soft_labels_of_all_samples() -> None:
    soft = random_targets(N, C, seed=10)
    data = train_set(stored(soft), C)
    method = at("pseudo-2", data=data)
    counts = torch.bincount(soft.argmax(dim=1), minlength=C).double()
    weights = torch.where(counts > 0, counts.max() / counts.clamp_min(1), 0.0)
    outputs = random_logits(N, C, seed=0).requires_grad_()
    loss = method.loss(outputs, batch_of(data, torch.arange(N))).mean()
    each = -(soft.double() * torch.log(softmax64(outputs))).sum(dim=1)
    weight = soft.double() @ weights  # of a soft label: the expectation
    expected = (weight * each).sum() / weight.sum()
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


class MadeUp(NoTrain):
    """A training that is not one: it notes what it was asked to do, and hands out made-up tables."""

    def __init__(self, cut_off: bool = False) -> None:
        self.asked: list[tuple[NLNL, TrainSet, dict[str, Any]]] = []
        self.models = [nn.Identity() for _ in range(5)]
        self.cut_off = cut_off

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        assert isinstance(method, NLNL)
        plan = StagePlan(changes.get("epochs", self.epochs), B)
        method.check(data, plan)
        method.setup(data, plan)
        number = len(self.asked)
        rows = random_targets(N, C, seed=number)
        if self.cut_off:
            rows = 1 - GIVEN.float()
            rows /= rows.sum(dim=1, keepdim=True)
        self.asked.append((method, data, changes))
        nothing = torch.zeros(0, N)
        return Outcome(self.models[number], stored(rows), stored(rows), nothing, nothing, nothing, nothing)


def test_five_stages_of_which_the_first_three_train_one_network() -> None:
    method, train, data = NLNL(cut=0.1), MadeUp(), train_set(LABELS, C)
    train.epochs = 90
    outcome = method.fit(data, train)
    assert [asked.stage for asked, _, _ in train.asked] == ["NL", "SelNL", "SelPL", "pseudo-1", "pseudo-2"]
    changes = [change for _, _, change in train.asked]
    assert [change.get("model") for change in changes] == [None, train.models[0], train.models[1], None, None]
    assert [change.get("schedule") for change in changes] == ["constant"] * 3 + [None] * 2
    assert [change.get("epochs") for change in changes] == [None] * 3 + [60, 60]  # 720 to 480, as published
    rows = torch.arange(N)
    for number in (1, 2, 3):
        earlier = train.asked[number][0].earlier
        assert earlier is not None
        assert torch.equal(earlier.read(rows), random_targets(N, C, seed=number - 1))
    assert all(torch.equal(asked.labels.read(rows).double(), GIVEN) for _, asked, _ in train.asked[:4])
    assert torch.equal(train.asked[4][1].labels.read(rows), random_targets(N, C, seed=3))
    assert torch.equal(outcome.target.full(), random_targets(N, C, seed=3))
    assert outcome.model is train.models[4]


def test_it_stops_with_a_sentence_when_no_label_is_believed() -> None:
    method, data = NLNL(), train_set(LABELS, C)
    with pytest.raises(ConfigError, match=r"some labels must reach a mean probability of 0\.5 \(cut\) before SelPL"):
        method.fit(data, MadeUp(cut_off=True))


def test_rows_that_are_held_out_do_not_count() -> None:
    data = replace(train_set(LABELS, C), rows=torch.arange(6))
    method = at("NL", data=data)
    counts = torch.bincount(LABELS[:6], minlength=C).double()
    close(method.class_weights, torch.where(counts > 0, counts.max() / counts.clamp_min(1), 0.0))
    method.loss(random_logits(6, C, seed=0), batch_of(data, torch.arange(6)))
    assert torch.equal(method.belief(no_sweep).full()[6:].double(), GIVEN[6:])


def test_a_batch_of_which_nobody_is_selected_has_no_loss_and_no_gradient() -> None:
    earlier = 1 - GIVEN.float()
    for stage in ("SelNL", "SelPL"):
        method = NLNL()
        method.stage, method.earlier = stage, Labels(stored(earlier / 3), C)
        data = train_set(LABELS, C)
        method.setup(data, PLAN)
        outputs = random_logits(N, C, seed=0).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N)))
        assert float(loss.detach().abs().max()) == 0.0
        assert float(gradient(loss, outputs).abs().max()) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, N])
@pytest.mark.parametrize("stage", ["NL", "SelNL", "SelPL", "pseudo-1", "pseudo-2"])
def test_edges_are_finite(stage: Any, rows: int, dtype: torch.dtype) -> None:
    """p exactly 0 and 1, right and wrong, and a batch of one."""
    method = at(stage, None if stage in ("NL", "pseudo-2") else GIVEN.float())
    data = train_set(LABELS, C)
    guess = torch.cat([(LABELS[:6] + 1) % C, LABELS[6:]])[:rows]
    outputs = (1e4 * one_hot64(guess, C)).to(dtype).requires_grad_()
    for epoch in range(2):
        loss = method.loss(outputs, batch_of(data, torch.arange(rows), epoch))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
    close(method.belief(no_sweep).full().sum(dim=1), torch.ones(N))


@pytest.mark.parametrize(
    "options",
    [{"negatives": 0}, {"negatives": "many"}, {"cut": 1.0}, {"cut": math.nan}, {"window": 0}, {"pseudo": 0.0}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        NLNL(**options)
