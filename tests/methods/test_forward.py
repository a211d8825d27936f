"""Forward correction against its published loss and its estimate of the matrix, written out in float64."""

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
from selc.methods.forward import Forward, Matrix, anchored
from selc.methods.noisy_validation import BestEpoch
from selc.types import Outcome, StagePlan, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    gradient,
    one_hot64,
    random_labels,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import LABELS, B, C, N, Over, ready


def random_matrix(seed: int, size: int = C) -> Tensor:
    """Rows that sum to one, with a heavy diagonal."""
    rows = torch.rand(size, size, generator=rng(seed), dtype=torch.float64) + 2 * torch.eye(size)
    return rows / rows.sum(dim=1, keepdim=True)


def as_option(matrix: Tensor) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())


@pytest.mark.parametrize("seed", range(3))
def test_loss_is_minus_the_log_of_what_the_matrix_makes_of_the_prediction(seed: int) -> None:
    matrix = random_matrix(seed)
    method = Forward(matrix=as_option(matrix))
    data = ready(method)
    index = torch.randperm(N, generator=rng(seed))[:B]
    outputs = random_logits(B, C, seed=seed).requires_grad_()
    loss = method.loss(outputs, batch_of(data, index))
    p = softmax64(outputs)
    expected = torch.stack(
        [-torch.log(torch.stack([p[i, j] * matrix[j, y] for j in range(C)]).sum()) for i, y in enumerate(LABELS[index])]
    )
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_soft_targets_give_the_expectation_over_the_target() -> None:
    matrix = random_matrix(0)
    method = Forward(matrix=as_option(matrix))
    data = ready(method, train_set(stored(random_targets(N, C, seed=3)), C))
    outputs = random_logits(N, C, seed=1)
    expected = -(random_targets(N, C, seed=3).double() * torch.log(softmax64(outputs) @ matrix)).sum(dim=1)
    close(method.loss(outputs, batch_of(data, torch.arange(N))), expected)


def test_without_noise_it_is_cross_entropy() -> None:
    method = Forward(matrix=as_option(torch.eye(C)))
    data = ready(method)
    outputs = random_logits(N, C, seed=1)
    expected = F.cross_entropy(outputs, LABELS, reduction="none")
    close(method.loss(outputs, batch_of(data, torch.arange(N))), expected)


def test_the_true_prediction_is_where_the_expected_loss_is_least() -> None:
    """Given labels are drawn from pi T; by the paper's theorem p = pi is then a stationary point, whatever T is."""
    matrix, pi = random_matrix(5), random_targets(N, C, seed=4)
    method = Forward(matrix=as_option(matrix))
    data = ready(method, train_set(stored((pi.double() @ matrix).float()), C))
    outputs = pi.log().requires_grad_()
    slope = gradient(method.loss(outputs, batch_of(data, torch.arange(N))), outputs)
    close(slope, torch.zeros(N, C))
    plain = gradient(CE().loss(outputs, batch_of(data, torch.arange(N))), outputs)
    assert plain.abs().max() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])
def test_loss_and_gradient_are_finite_where_p_and_t_are_exactly_0_or_1(size: float, dtype: torch.dtype) -> None:
    never = torch.eye(C)
    never[:, 1] = 0.0  # class 1 is never given: its column is zero
    never[1, 0] = 1.0
    method = Forward(matrix=as_option(never))
    data = ready(method)
    for shift in range(C):
        outputs = (size * one_hot64((LABELS + shift) % C, C)).to(dtype).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N)))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()


def test_mixed_precision_keeps_the_digits_of_the_loss() -> None:
    matrix = random_matrix(1)
    method = Forward(matrix=as_option(matrix))
    data = ready(method)
    outputs = random_logits(N, C, seed=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = method.loss(outputs, batch_of(data, torch.arange(N)))
    expected = -torch.log((softmax64(outputs) @ matrix).gather(1, LABELS[:, None])).squeeze(1)
    close(loss, expected)


def test_predictions_are_p_and_not_p_times_t() -> None:
    method = Forward(matrix=as_option(random_matrix(0)))
    ready(method)
    outputs = random_logits(N, C, seed=1)
    close(method.probs(outputs), softmax64(outputs))


# The estimate of the matrix


def literal_estimate(p: list[list[float]], labels: list[int], outliers: float) -> Tensor:
    rows = []
    for j in range(C):
        by_column = sorted(range(len(p)), key=lambda i: -p[i][j])
        anchor = by_column[int(outliers * labels.count(j))]
        rows.append([entry / sum(p[anchor]) for entry in p[anchor]])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("outliers", [0.0, 0.3, 0.9])
def test_a_row_is_the_prediction_on_the_surest_sample_that_is_no_outlier(outliers: float) -> None:
    p, labels = random_targets(60, C, seed=2), random_labels(60, C, seed=1)
    probs = stored(p)
    found = anchored(probs, train_set(labels, C), outliers)
    close(found, literal_estimate(p.double().tolist(), labels.tolist(), outliers))
    assert torch.equal(probs.full(), p)  # nothing was zeroed on the way
    close(found.sum(dim=1), torch.ones(C))


def test_the_true_matrix_is_found_where_the_network_knows_the_noisy_posterior() -> None:
    """Each class has a sample that can be no other; there the noisy posterior is the row of the matrix."""
    matrix = random_matrix(3)
    pi = torch.cat([torch.eye(C, dtype=torch.float64), random_targets(40, C, seed=6).double()])
    data = train_set(random_labels(44, C, seed=2), C)
    close(anchored(stored((pi @ matrix).float()), data, 0.0), matrix)


def test_samples_that_are_held_out_are_no_anchors() -> None:
    p = random_targets(20, C, seed=2)
    p[:4] = torch.eye(C)  # the surest ones
    data = train_set(random_labels(20, C, seed=1), C)
    rows = torch.arange(4, 20)
    found = anchored(stored(p), TrainSet(data.inputs, data.labels, rows), 0.0)
    close(found, literal_estimate(p[4:].double().tolist(), data.labels.hard[4:].tolist(), 0.0))


def test_a_class_that_is_never_given_has_a_row_too() -> None:
    p = random_targets(20, C, seed=2)
    labels = random_labels(20, C - 1, seed=1)
    found = anchored(stored(p), train_set(labels, C), 0.3)
    close(found[C - 1], p[p[:, C - 1].argmax()])


# Stages


class Asked(Over):
    """Hands trainings on to a real trainer, and notes what was asked of it."""

    def __init__(self, epochs: int = 6) -> None:
        super().__init__(toy.trainer(epochs=epochs))
        self.calls: list[tuple[Method, TrainSet, dict[str, Any], Outcome]] = []

    def __call__(self, method: Method, data: TrainSet, **given: Any) -> Outcome:
        outcome = super().__call__(method, data, **given)
        self.calls.append((method, data, given, outcome))
        return outcome


def asked(method: Forward) -> tuple[Asked, Outcome]:
    train, data = Asked(), toy.train_set()
    return train, method.fit(data, train)


def test_a_given_matrix_needs_no_other_training() -> None:
    method = Forward(matrix=as_option(random_matrix(0, toy.CLASSES)))
    train, _ = asked(method)
    assert [call[0] for call in train.calls] == [method]


@pytest.mark.parametrize("init", ["scratch", "from-ce"])
def test_the_matrix_comes_from_the_best_epoch_of_ce(init: Any) -> None:
    train, _ = asked(Forward(init=init, outliers=0.1))
    (first, data, settings, plain), (second, rest, given, last) = train.calls
    assert isinstance(first, BestEpoch)
    assert first.by == "loss"
    assert settings == {}  # for the epochs of the run
    assert isinstance(second, Forward)
    close(second.transition, anchored(plain.target, data, 0.1))
    assert given.get("model") is (first.best if init == "from-ce" else None)
    assert len(plain.history) == len(last.history) == 6
    for used in (data, rest):
        assert used.rows is not None
        assert sorted([*first.judges.tolist(), *used.rows.tolist()]) == list(range(90))


def test_it_trains_with_rows_held_out() -> None:
    outcome = toy.fit(Forward(), val_fraction=0.2)
    assert outcome.history[-1]["val"]["top1"] >= 0


# Options


@pytest.mark.parametrize(
    "options",
    [
        {"matrix": "identity"},
        {"matrix": ()},
        {"matrix": ((0.9, 0.1), (0.5, 0.6))},
        {"matrix": ((1.1, -0.1), (0.0, 1.0))},
        {"matrix": ((math.nan, 1.0), (0.0, 1.0))},
        {"matrix": ((1.0,), (0.0, 1.0))},
        {"held_out": 0.0},
        {"held_out": 1.0},
        {"outliers": 1.0},
        {"init": "ce"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Forward(**options)


def test_a_matrix_for_another_number_of_classes_is_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="matrix must have a row and a column for each of the 4 classes; got 3"):
        Forward(matrix=as_option(torch.eye(3))).check(train_set(LABELS, C), StagePlan(10, B))


def test_what_it_trains_is_the_network_that_it_is_given() -> None:
    model = Forward().build(lambda outputs: nn.Linear(3, outputs), C)
    assert isinstance(model, nn.Linear)
    assert model.out_features == C
