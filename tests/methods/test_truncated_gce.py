"""Truncated GCE against its published loss and weights, written out in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.truncated_gce import TruncatedGCE
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    gradient,
    one_hot64,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, B, C, N, ready, sweeping


def lq(p: Tensor, q: float) -> Tensor:
    return (1 - p**q) / q


@pytest.mark.parametrize(("q", "k"), [(0.7, 0.5), (0.3, 0.2), (1.0, 0.6)])
def test_loss_and_weights_follow_the_paper_over_several_epochs(q: float, k: float) -> None:
    method = TruncatedGCE(q=q, k=k, start=2, every=2)
    data = ready(method, epochs=10)
    weight = torch.ones(N, dtype=torch.float64)
    pruned = []
    for epoch in range(6):
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=10 * epoch + part).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + 0.5))
            p_y = softmax64(outputs).gather(1, LABELS[index, None]).squeeze(1)
            expected = weight[index] * (lq(p_y, q) - lq(torch.tensor(k).double(), q))
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
        p = softmax64(random_logits(N, C, seed=100 + epoch))
        method.end_epoch(epoch, sweeping(p.float()))
        if epoch + 1 in (2, 4, 6):
            weight = (p.gather(1, LABELS[:, None]).squeeze(1) > k).double()
            pruned.append(int(weight.sum()))
        close(method.weight.full().squeeze(1), weight)
    assert all(0 < kept < N for kept in pruned)


@pytest.mark.parametrize(
    ("epochs", "expected"), [(120, range(40, 121, 10)), (60, range(20, 61, 5)), (12, range(4, 13)), (1, [1])]
)
def test_a_pass_is_made_after_the_epochs_before_which_the_public_code_makes_it(
    epochs: int, expected: Sequence[int]
) -> None:
    """Epochs 40, 50, ..., 120 of 120; the same shares of a shorter run."""
    method = TruncatedGCE()
    ready(method, epochs=epochs)
    passes = []

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        passes.append(epoch + 1)
        return stored(GIVEN.float())

    for epoch in range(epochs):
        method.end_epoch(epoch, sweep)
    assert passes == list(expected)


def test_a_sample_at_the_threshold_is_left_out() -> None:
    method = TruncatedGCE(q=1.0, k=0.5, start=1, every=1)  # q = 1: L_q(0.5) is exact
    ready(method, train_set(torch.tensor([0, 1, 0]), 2), epochs=10)
    method.end_epoch(0, sweeping(torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]])))
    assert method.weight.full().squeeze(1).tolist() == [0, 1, 1]


def test_weights_stay_if_nobody_would_be_left() -> None:
    method = TruncatedGCE(start=1, every=1)
    ready(method, epochs=10)
    method.end_epoch(0, sweeping(torch.full((N, C), 1 / C)))
    assert method.weight.full().squeeze(1).tolist() == [1] * N


def test_a_batch_of_samples_that_are_left_out_has_loss_and_gradient_zero() -> None:
    method = TruncatedGCE(start=1, every=1)
    data = ready(method, epochs=10)
    p = torch.full((N, C), 0.1)
    p[0] = GIVEN[0].float()
    method.end_epoch(0, sweeping(p))
    outputs = random_logits(3, C, seed=0).requires_grad_()
    loss = method.loss(outputs, batch_of(data, torch.tensor([3, 4, 5])))
    assert torch.equal(loss, torch.zeros(3))
    assert torch.equal(gradient(loss, outputs), torch.zeros(3, C))


def test_soft_targets_give_the_expectation_and_are_kept_where_it_is_below_the_limit() -> None:
    t = random_targets(N, C, seed=3)
    method = TruncatedGCE(q=0.5, k=0.3, start=1, every=1)
    data = ready(method, train_set(stored(t), C), epochs=10)
    p = softmax64(random_logits(N, C, seed=1))
    losses = (t.double() * lq(p, 0.5)).sum(dim=1)
    close(method.loss(p.log().float(), batch_of(data, torch.arange(N))), losses - lq(torch.tensor(0.3).double(), 0.5))
    method.end_epoch(0, sweeping(p.float()))
    kept = losses < (1 - 0.3**0.5) / 0.5
    assert 0 < int(kept.sum()) < N
    assert torch.equal(method.weight.full().squeeze(1) > 0, kept)


def test_it_believes_the_labels_that_it_kept_and_the_network_elsewhere() -> None:
    method = TruncatedGCE(start=1, every=1)
    ready(method, epochs=10)
    p = softmax64(random_logits(N, C, seed=5)).float()
    assert torch.equal(method.belief(sweeping(p)).full().double(), GIVEN)
    method.end_epoch(0, sweeping(p))
    kept = p.gather(1, LABELS[:, None]) > 0.5
    assert 0 < int(kept.sum()) < N
    close(method.belief(sweeping(p)).full(), torch.where(kept, GIVEN, p.double()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(size: float, dtype: torch.dtype) -> None:
    method = TruncatedGCE(start=1, every=1)
    data = ready(method, epochs=10)
    for shift in (0, 1):
        outputs = (size * one_hot64((LABELS + shift) % C, C)).to(dtype).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N)))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
        method.end_epoch(0, sweeping(method.probs(outputs.detach())))


def test_a_batch_may_hold_one_sample() -> None:
    method = TruncatedGCE()
    data = ready(method, epochs=10)
    outputs = random_logits(1, C, seed=0)
    p_y = softmax64(outputs)[0, LABELS[4]]
    expected = lq(p_y, 0.7) - lq(torch.tensor(0.5).double(), 0.7)
    close(method.loss(outputs, batch_of(data, torch.tensor([4]))), expected[None])


def test_wrong_labels_are_left_out_of_a_real_training() -> None:
    method = TruncatedGCE(start=10, every=1)
    outcome = toy.fit(method, epochs=30)
    left_out = method.weight.full().squeeze(1) == 0
    assert left_out[:9].all()  # the wrong ones
    assert left_out[9:].float().mean() < 0.1
    assert torch.equal(outcome.believed_labels[:9], toy.blobs()[1][:9])


@pytest.mark.parametrize(
    "options",
    [{"q": 0.0}, {"q": 1.1}, {"q": math.nan}, {"k": 0.0}, {"k": 1.0}, {"start": -1.0}, {"every": 0.0}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        TruncatedGCE(**options)
