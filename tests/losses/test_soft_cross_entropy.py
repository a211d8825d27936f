from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from selc.losses import soft_cross_entropy
from selc.losses.cross_entropy import log_softmax
from tests.helpers import close, entropy64, gradient, random_logits, random_targets, softmax64


@pytest.mark.parametrize("seed", range(3))
def test_it_is_torchs_cross_entropy_with_probabilities(seed: int) -> None:
    z, t = random_logits(16, 7, seed=seed), random_targets(16, 7, seed=seed + 10)
    close(soft_cross_entropy(z, t), F.cross_entropy(z, t, reduction="none"))


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_papers_formula_where_that_is_finite(seed: int) -> None:
    z, t = random_logits(16, 7, seed=seed), random_targets(16, 7, seed=seed + 10)
    close(soft_cross_entropy(z, t), entropy64(t, softmax64(z)))


def test_stacked_outputs_of_two_networks_give_a_row_each() -> None:
    z, t = random_logits(2, 5, 3, seed=0), random_targets(5, 3, seed=1)
    close(soft_cross_entropy(z, t), torch.stack([entropy64(t, softmax64(z[0])), entropy64(t, softmax64(z[1]))]))


@pytest.mark.parametrize(
    ("dtype", "expected"), [(torch.float32, 10_000.0), (torch.bfloat16, 9_984.0), (torch.float16, 10_000.0)]
)
def test_loss_and_gradient_are_finite_and_right_for_logits_of_1e4(dtype: torch.dtype, expected: float) -> None:
    """By hand: p = (1, 0, 0), so -log p_1 = 1e4 (bf16 holds 9,984) and the gradient is p - t."""
    z = torch.tensor([[1e4, 0.0, 0.0], [1e4, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    t = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    loss = soft_cross_entropy(z, t)
    assert loss.tolist() == [expected, 0.0]
    assert gradient(loss, z).tolist() == [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]


def test_under_bf16_autocast_it_computes_in_fp32() -> None:
    weight, x, t = random_logits(4, 6, seed=0), random_logits(8, 6, seed=1), random_targets(8, 4, seed=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = F.linear(x, weight)
        loss = soft_cross_entropy(outputs, t)
    assert outputs.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    close(loss, entropy64(t, softmax64(outputs)))  # bf16 arithmetic would be off by 1e-2


def test_float64_is_kept_and_the_gradient_is_that_of_the_loss() -> None:
    z = random_logits(4, 5, seed=0).double().requires_grad_()
    t = random_targets(4, 5, seed=1).double()
    assert soft_cross_entropy(z, t).dtype == torch.float64
    assert torch.autograd.gradcheck(lambda outputs: soft_cross_entropy(outputs, t), (z,))


@pytest.mark.parametrize("classes", [2, 10, 15, 16, 40])
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_log_probabilities_are_torchs_own_with_and_without_a_gradient(classes: int, scale: float) -> None:
    outputs = scale * torch.randn(50, classes, generator=torch.Generator().manual_seed(classes))
    expected = F.log_softmax(outputs, dim=-1)
    assert torch.equal(log_softmax(outputs), expected)
    with torch.no_grad():
        torch.testing.assert_close(log_softmax(outputs), expected, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(log_softmax(torch.stack([outputs, outputs]))[1], expected, rtol=1e-6, atol=1e-6)
