"""The determinant loss against its formula, written out in float64, and what the two stages are asked to do."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods import dmi
from selc.methods.dmi import DMI
from selc.methods.noisy_validation import BestEpoch
from selc.types import Batch, Outcome, StagePlan
from tests.helpers import (
    batch_of,
    close,
    gradient,
    one_hot64,
    random_labels,
    random_logits,
    random_targets,
    softmax64,
    train_set,
)
from tests.methods.common import Asked, Stages, outcome

N, C = 40, 4
LABELS = random_labels(N, C, seed=0)


def batch(target: Tensor | None = None) -> Batch:
    given = batch_of(train_set(LABELS, C), torch.arange(N))
    return given if target is None else replace(given, target=target)


def learnt(seed: int = 1) -> Tensor:
    """Outputs of a network that has learnt something: those of the given class are larger."""
    return (random_logits(N, C, seed=seed, scale=1.0) + 2 * one_hot64(LABELS, C).float()).requires_grad_()


def joint64(target: Tensor, outputs: Tensor) -> Tensor:
    """M = sum_i y_i p_i^T, sample by sample."""
    p = softmax64(outputs)
    result = torch.zeros(C, C, dtype=torch.float64)
    for i in range(len(p)):
        result = result + target[i].double()[:, None] * p[i][None, :]
    return result


@pytest.fixture
def _no_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dmi, "RIDGE", 0.0)


@pytest.mark.usefixtures("_no_ridge")
@pytest.mark.parametrize("target", [one_hot64(LABELS, C).float(), random_targets(N, C, seed=3)], ids=["hard", "soft"])
def test_it_is_minus_the_log_of_the_determinant(target: Tensor) -> None:
    outputs = learnt()
    loss = DMI().loss(outputs, batch(target))
    expected = -torch.log(torch.abs(torch.det(joint64(target, outputs) / N)))
    assert loss.shape == ()
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_its_gradient_is_that_of_the_authors_code_but_for_the_constants_against_zero() -> None:
    """Their M is not divided by the number of samples, and 1e-3 is added to |det M|."""
    outputs = learnt()
    theirs = -torch.log(torch.abs(torch.det(joint64(one_hot64(LABELS, C), outputs))) + 0.001)
    a, b = gradient(DMI().loss(outputs, batch()), outputs).double(), gradient(theirs, outputs).double()
    assert float((a * b).sum() / (a.norm() * b.norm())) > 0.999
    assert float(a.norm() / b.norm()) == pytest.approx(1, abs=0.02)


@pytest.mark.usefixtures("_no_ridge")
def test_noise_that_depends_on_the_class_only_adds_a_constant() -> None:
    """det(T^T M) = det T det M: the reason why the loss is robust."""
    noise = torch.tensor([[0.6, 0.2, 0.1, 0.1], [0.0, 0.7, 0.3, 0.0], [0.1, 0.1, 0.8, 0.0], [0.3, 0.0, 0.0, 0.7]])
    clean = one_hot64(LABELS, C).float()
    outputs = learnt()
    a, b = DMI().loss(outputs, batch(clean)), DMI().loss(outputs, batch(clean @ noise))
    close(b - a, -torch.log(torch.abs(torch.det(noise.double()))), atol=1e-5)
    close(gradient(a, outputs), gradient(b, outputs))


@pytest.mark.usefixtures("_no_ridge")
def test_it_does_not_care_which_output_stands_for_which_class() -> None:
    outputs = learnt()
    close(DMI().loss(outputs, batch()), DMI().loss(outputs[:, [2, 0, 3, 1]], batch()))


@pytest.mark.usefixtures("_no_ridge")
def test_a_class_that_is_absent_from_the_batch_is_left_out() -> None:
    here = LABELS != 2
    outputs = learnt().detach()[here].requires_grad_()
    target = one_hot64(LABELS[here], C).float()
    given = batch()
    part = Batch(given.x[here], target, given.index[here], 0.0, 0, given.shard[here])
    loss = DMI().loss(outputs, part)
    kept = [0, 1, 3]
    expected = -torch.log(torch.abs(torch.det((joint64(target, outputs) / int(here.sum()))[kept][:, kept])))
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))
    assert bool((gradient(DMI().loss(outputs, part), outputs) != 0).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "outputs",
    [
        torch.zeros(N, C),
        random_logits(1, C, seed=0).expand(N, C),
        1e4 * one_hot64(LABELS, C).float(),
        1e4 * one_hot64((LABELS + 1) % C, C).float(),
        1e4 * one_hot64(torch.zeros(N, dtype=torch.int64), C).float(),
        learnt().detach() - torch.tensor([0.0, 200.0, 1e4, 0.0]),
    ],
    ids=["nothing known", "all the same", "certain", "certain and wrong", "one class only", "never predicted"],
)
def test_loss_and_gradient_are_finite_at_the_edges(outputs: Tensor, dtype: torch.dtype) -> None:
    outputs = outputs.to(dtype).clone().requires_grad_()
    loss = DMI().loss(outputs, batch())
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    grad = gradient(loss, outputs)
    assert grad.isfinite().all()
    assert float(grad.abs().max()) < 1 / dmi.RIDGE


@pytest.mark.usefixtures("_no_ridge")
def test_a_batch_of_one_is_cross_entropy() -> None:
    """By hand: the only class that is there leaves M = p_y."""
    outputs = learnt()[:1]
    one = Batch(torch.zeros(1, 1), one_hot64(LABELS[:1], C).float(), torch.arange(1), 0.0, 0, torch.zeros(1))
    close(DMI().loss(outputs, one), -softmax64(outputs)[0, int(LABELS[0])].log())


def test_a_class_that_is_hardly_predicted_does_not_blow_the_gradient_up() -> None:
    """Scaling a column of M by s adds log s to log |det M|, so its gradient does not depend on s."""
    usual, rare = learnt().detach(), learnt().detach()
    rare[:, 1] -= 60.0
    grads = []
    for outputs in (usual, rare):
        outputs.requires_grad_()
        grads.append(float(gradient(DMI().loss(outputs, batch()), outputs).norm()))
    assert grads[1] < 3 * grads[0]


def test_batches_that_cannot_hold_every_class_are_refused() -> None:
    data = train_set(LABELS, C)
    with pytest.raises(ConfigError, match=r"batches of 3 for 4 classes. Set batch_size to 20"):
        DMI().check(data, StagePlan(10, 3))
    few = replace(data, rows=torch.arange(3))
    with pytest.raises(ConfigError, match="must hold every class"):
        DMI().check(few, StagePlan(10, len(torch.unique(LABELS[:3])) - 1))
    assert "often lack one of the 4 classes" in (DMI().check(data, StagePlan(10, 8)) or "")
    assert DMI().check(data, StagePlan(10, 20)) is None


def test_a_class_without_samples_is_not_asked_for() -> None:
    assert DMI().check(train_set(LABELS, 50), StagePlan(10, 20)) is None


def test_cross_entropy_comes_first_and_its_best_network_goes_on() -> None:
    def answer(number: int, asked: Asked) -> Outcome:
        if isinstance(asked.method, BestEpoch):
            asked.method.best = best
        return outcome(random_targets(N, C, seed=number))

    best = nn.Linear(1, 1)
    method, data, train = DMI(), train_set(LABELS, C), Stages(answer, seed=3, epochs=120)
    method.fit(data, train)
    first, second = train.asked
    assert isinstance(first.method, BestEpoch)
    assert first.method.by == "accuracy"
    assert first.changes == {}  # for the epochs of the run
    assert second.method is method
    assert second.model is best
    assert second.changes == {"epochs": 100, "lr": 1e-6, "schedule": "constant", "stratified": True}  # as published
    judges = first.method.judges.tolist()
    assert len(judges) == 8  # a fifth of 40: 10,000 of 50,000 in the authors' code
    for asked in train.asked:
        assert asked.data.rows is not None
        assert sorted([*judges, *asked.data.rows.tolist()]) == list(range(N))


@pytest.mark.parametrize(
    "options",
    [{"held_out": 0.0}, {"held_out": 1.0}, {"held_out": math.nan}, {"tuning": 0.0}, {"lr": 0.0}, {"lr": math.nan}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        DMI(**options)
