"""Normalised plus reverse cross entropy against its definition, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods.nce_rce import NCEandRCE
from tests.helpers import (
    close,
    gradient,
    one_hot64,
    random_logits,
    random_targets,
    softmax64,
)
from tests.methods.common import LABELS, C, N, all_of, batch
from tests.toy import fit


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (10.0, 0.1), (50.0, 0.1)])
def test_it_is_normalised_and_reverse_cross_entropy(alpha: float, beta: float) -> None:
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = NCEandRCE(alpha=alpha, beta=beta).loss(outputs, batch())
    p = softmax64(outputs)
    rows = []
    for i in range(N):
        cross = [-p[i, c].log() for c in range(C)]  # cross entropy if the label were c
        normalised = cross[int(LABELS[i])] / sum(cross)
        reverse = sum(-p[i, c] * math.log(1e-4) for c in range(C) if c != int(LABELS[i]))
        rows.append(alpha * normalised + beta * reverse)
    expected = torch.stack(rows)
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_the_defaults_are_the_authors_for_cifar_10() -> None:
    outputs = random_logits(N, C, seed=1)
    published = NCEandRCE(alpha=1.0, beta=1.0, log_zero=math.log(1e-4), clip_norm=5.0)
    assert torch.equal(NCEandRCE().loss(outputs, batch()), published.loss(outputs, batch()))
    assert NCEandRCE().clip_norm == 5.0


def test_normalised_cross_entropy_sums_to_one_over_the_labels() -> None:
    """Why it tolerates noise: over all labels it is constant, whatever the network says."""
    outputs, method = random_logits(N, C, seed=1), NCEandRCE(alpha=1.0, beta=0.0)
    each = torch.stack([method.loss(outputs, all_of(c)) for c in range(C)])
    close(each.sum(dim=0), torch.ones(N))
    assert bool(((each > 0) & (each < 1)).all())


def test_a_soft_target_gives_the_expectation_over_its_classes() -> None:
    outputs, method = random_logits(N, C, seed=1), NCEandRCE(alpha=0.5, beta=0.7)
    soft = random_targets(N, C, seed=3)
    loss = method.loss(outputs, batch(soft))
    expected = sum(soft[:, c] * method.loss(outputs, all_of(c)) for c in range(C))
    assert isinstance(expected, Tensor)
    close(loss, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])  # e^-200 is 0 in float32: p is exactly 0 or 1
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype, size: float) -> None:
    """By hand: a wrong class with output 0 has log p = -size, as have all but the predicted one."""
    guess = torch.cat([LABELS[:6], (LABELS[6:] + 1) % C])
    outputs = (size * one_hot64(guess, C)).to(dtype).requires_grad_()
    loss = NCEandRCE().loss(outputs, batch())
    assert loss.dtype == torch.float32
    close(loss, torch.cat([torch.zeros(6), torch.full((6,), 1 / (C - 1) - math.log(1e-4))]))
    assert gradient(loss, outputs).isfinite().all()


def test_a_network_that_cannot_tell_the_classes_apart_has_a_finite_loss() -> None:
    """By hand: with p = 1/C everywhere NCE is 1/C, and RCE -A (1 - 1/C)."""
    outputs = torch.zeros(N, C, requires_grad=True)
    loss = NCEandRCE().loss(outputs, batch())
    close(loss, torch.full((N,), 1 / C - math.log(1e-4) * (1 - 1 / C)))
    assert gradient(loss, outputs).isfinite().all()


def test_the_gradient_is_clipped_to_the_norm() -> None:
    """Weights move by at most lr x norm in a step, without momentum and decay: here 18 steps of 0.05 x 1e-6."""
    still: dict[str, Any] = {"momentum": 0.0, "weight_decay": 0.0, "epochs": 3}
    tight = fit(NCEandRCE(clip_norm=1e-6), **still).model
    free = fit(NCEandRCE(), **still).model
    begin = fit(NCEandRCE(clip_norm=1e-12), momentum=0.0, weight_decay=0.0, epochs=1).model
    moved = [
        max(float((a - b).detach().abs().max()) for a, b in zip(model.parameters(), begin.parameters(), strict=True))
        for model in (tight, free)
    ]
    assert moved[0] <= 18 * 0.05 * 1e-6 + 1e-7  # and rounding
    assert moved[1] > 0.01


@pytest.mark.parametrize("options", [{"clip_norm": -1.0}, {"clip_norm": math.nan}, {"alpha": -1.0}, {"log_zero": 1.0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        NCEandRCE(**options)
