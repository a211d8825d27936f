"""SELF: its loss, its teacher, its ensemble and its filter against their definitions, written out in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from selc.callbacks import EpochRecord
from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.base import Method
from selc.methods.self_filter import SELF, Patience, Taught, shared
from selc.types import Outcome, StagePlan, TrainSet
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    one_hot64,
    random_logits,
    random_targets,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, C, N, NoTrain, Over, ready, sweeping
from tests.toy import fit, small_net, trainer
from tests.toy import train_set as toy_set

# The loss


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("clock", [0.0, 1.5, 4.9, 5.0, 170.0])
def test_loss_is_filtered_cross_entropy_plus_ramped_distance_to_the_teacher(clock: float, soft: bool) -> None:
    method = SELF(consistency=7.0)  # the ramp is 5 of 180 epochs
    given = random_targets(N, C, seed=5)
    data = ready(method, train_set(stored(given), C) if soft else None, epochs=180, batch_size=4)
    method.labelled = (torch.arange(N) % 3 > 0).float()
    outputs = random_logits(2, N, C, seed=1).requires_grad_()
    loss = method.loss(outputs, batch_of(data, torch.arange(N), clock))
    p, teacher = softmax64(outputs[0]), softmax64(outputs[1]).detach()
    weight = 7.0 * math.exp(-5 * (1 - min(clock / 5, 1)) ** 2)
    target = given.double() if soft else GIVEN
    expected = torch.stack(
        [
            (0.0 if i % 3 == 0 else 1.0) * -(target[i] * p[i].log()).sum() + weight * ((p[i] - teacher[i]) ** 2).sum()
            for i in range(N)
        ]
    )
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_without_a_filter_and_with_an_agreeing_teacher_it_is_cross_entropy() -> None:
    method = SELF()
    data = ready(method, epochs=180, batch_size=4)
    outputs = random_logits(N, C, seed=1)
    loss = method.loss(torch.stack([outputs, outputs]), batch_of(data, torch.arange(N), 99))
    close(loss, -torch.log(softmax64(outputs)).gather(1, LABELS[:, None]).squeeze(1))


def test_a_batch_without_labels_learns_from_the_teacher_alone() -> None:
    method = SELF(ramp=0)
    data = ready(method, epochs=180, batch_size=4)
    method.labelled = torch.zeros(N)
    outputs = random_logits(2, 1, C, seed=1).requires_grad_()
    loss = method.loss(outputs, batch_of(data, torch.tensor([3])))
    close(loss, 10 * (softmax64(outputs[0]) - softmax64(outputs[1])).square().sum(dim=1))
    assert gradient(loss, outputs)[0].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype) -> None:
    method = SELF()
    data = ready(method, epochs=180, batch_size=4)
    sure = (1e4 * one_hot64((LABELS + torch.arange(N) % 2) % C, C)).to(dtype)
    outputs = torch.stack([sure, sure.flip(1)]).requires_grad_()
    loss = method.loss(outputs, batch_of(data, torch.arange(N), 50))
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()
    assert gradient(loss, outputs).isfinite().all()


# The teacher


def test_the_teacher_is_a_plain_mean_of_the_students_weights_at_first_and_then_an_average_by_gamma() -> None:
    torch.manual_seed(0)
    model = Taught(nn.Linear(3, C), gamma=0.75).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    mean = None
    for step in range(9):
        now = model.student.weight.detach().clone().double()  # type: ignore[operator]
        gamma = min(1 - 1 / (step + 1), 0.75)
        mean = now if mean is None else gamma * mean + (1 - gamma) * now
        outputs = model(random_logits(6, 3, seed=step))
        close(model.teacher.get_buffer("weight"), mean)
        optimizer.zero_grad()
        outputs[0].square().mean().backward()
        optimizer.step()
    assert not torch.equal(model.teacher.get_buffer("weight"), model.student.weight)  # type: ignore[arg-type]


def test_the_optimizer_sees_the_student_only_and_predictions_are_the_teachers() -> None:
    torch.manual_seed(0)
    method = SELF(gamma=0.9)
    model = method.build(small_net, 3)
    assert isinstance(model, Taught)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"student"}
    with torch.no_grad():
        for weight in model.student.parameters():
            weight.add_(1.0)
    model.eval()
    x = random_logits(5, 4, seed=0)
    outputs = model(x)
    assert outputs.shape == (5, 3)
    assert torch.equal(outputs, model.teacher(x))
    assert not torch.allclose(outputs, model.student(x))
    close(method.probs(outputs), softmax64(model.teacher(x)))
    stacked = random_logits(2, 5, 3, seed=1)
    close(method.probs(stacked), softmax64(stacked[1]))


def test_the_teacher_of_a_recurrent_network_follows_too() -> None:
    torch.manual_seed(0)
    model = Taught(nn.Sequential(nn.LSTM(3, 5)), gamma=0.0)
    with torch.no_grad():
        for weight in model.student.parameters():
            weight.mul_(2.0)
        model.follow()
        x = random_logits(7, 2, 3, seed=0)
        close(model.teacher(x)[0], model.student(x)[0])


def test_gamma_is_that_of_mean_teacher_for_a_run_on_cifar_and_less_for_a_short_one() -> None:
    assert SELF()._gamma(200 * math.ceil(50_000 / 128)) == pytest.approx(0.999, abs=5e-5)
    assert SELF()._gamma(600) == pytest.approx(1 - 80 / 600)
    assert SELF(gamma=0.5)._gamma(600) == 0.5


def test_gamma_follows_from_the_steps_of_the_whole_run() -> None:
    """By hand: 100 epochs of 12 rows in batches of 4 are 300 steps, whatever is held out of the rows."""
    train = MadeUp([0, 1])
    train.epochs, train.batch_size = 100, 4
    SELF(val=0.25, iterations=1).fit(train_set(LABELS, C), train)
    assert [method.gamma for method, _, _ in train.asked] == [pytest.approx(1 - 80 / 300)] * 2


# The ensemble and the filter


def test_the_ensemble_averages_the_predictions_and_the_belief_is_that_of_the_best_epoch() -> None:
    method = SELF(alpha=0.6)
    held = torch.tensor([0, 1, 2, 3])
    method.held = held
    ready(method, epochs=180, batch_size=4)
    z, accuracies, after = torch.zeros(N, C, dtype=torch.float64), [], []
    for epoch in range(6):
        rows = random_targets(N, C, seed=30 + epoch)
        method.end_epoch(epoch, sweeping(rows))
        z = 0.6 * z + 0.4 * rows.double()
        after.append(z)
        accuracies.append(sum(int(rows[i].argmax()) == int(LABELS[i]) for i in held.tolist()))
        best = max(range(epoch + 1), key=lambda e: (accuracies[e], e))  # of several as good the last
        expected = after[best] / after[best].sum(dim=1, keepdim=True)
        close(method.belief(no_sweep).full(), expected)
        assert int(method.best_epoch) == best
    assert len(set(accuracies)) > 1


def test_the_ensemble_goes_on_with_that_of_the_training_before() -> None:
    method, earlier = SELF(alpha=0.6), random_targets(N, C, seed=50)
    method.earlier = train_set(stored(earlier), C).labels
    ready(method, epochs=180, batch_size=4)
    rows = random_targets(N, C, seed=51)
    method.end_epoch(0, sweeping(rows))
    close(method.belief(no_sweep).full(), 0.6 * earlier.double() + 0.4 * rows.double())


def test_the_weights_of_the_best_epoch_are_kept() -> None:
    torch.manual_seed(0)
    method = SELF(gamma=0.0)
    method.held = torch.tensor([0, 1])
    data = ready(method, epochs=180, batch_size=4)
    model = method.build(lambda outputs: nn.Linear(1, outputs), C)
    assert isinstance(model, Taught)
    weights = []
    for epoch, right in enumerate([0, 2, 1]):
        with torch.no_grad():
            model.student.get_parameter("weight").add_(1.0)
        method.step(model, batch_of(data, torch.arange(N), epoch))
        weights.append(model.teacher.get_buffer("weight").clone())
        predicted = LABELS.clone()
        predicted[right:2] = (predicted[right:2] + 1) % C
        method.end_epoch(epoch, sweeping(torch.eye(C)[predicted]))
    assert torch.equal(model.best.get_buffer("weight"), weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert all("model" not in name for name in method.state_dict())


@pytest.mark.parametrize(("patience", "epochs", "limit"), [(3, 100, 3), (0.15, 100, 15), (0.15, 2, 1)])
def test_a_training_is_stale_when_its_best_epoch_lies_back(patience: float, epochs: int, limit: int) -> None:
    method = SELF(patience=patience)
    ready(method, epochs=epochs, batch_size=4)
    method.best_epoch.fill_(10)
    patient = Patience(method)
    assert not patient.on_epoch_end(EpochRecord({"epoch": 9 + limit}))
    assert patient.on_epoch_end(EpochRecord({"epoch": 10 + limit}))


def test_the_filter_keeps_labels_that_the_ensemble_shares_but_never_takes_all_of_a_class() -> None:
    """By hand: class 3 would lose every label, so it keeps them."""
    given = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    believed = torch.tensor([0, 1, 1, 1, 0, 2, 0, 1])
    data = train_set(given, C)
    target = Store.from_labels(believed, C)
    assert shared(target, data).tolist() == [1, 0, 1, 1, 0, 1, 1, 1]
    # Row 5 is held out: of class 2 only row 4 is left, which is not shared, so the class keeps its labels.
    some = replace(data, rows=torch.tensor([0, 1, 2, 3, 4, 6, 7]))
    assert shared(target, some).tolist()[4] == 1


# The trainings


class MadeUp(NoTrain):
    """A training that is not one: made-up beliefs, and given numbers of right predictions in its best epoch."""

    def __init__(self, right: list[int]) -> None:
        self.right = right
        self.asked: list[tuple[SELF, TrainSet, dict[str, Any]]] = []
        self.outcomes: list[Outcome] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        assert isinstance(method, SELF)
        assert method.held is not None
        number = len(self.asked)
        method.setup(data, StagePlan(self.epochs, self.batch_size))
        method.best_accuracy.fill_(self.right[number] / len(method.held))
        self.asked.append((method, data, changes))
        nothing = torch.zeros(0, N)
        belief = stored(random_targets(N, C, seed=40 + number))
        model = Taught(nn.Linear(1, 1), gamma=0.5)
        with torch.no_grad():
            model.student.get_parameter("weight").add_(1.0)
            model.teacher.get_buffer("weight").sub_(1.0)
        self.outcomes.append(Outcome(model, belief, belief, nothing, nothing, nothing, nothing, stage=number))
        return self.outcomes[-1]


@pytest.mark.parametrize(
    ("right", "trainings", "chosen"),
    [
        ([0, 1, 3, 2], 4, 2),  # better, then worse: the better one
        ([0, 1, 3, 3, 2], 5, 3),  # as good: the later one
        ([0, 1, 2, 3, 4, 5], 6, 5),  # ends with the number of iterations
        ([6, 5], 2, 0),  # no filter helps
    ],
)
def test_filtered_trainings_go_on_until_one_is_worse(right: list[int], trainings: int, chosen: int) -> None:
    method, train, data = SELF(val=0.5, iterations=5), MadeUp(right), train_set(LABELS, C)
    train.epochs, train.batch_size = 20, 4
    outcome = method.fit(data, train)
    assert len(train.asked) == trainings
    assert outcome is train.outcomes[chosen]


def test_each_filter_is_that_of_the_training_before_applied_to_the_given_labels() -> None:
    method, train, data = SELF(val=0.25, iterations=2), MadeUp([0, 1, 2]), train_set(LABELS, C)
    train.epochs, train.batch_size = 20, 4
    method.fit(data, train)
    assert train.asked[0][0].labelled is None
    for number in (1, 2):
        asked, used, changes = train.asked[number]
        assert asked.labelled is not None
        believed = random_targets(N, C, seed=40 + number - 1).argmax(dim=1)
        rows = used.rows
        assert rows is not None
        lost = {c for c in range(C) if not bool((believed == LABELS)[rows][LABELS[rows] == c].any())}
        expected = [float(int(b) == y or y in lost) for b, y in zip(believed, LABELS.tolist(), strict=True)]
        assert asked.labelled.tolist() == expected
        assert asked.earlier is not None
        assert torch.equal(asked.earlier.read(torch.arange(N)), train.outcomes[number - 1].target.full())
        before, model = train.outcomes[number - 1].model, changes["model"]
        assert isinstance(before, Taught)
        assert model is not before  # a copy: the earlier outcome may be the one to return
        for part in (model.student, model.teacher):
            assert torch.equal(part.weight, before.best.weight)  # type: ignore[arg-type]
        assert not torch.equal(model.student.weight, before.student.weight)  # type: ignore[arg-type]
        assert torch.equal(used.labels.hard, LABELS)


def test_held_out_rows_are_never_trained_on_and_the_same_in_every_training() -> None:
    method, data = SELF(val=0.2, patience=2, iterations=2), toy_set()
    real, held = trainer(), []

    class Spy(Over):
        def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
            assert isinstance(method, SELF)
            outcome = super().__call__(method, data, **changes)
            assert method.held is not None
            held.append(method.held.tolist())
            assert outcome.losses[:, method.held].isnan().all()
            assert not outcome.losses[:, data.rows].isnan().any()
            return outcome

    method.fit(data, Spy(real))
    assert len(held) >= 2
    assert all(rows == held[0] for rows in held)
    assert len(held[0]) == 18


def test_wrong_labels_of_the_toy_data_are_filtered_out() -> None:
    """Known answer: the first 9 of 90 labels are wrong."""
    outcome = fit(SELF(iterations=1), epochs=30)
    assert (outcome.believed_labels[:9] == torch.arange(9) % 3).float().mean() > 0.8
    assert (outcome.believed_labels[9:] == torch.arange(9, 90) % 3).float().mean() > 0.95


def test_too_few_rows_to_hold_one_out_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"val must hold out a row .* got 0.05 of 12 rows"):
        SELF(val=0.05).check(train_set(LABELS, C), StagePlan(20, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 1.0},
        {"gamma": 1.0},
        {"gamma": "fast"},
        {"consistency": -1.0},
        {"ramp": -0.1},
        {"patience": 0.0},
        {"val": 0.0},
        {"val": 1.0},
        {"iterations": 0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SELF(**options)
