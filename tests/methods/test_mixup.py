"""Mixup against its formula, written out in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.mixup_method import Mixup
from selc.types import Batch, StagePlan
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    one_hot64,
    random_logits,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import LABELS, C, N


class Linear(nn.Module):
    """A linear model that keeps the inputs it was given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(random_logits(width, C, seed=9))

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return x @ self.weight


def units(rows: int = N, seed: int = 0, shards: int = 1) -> Batch:
    """A batch of unit vectors: a mixed input shows by itself who was mixed with whom, and how."""
    index = torch.randperm(N, generator=rng(seed))[:rows]
    batch = batch_of(train_set(LABELS, C), index, x=torch.eye(rows), shard=index % shards)
    return replace(batch, seed=seed)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_inputs_and_labels_are_mixed_with_one_weight(seed: int, shards: int) -> None:
    batch, model = units(seed=seed, shards=shards), Linear(N)
    step = Mixup().step(model, batch)
    assert step.outputs is None  # there are none of unmixed inputs
    share = float(model.x[0, 0])
    assert 0 < share < 1
    partner = (model.x - share * torch.eye(N)).argmax(dim=1)
    close(model.x, share * torch.eye(N) + (1 - share) * torch.eye(N)[partner])
    assert sorted(partner.tolist()) == list(range(N))
    assert not bool((partner == torch.arange(N)).any())
    assert torch.equal(batch.shard[partner], batch.shard)
    y = one_hot64(LABELS[batch.index], C)
    p = softmax64(model.x.double() @ model.weight.double())
    expected = share * entropy64(y, p) + (1 - share) * entropy64(y[partner], p)
    close(step.loss, expected)
    (ours,) = torch.autograd.grad(step.loss.mean(), model.weight, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected.mean(), model.weight)
    close(ours, theirs)


@pytest.mark.parametrize("a", [1.0, 32.0])
def test_the_weight_has_the_mean_and_variance_of_the_beta_distribution(a: float) -> None:
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)); bounds of 5 standard errors."""
    count, model, batch = 500, Linear(2), units(2)
    shares = []
    for seed in range(count):
        Mixup(concentration=a).step(model, replace(batch, seed=seed))
        shares.append(float(model.x[0, 0]))
    drawn = torch.tensor(shares, dtype=torch.float64)
    variance = 1 / (4 * (2 * a + 1))
    assert abs(float(drawn.mean()) - 0.5) < 5 * math.sqrt(variance / count)
    squares = (drawn - 0.5) ** 2
    assert abs(float(squares.mean()) - variance) < 5 * float(squares.std()) / math.sqrt(count)


def test_without_concentration_it_is_cross_entropy() -> None:
    batch, model = units(), Linear(N)
    step = Mixup(concentration=0.0).step(model, batch)
    close(step.loss, F.cross_entropy(model.weight, LABELS[batch.index], reduction="none"))


def test_a_batch_of_one_stays_as_it_is() -> None:
    batch, model = units(1), Linear(1)
    step = Mixup().step(model, batch)
    close(model.x, torch.ones(1, 1))
    close(step.loss, F.cross_entropy(model.weight, LABELS[batch.index], reduction="none"))


def test_batches_of_one_are_warned_of() -> None:
    data = train_set(LABELS, C)
    assert "nothing can be mixed" in (Mixup().check(data, StagePlan(10, 1)) or "")
    assert Mixup().check(data, StagePlan(10, 2)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype) -> None:
    batch = units()
    weight = (1e4 * one_hot64(LABELS[batch.index], C)).to(dtype).requires_grad_()
    loss = Mixup().step(_Weights(weight), replace(batch, x=batch.x.to(dtype))).loss
    assert loss.dtype == torch.float32
    assert loss.isfinite().all()
    loss.mean().backward()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()


class _Weights(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.kept = weight

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.kept


@pytest.mark.parametrize("concentration", [-1.0, math.nan, math.inf])
def test_a_concentration_out_of_range_is_refused(concentration: float) -> None:
    with pytest.raises(ConfigError, match="concentration must be"):
        Mixup(concentration=concentration)
