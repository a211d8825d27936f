from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from selc.errors import InputError
from selc.turning.mixture import fit_mixture, normalise
from tests.helpers import rng


def two_groups(seed: int, count: int = 4000) -> Tensor:
    """Losses in [0, 1] from two well separated Gaussians with random weights, means and widths."""
    u = torch.rand(4, generator=rng(seed)).tolist()
    few = int(count * (0.2 + 0.6 * u[0]))
    low = 0.15 + 0.1 * u[1] + (0.02 + 0.03 * u[3]) * torch.randn(few, generator=rng(seed + 100))
    high = 0.6 + 0.15 * u[2] + 0.06 * torch.randn(count - few, generator=rng(seed + 200))
    return torch.cat([low, high]).clamp(0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_as_likely_as_scikit_learns_mixture_at_convergence(seed: int) -> None:
    losses = two_groups(seed)
    ours = fit_mixture(losses)
    x = losses.double().numpy()[:, None]
    theirs = GaussianMixture(2, tol=1e-7, max_iter=1000, reg_covar=1e-9, random_state=0).fit(x)
    likelihood = float(ours.density(losses.double()).sum(dim=0).log().mean())
    assert likelihood > theirs.score(x) - 1e-3
    order = theirs.means_.ravel().argsort()
    assert ours.mean == pytest.approx(theirs.means_.ravel()[order], abs=0.01)
    assert ours.weight == pytest.approx(theirs.weights_[order], abs=0.01)
    assert ours.std == pytest.approx(theirs.covariances_.ravel()[order] ** 0.5, abs=0.01)


def test_a_small_tight_group_below_two_wide_ones_is_found_as_scikit_learn_finds_it_from_there() -> None:
    """Two means lie elsewhere, and from the median on every cut leaves it among others."""
    wide = [0.5 + 0.1 * torch.randn(240, generator=rng(1)), 0.9 + 0.03 * torch.randn(240, generator=rng(2))]
    losses = torch.cat([0.1 + 0.005 * torch.randn(120, generator=rng(0)), *wide]).clamp(0, 1)
    ours = fit_mixture(losses)
    x = losses.double().numpy()[:, None]
    theirs = GaussianMixture(2, tol=1e-7, max_iter=1000, means_init=[[0.1], [0.7]], random_state=0).fit(x)
    assert float(ours.density(losses.double()).sum(dim=0).log().mean()) > theirs.score(x) - 1e-3
    assert ours.mean == pytest.approx(np.sort(theirs.means_.ravel()), abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_component_has_the_smaller_mean(seed: int) -> None:
    mixture = fit_mixture(two_groups(seed))
    mirrored = fit_mixture(1 - two_groups(seed))
    assert mixture.mean[0] < mixture.mean[1]
    assert mirrored.mean == pytest.approx((1 - mixture.mean[1], 1 - mixture.mean[0]), abs=2e-3)
    assert mirrored.weight == pytest.approx(mixture.weight[::-1], abs=2e-3)


def test_the_same_losses_in_any_order_give_the_same_mixture() -> None:
    losses = two_groups(0)
    shuffled = losses[torch.randperm(len(losses), generator=rng(1))]
    assert fit_mixture(losses) == fit_mixture(losses) == fit_mixture(shuffled)


def test_the_density_integrates_to_one_and_each_component_to_its_weight() -> None:
    mixture = fit_mixture(two_groups(0))
    x = torch.linspace(-1, 2, 30_001, dtype=torch.float64)
    mass = torch.trapezoid(mixture.density(x), x, dim=-1).tolist()
    assert mass == pytest.approx(mixture.weight, abs=1e-6)
    assert sum(mass) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.7, 1e30])
def test_constant_losses_give_a_finite_mixture(value: float) -> None:
    losses = normalise(torch.full((50,), value))
    assert not losses.any()
    mixture = fit_mixture(losses)
    assert all(math.isfinite(v) for part in mixture for v in part)
    assert sum(mixture.weight) == pytest.approx(1)
    assert min(mixture.std) > 0
    assert mixture.mean == pytest.approx((0, 0), abs=1e-3)


def test_normalised_losses_run_from_zero_to_one_in_the_same_proportions() -> None:
    assert normalise(torch.tensor([3.0, 1.0, 2.0, 5.0])).tolist() == [0.5, 0.0, 0.25, 1.0]


def test_clipped_losses_end_at_the_quantiles_of_both_ends() -> None:
    """Of 101 losses five lie beyond each quantile."""
    losses = torch.randn(101, generator=rng(0)).double().exp()
    low, high = np.quantile(losses, [0.05, 0.95])
    wanted = (np.clip(losses.numpy(), low, high) - low) / (high - low)
    np.testing.assert_allclose(normalise(losses, clip=0.05), wanted, atol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_losses_that_are_not_finite_are_counted_in_the_error(bad: float) -> None:
    with pytest.raises(InputError, match="got 4 values, 2 of them not finite"):
        normalise(torch.tensor([0.1, bad, 0.3, bad]))


def test_no_losses_at_all_is_an_error() -> None:
    with pytest.raises(InputError, match="non-empty"):
        normalise(torch.tensor([]))


@pytest.mark.parametrize("losses", [[0.1, math.nan, 0.9], [2.0, 3.0], []])
def test_fitting_what_is_not_in_0_to_1_is_an_error(losses: list[float]) -> None:
    with pytest.raises(InputError):
        fit_mixture(torch.tensor(losses))


def test_whole_numbers_are_losses_too_and_double_precision_is_kept() -> None:
    assert normalise(torch.tensor([0, 1, 4])).tolist() == [0.0, 0.25, 1.0]
    thirds = normalise(torch.tensor([0, 1, 3], dtype=torch.float64))
    assert thirds.tolist() == [0, 1 / 3, 1]
