"""Symmetric cross entropy against its definition, written out in float64."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from selc.errors import ConfigError
from selc.methods.sce import SCE
from tests.helpers import (
    close,
    entropy64,
    gradient,
    one_hot64,
    random_logits,
    random_targets,
    softmax64,
)
from tests.methods.common import LABELS, C, N, all_of, batch


def reverse64(labels: Tensor, p: Tensor, floor: float) -> Tensor:
    """-sum_c p_c log y_c, with y no less than ``floor``: the definition, as the authors compute it."""
    return -(p * one_hot64(labels, C).clamp(floor, 1.0).log()).sum(dim=1)


@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 1.0), (6.0, 0.1), (0.0, 1.0)])
@pytest.mark.parametrize("floor", [1e-4, math.exp(-4)])
def test_it_is_cross_entropy_and_reverse_cross_entropy(alpha: float, beta: float, floor: float) -> None:
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = SCE(alpha=alpha, beta=beta, log_zero=math.log(floor)).loss(outputs, batch())
    p = softmax64(outputs)
    expected = alpha * entropy64(one_hot64(LABELS, C), p) + beta * reverse64(LABELS, p, floor)
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_the_defaults_are_those_of_the_authors_code_for_cifar_10() -> None:
    outputs = random_logits(N, C, seed=1)
    p = softmax64(outputs)
    expected = 0.1 * entropy64(one_hot64(LABELS, C), p) + 1.0 * reverse64(LABELS, p, 1e-4)
    close(SCE().loss(outputs, batch()), expected)


def test_a_soft_target_gives_the_expectation_over_its_classes() -> None:
    outputs, method = random_logits(N, C, seed=1), SCE(alpha=0.5, beta=0.7)
    soft = random_targets(N, C, seed=3)
    loss = method.loss(outputs, batch(soft))
    expected = sum(soft[:, c] * method.loss(outputs, all_of(c)) for c in range(C))
    assert isinstance(expected, Tensor)
    close(loss, expected)


def test_reverse_cross_entropy_sums_to_a_constant_over_the_labels() -> None:
    """Why it tolerates noise (the authors' Theorem 1): over all C labels it is -A (C - 1), whatever p is."""
    outputs, method = random_logits(N, C, seed=1), SCE(alpha=0.0, beta=1.0, log_zero=-4.0)
    total = sum(method.loss(outputs, all_of(c)) for c in range(C))
    assert isinstance(total, Tensor)
    close(total, torch.full((N,), 4.0 * (C - 1)))


def test_without_the_reverse_term_it_is_cross_entropy() -> None:
    outputs = random_logits(N, C, seed=1)
    close(SCE(alpha=1.0, beta=0.0).loss(outputs, batch()), F.cross_entropy(outputs, LABELS, reduction="none"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])  # e^-200 is 0 in float32: p is exactly 0 or 1
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype, size: float) -> None:
    guess = torch.cat([LABELS[:6], (LABELS[6:] + 1) % C])
    outputs = (size * one_hot64(guess, C)).to(dtype).requires_grad_()
    loss = SCE().loss(outputs, batch())
    assert loss.dtype == torch.float32
    wrong = 0.1 * float(outputs.detach().max()) - math.log(1e-4)
    close(loss, torch.cat([torch.zeros(6), torch.full((6,), wrong)]))
    assert gradient(loss, outputs).isfinite().all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"alpha": -1.0}, "alpha and beta"),
        ({"beta": math.nan}, "alpha and beta"),
        ({"alpha": 0.0, "beta": 0.0}, "alpha and beta"),
        ({"log_zero": 0.0}, "log_zero must be below 0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        SCE(**options)
