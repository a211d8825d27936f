"""PENCIL against its published loss and label update, written out in float64 with autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import Method
from selc.methods.pencil import PENCIL, FixedLabels
from selc.types import Outcome, StagePlan, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
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
from tests.methods.common import GIVEN, LABELS, B, C, N, NoTrain, ready
from tests.tiers import exhaustive


def literal(outputs: Tensor, u: Tensor, given: Tensor, alpha: float, beta: float) -> Tensor:
    """The loss of each sample, of which the gradient reaches both the network and the label."""
    p, d = softmax64(outputs), softmax64(u)
    classes = outputs.shape[1]
    divergence = (p * (torch.log(p) - torch.log(d))).sum(dim=1)
    fits_given = -(given * torch.log(d)).sum(dim=1)
    entropy = -(p * torch.log(p)).sum(dim=1)
    return divergence / classes + alpha * fits_given + beta * entropy / classes


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.4), (0.4, 0.1), (0.0, 0.0)])
def test_network_and_labels_follow_the_paper_over_several_epochs(alpha: float, beta: float, soft: bool) -> None:
    labels = stored(random_targets(N, C, seed=3)) if soft else LABELS
    method = PENCIL(start=2, freeze=6, alpha=alpha, beta=beta, lambda_=256.0)
    data = ready(method, train_set(labels, C))
    given = data.labels.read(torch.arange(N)).double()
    u = 10 * given
    for epoch in range(6):
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=10 * epoch + part).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + part / 3))
            if epoch < 2:
                close(loss, -(given[index] * torch.log(softmax64(outputs))).sum(dim=1))
                continue
            leaf = u[index].requires_grad_()
            expected = literal(outputs, leaf, given[index], alpha, beta)
            # What does not depend on the network may be left out of the loss that it is trained by.
            close(gradient(loss, outputs), gradient(expected, outputs), atol=1e-5)
            close(loss, literal(outputs, u[index], given[index], 0.0, beta), atol=1e-5)
            u[index] -= 2.0 * gradient(literal(outputs, leaf, given[index], alpha, beta), leaf)  # 256 / 128
        close(method.belief(no_sweep).full(), softmax64(u), atol=1e-5)
    assert not torch.equal(u, 10 * given)


def test_a_batch_of_128_takes_the_step_of_the_authors() -> None:
    """There the loss is a mean over the batch, and lambda times its gradient is the step."""
    labels = random_labels(128, C, seed=1)
    method = PENCIL(start=0, alpha=0.1, beta=0.4, lambda_=600.0)
    data = ready(method, train_set(labels, C))
    outputs, leaf = random_logits(128, C, seed=2), (10 * one_hot64(labels, C)).requires_grad_()
    method.loss(outputs, batch_of(data, torch.arange(128)))
    mean = literal(outputs, leaf, one_hot64(labels, C), 0.1, 0.4).mean()
    close(method.logits.full(), leaf.detach() - 600 * gradient(mean, leaf), atol=1e-5)


@pytest.mark.parametrize("alpha_times_c", [0.5, *exhaustive(0.0, 2.0)])
def test_a_label_ends_between_the_given_one_and_the_prediction(alpha_times_c: float) -> None:
    """Where p stays, the least of KL(p || d) / C + alpha H(Y, d) is at d = (p + alpha C Y) / (1 + alpha C)."""
    method = PENCIL(start=0, alpha=alpha_times_c / C, lambda_=512.0, scale=2.0)
    data = ready(method)
    outputs = random_logits(N, C, seed=2)
    for _ in range(3000):
        method.loss(outputs, batch_of(data, torch.arange(N)))
    expected = (softmax64(outputs) + alpha_times_c * GIVEN) / (1 + alpha_times_c)
    close(method.belief(no_sweep).full(), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("twice", "alpha", "changes"), [(True, 0.19, True), (True, 0.21, False), (False, 0.09, True), (False, 0.11, False)]
)
def test_up_to_which_alpha_a_sure_prediction_changes_a_label(twice: bool, alpha: float, changes: bool) -> None:
    """What the page says of the authors' code, in which H(Y, d) takes the softmax of d once more; ten classes."""
    p = np.full(10, 0.001 / 9)
    p[1] = 0.999

    def loss(u: Any) -> float:
        log_d = log_softmax(u)
        given = log_softmax(np.exp(log_d))[0] if twice else log_d[0]
        return float((p * (np.log(p) - log_d)).sum() / 10 - alpha * given)

    found = minimize(loss, 10 * np.eye(10)[0], method="BFGS", tol=1e-8)
    assert (found.x.argmax() == 1) == changes


def test_by_default_a_sure_prediction_can_change_a_label() -> None:
    method = PENCIL(start=0)
    data = ready(method)
    outputs = (12 * one_hot64((LABELS + 1) % C, C)).float()
    for _ in range(200):
        method.loss(outputs, batch_of(data, torch.arange(N)))
    assert method.belief(no_sweep).argmax().tolist() == ((LABELS + 1) % C).tolist()


def test_defaults_are_those_of_the_paper_at_its_number_of_epochs_and_classes() -> None:
    method = PENCIL()
    assert method.stages(320) == (70, 200)
    alpha, step = method.constants(10, 320)
    assert step == pytest.approx(600 / 128)
    assert alpha == 0.05
    assert method.stages(160) == (35, 100)
    assert method.constants(10, 160)[1] == pytest.approx(1200 / 128)


@pytest.mark.parametrize(("epochs", "classes"), [(1, 2), (3, 10), (10, 100)])
def test_in_a_very_short_run_labels_do_not_overshoot(epochs: int, classes: int) -> None:
    """Gradient descent is stable for a step below 2 over the largest curvature, (1 / C + alpha) / 2 for a softmax."""
    alpha, step = PENCIL().constants(classes, epochs)
    assert step * (1 / classes + alpha) / 2 <= 2.0001


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(size: float, dtype: torch.dtype) -> None:
    method = PENCIL(start=2)
    data = ready(method)
    for clock in (0.0, 4.0, 5.0):
        outputs = (size * one_hot64((LABELS + int(clock)) % C, C)).to(dtype).requires_grad_()
        for loss in (
            method.loss(outputs, batch_of(data, torch.arange(N), clock)),
            FixedLabels().loss(outputs, batch_of(data, torch.arange(N))),
        ):
            assert loss.dtype == torch.float32
            assert loss.isfinite().all()
            assert gradient(loss, outputs).isfinite().all()
    belief = method.belief(no_sweep).full()
    close(belief.sum(dim=1), torch.ones(N))


def test_a_batch_may_hold_one_sample() -> None:
    method = PENCIL(start=0, alpha=0.1, lambda_=128.0)
    data = ready(method)
    outputs, leaf = random_logits(1, C, seed=2), (10 * GIVEN[[4]]).requires_grad_()
    method.loss(outputs, batch_of(data, torch.tensor([4])))
    expected = leaf.detach() - gradient(literal(outputs, leaf, GIVEN[[4]], 0.1, 0.4), leaf)
    close(method.logits.read(torch.tensor([4])), expected)


def test_fixed_labels_are_learnt_by_the_divergence_alone() -> None:
    d = random_targets(N, C, seed=3)
    data = train_set(stored(d), C)
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = FixedLabels().loss(outputs, batch_of(data, torch.arange(N)))
    expected = F.kl_div(d.double().log(), softmax64(outputs), reduction="none").sum(dim=1) / C
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


# Stages


class Trainings(NoTrain):
    """Trainings that are none: they note what they were asked to do, and hand out made-up labels."""

    def __init__(self) -> None:
        self.asked: list[tuple[Method, TrainSet, dict[str, Any]]] = []
        self.outcomes: list[Outcome] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        self.asked.append((method, data, changes))
        target, nothing = stored(random_targets(N, C, seed=len(self.asked))), torch.zeros(0, N)
        self.outcomes.append(Outcome(nn.Identity(), target, target, nothing, nothing, nothing, nothing))
        return self.outcomes[-1]


@pytest.mark.parametrize("last_lr", ["plan", 0.2])
def test_labels_are_learnt_at_a_constant_rate_and_then_fixed(last_lr: Any) -> None:
    method, train, data = PENCIL(last_lr=last_lr), Trainings(), train_set(LABELS, C)
    train.epochs = 320
    outcome = method.fit(data, train)
    (first, given, changes), (second, fixed, more) = train.asked
    assert isinstance(first, PENCIL)
    assert changes == {"epochs": 200, "schedule": "constant"}
    assert first.stages(200) == (70, 200)
    assert first.constants(C, 200) == pytest.approx(method.constants(C, 320))
    assert torch.equal(given.labels.read(torch.arange(N)).double(), GIVEN)
    assert isinstance(second, FixedLabels)
    rates = {"epochs": 120, "schedule": "step", "milestones": [40, 80], "gamma": 0.1, "model": train.outcomes[0].model}
    assert more == rates | ({} if last_lr == "plan" else {"lr": 0.2})
    assert torch.equal(fixed.labels.read(torch.arange(N)), train.outcomes[0].target.full())
    assert outcome.target is train.outcomes[0].target
    assert outcome.probs is train.outcomes[1].probs


def test_there_need_be_no_time_with_fixed_labels() -> None:
    method, train, data = PENCIL(start=2, freeze=10), Trainings(), train_set(LABELS, C)
    train.epochs = 10
    method.fit(data, train)
    assert [changes for _, _, changes in train.asked] == [{"epochs": 10, "schedule": "constant"}]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_the_shortest_runs_work(epochs: int) -> None:
    assert len(toy.fit(PENCIL(), epochs=epochs).target) == 90


def test_it_corrects_the_wrong_labels_of_a_real_training() -> None:
    outcome = toy.fit(PENCIL(), epochs=30)
    true = toy.blobs()[1]
    assert (outcome.believed_labels == true).float().mean() > 0.95
    assert outcome.history[-1]["test"]["top1"] > 0.95


@pytest.mark.parametrize(
    "options",
    [
        {"start": -1.0},
        {"freeze": 0.0},
        {"alpha": -0.1},
        {"alpha": "paper"},
        {"beta": -1.0},
        {"lambda_": math.nan},
        {"scale": 0.0},
        {"last_lr": "run"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        PENCIL(**options)


def test_a_run_without_time_to_learn_labels_is_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="start must come before freeze"):
        PENCIL(start=0.7, freeze=0.6).check(train_set(LABELS, C), StagePlan(20, B))
