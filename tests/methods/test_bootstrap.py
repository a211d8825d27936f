"""Bootstrapping against its formula, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from selc.errors import ConfigError
from selc.methods.bootstrap import Bootstrap
from tests.helpers import (
    close,
    entropy64,
    gradient,
    one_hot64,
    random_logits,
    random_targets,
    softmax64,
)
from tests.methods.common import GIVEN, LABELS, C, N, batch


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.95])
@pytest.mark.parametrize("target", [None, random_targets(N, C, seed=3)], ids=["hard labels", "soft labels"])
def test_the_soft_kind_mixes_the_label_with_a_prediction_that_keeps_its_gradient(
    beta: float, target: Tensor | None
) -> None:
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = Bootstrap(kind="soft", beta=beta).loss(outputs, batch(target))
    p = softmax64(outputs)
    y = GIVEN if target is None else target.double()
    expected = torch.stack([-((beta * y[i] + (1 - beta) * p[i]) * p[i].log()).sum() for i in range(N)])
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


def test_the_second_term_of_the_soft_kind_pushes_the_entropy_down() -> None:
    """By hand: the derivative of -sum_c p_c log p_c with respect to output k is -p_k (log p_k + entropy)."""
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = Bootstrap(kind="soft", beta=0.0).loss(outputs, batch())
    p = softmax64(outputs.detach())
    close(gradient(loss, outputs), -p * (p.log() + entropy64(p, p)[:, None]))


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("target", [None, random_targets(N, C, seed=3)], ids=["hard labels", "soft labels"])
def test_the_hard_kind_mixes_the_label_with_the_predicted_class(beta: float, target: Tensor | None) -> None:
    outputs = random_logits(N, C, seed=1).requires_grad_()
    loss = Bootstrap(kind="hard", beta=beta).loss(outputs, batch(target))
    p = softmax64(outputs)
    y = GIVEN if target is None else target.double()
    guess = one_hot64(outputs.detach().argmax(dim=1), C)
    expected = beta * entropy64(y, p) + (1 - beta) * entropy64(guess, p)
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_with_all_weight_on_the_label_it_is_cross_entropy(kind: Any) -> None:
    outputs = random_logits(N, C, seed=1)
    expected = F.cross_entropy(outputs, LABELS, reduction="none")
    close(Bootstrap(kind=kind, beta=1.0).loss(outputs, batch()), expected)


@pytest.mark.parametrize(("kind", "published"), [("soft", 0.95), ("hard", 0.8)])
def test_beta_is_the_published_one_of_its_kind_by_default(kind: Any, published: float) -> None:
    outputs = random_logits(N, C, seed=1)
    default, given = Bootstrap(kind=kind), Bootstrap(kind=kind, beta=published)
    assert torch.equal(default.loss(outputs, batch()), given.loss(outputs, batch()))


@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])  # e^-200 is 0 in float32: p is exactly 0 or 1
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(kind: Any, dtype: torch.dtype, size: float) -> None:
    guess = torch.cat([LABELS[:6], (LABELS[6:] + 1) % C])
    outputs = (size * one_hot64(guess, C)).to(dtype).requires_grad_()
    loss = Bootstrap(kind=kind).loss(outputs, batch())
    assert loss.dtype == torch.float32
    beta = {"soft": 0.95, "hard": 0.8}[kind]
    close(loss, torch.cat([torch.zeros(6), torch.full((6,), beta * float(outputs.detach().max()))]))
    assert gradient(loss, outputs).isfinite().all()


@pytest.mark.parametrize(
    "options", [{"kind": "firm"}, {"beta": -0.1}, {"beta": 1.1}, {"beta": math.nan}, {"beta": "some"}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))} must be"):
        Bootstrap(**options)
