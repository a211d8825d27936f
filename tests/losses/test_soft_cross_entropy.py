from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from selc.errors import InputError
from selc.losses import soft_cross_entropy
from selc.losses.cross_entropy import (
    WIDE,
    checked_labels,
    confidence_weights,
    ensembled,
    log_softmax,
    usual_alpha,
)
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


@pytest.mark.parametrize("classes", [7, WIDE, 2 * WIDE + 3])
@pytest.mark.parametrize("total", [1.0, 0.3])  # Option I begins with rows that sum to less than one
def test_loss_and_gradient_against_an_ensemble_are_those_of_the_formula(classes: int, total: float) -> None:
    """By torch's own derivative in float64: of -sum_c t_c log p_c with t fixed, each row with a weight of its own."""
    z, before = random_logits(9, classes, seed=0, scale=3.0), total * random_targets(9, classes, seed=1)
    weight = torch.linspace(0.5, 2.0, 9)
    outputs = z.clone().requires_grad_()
    loss, target = ensembled(outputs, lambda p: 0.9 * before + 0.1 * p)
    (weight * loss).sum().backward()
    exact = z.double().requires_grad_()
    t = 0.9 * before.double() + 0.1 * softmax64(z)
    expected = -(t * exact.log_softmax(dim=1)).sum(dim=1)
    (weight.double() * expected).sum().backward()
    close(target, t)
    close(loss.detach(), expected.detach())
    assert outputs.grad is not None
    assert exact.grad is not None
    close(outputs.grad, exact.grad)


def test_of_many_classes_in_bf16_the_gradient_is_worked_out_in_fp32() -> None:
    """By hand: p = (1, 0, ...), t = (1/2, 1/2, 0, ...), so the gradient is (1/2, -1/2, 0, ...)."""
    outputs = torch.zeros(2, WIDE, dtype=torch.bfloat16)
    outputs[:, 0] = 1e3
    outputs.requires_grad_()
    half = torch.zeros(2, WIDE)
    half[:, :2] = 0.5
    loss, _ = ensembled(outputs, lambda p: half)
    loss.sum().backward()
    assert loss.dtype == torch.float32
    assert loss.tolist() == [500.0, 500.0]
    assert outputs.grad is not None
    assert outputs.grad.dtype == torch.bfloat16
    assert outputs.grad[:, :3].tolist() == [[0.5, -0.5, 0.0]] * 2


def test_of_many_classes_a_second_pass_back_is_refused() -> None:
    """The gradient takes the place of what it was worked out from."""
    outputs = random_logits(3, WIDE, seed=0).requires_grad_()
    loss, _ = ensembled(outputs, lambda p: p.flip(1))
    loss.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.sum().backward()


def test_the_weight_is_the_largest_target_by_its_mean() -> None:
    target = random_targets(9, 4, seed=0)
    largest = target.double().amax(dim=1)
    close(confidence_weights(target), largest / largest.mean())
    assert confidence_weights(torch.zeros(3, 4)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("start", "alpha"), [(0, 0.75), (10, 0.75), (33, 2 ** (-5 / 33)), (100, 2**-0.05)])
def test_in_a_fifth_of_the_epochs_before_it_a_label_loses_half_of_its_weight(start: float, alpha: float) -> None:
    """Or faster: never less than a quarter in an epoch."""
    assert usual_alpha(start) == pytest.approx(alpha)


def test_targets_of_another_size_are_refused() -> None:
    for shape in ((5, 4), (4, 3), (5,)):
        with pytest.raises(InputError, match="target must hold a probability for every output"):
            soft_cross_entropy(torch.zeros(5, 3), torch.zeros(shape))


@pytest.mark.parametrize(("shape", "several"), [((6, 2), True), ((0,), False), ((), False)])
def test_several_labels_of_a_sample_are_named_as_what_they_are(shape: tuple[int, ...], several: bool) -> None:
    with pytest.raises(InputError) as error:
        checked_labels(torch.zeros(shape, dtype=torch.long), 3)
    assert ("multi-label" in str(error.value)) == several
