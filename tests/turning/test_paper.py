"""The metrics of the paper, written out; and the epoch that they choose."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.turning.paper import Metric, separation, separations, turning_point


def two_groups(gap: float, wrong: float = 0.3, seed: int = 0, count: int = 4000) -> Tensor:
    """Losses of a clean group near 0.3 and of a group that lies ``gap`` higher."""
    rng = torch.Generator().manual_seed(seed)
    high = torch.rand(count, generator=rng) < wrong
    spread = torch.where(high, 0.25, 0.1)
    return 0.5 + torch.where(high, gap, 0.0) + spread * torch.randn(count, generator=rng).clamp(-3, 3)


def min_max(losses: Tensor) -> np.ndarray:
    x = losses.double().numpy()
    return np.asarray((x - x.min()) / (x.max() - x.min()))[:, None]


@pytest.mark.parametrize("gap", [1.0, 2.0, 4.0])
def test_m1_and_m2_are_those_of_scikit_learns_mixture(gap: float) -> None:
    losses = two_groups(gap)
    mixture = GaussianMixture(2, tol=1e-8, max_iter=5000, random_state=0).fit(min_max(losses))
    one, two = np.argsort(mixture.means_.ravel())
    m1, m2 = mixture.means_.ravel()[[one, two]]
    s1, s2 = np.sqrt(mixture.covariances_.ravel()[[one, two]])
    assert separation(losses, "M1") == pytest.approx(abs(m1 - m2), abs=0.005)
    divergence = math.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5
    assert separation(losses, "M2") == pytest.approx(divergence, rel=0.02)


@pytest.mark.parametrize("gap", [1.0, 2.0, 4.0])
def test_m3_is_that_of_scikit_learns_two_means(gap: float) -> None:
    losses = two_groups(gap)
    centres = np.sort(KMeans(2, n_init=10, random_state=0).fit(min_max(losses)).cluster_centers_.ravel())
    assert separation(losses, "M3") == pytest.approx(centres[1] - centres[0], abs=0.005)


def test_the_divergence_is_of_the_component_with_the_smaller_mean_from_the_other() -> None:
    """It is not symmetric: by hand for N(0.2, 0.05) and N(0.7, 0.1), 12.8 this way and 50.8 the other."""
    rng = torch.Generator().manual_seed(0)
    narrow, wide = 0.2 + 0.05 * torch.randn(30_000, generator=rng), 0.7 + 0.1 * torch.randn(30_000, generator=rng)
    losses = torch.cat([narrow, wide])
    low, high = losses.min(), losses.max()
    by_hand = math.log(0.1 / 0.05) + (0.05**2 + 0.5**2) / (2 * 0.1**2) - 0.5
    assert by_hand == pytest.approx(12.82, abs=0.01)
    assert separation((losses - low) / (high - low), "M2") == pytest.approx(by_hand, rel=0.03)


@pytest.mark.parametrize("metric", ["M1", "M2", "M3"])
def test_the_metrics_do_not_change_with_scale_offset_and_order(metric: Metric) -> None:
    losses = two_groups(2.0)
    shuffled = losses[torch.randperm(len(losses), generator=torch.Generator().manual_seed(1))]
    expected = separation(losses, metric)
    assert separation(7.0 * shuffled + 3.0, metric) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("metric", ["M1", "M3"])
def test_the_turning_point_is_the_epoch_with_the_groups_farthest_apart(metric: Metric) -> None:
    gaps = [0.2, 1.0, 2.0, 4.0, 2.5, 1.0, 0.3]
    losses = torch.stack([two_groups(gap, seed=epoch) for epoch, gap in enumerate(gaps)])
    assert turning_point(losses, metric) == 3


def test_one_huge_loss_squeezes_all_others_unless_it_is_clipped() -> None:
    losses = two_groups(2.0)
    expected = separation(losses, clip=0.01)
    losses[0] = 1e6
    assert separation(losses, "M3", clip=0.01) > 0.3
    assert separation(losses, clip=0.01) == pytest.approx(expected, abs=0.02)
    # By the smallest and the largest value all the others fall into one bin.
    assert separation(losses, "M3") == pytest.approx(1.0, abs=1e-3)


def test_constant_losses_are_not_apart() -> None:
    for metric in ("M1", "M3"):
        assert separation(torch.full((50,), 2.3), metric) == pytest.approx(0.0, abs=1e-9)
    assert separation(torch.full((50,), 2.3), "M2") == pytest.approx(0.0, abs=1e-6)


def test_samples_that_were_not_seen_are_left_out() -> None:
    losses = two_groups(2.0)
    with_gaps = torch.cat([losses, torch.full((500,), torch.nan)])
    assert separations(with_gaps[None]) == [separation(losses)]


def test_bad_losses_and_names_get_their_sentence() -> None:
    with pytest.raises(InputError, match="finite"):
        separation(torch.tensor([1.0, torch.nan]))
    with pytest.raises(InputError, match=r"losses must be \[epochs, samples\]"):
        turning_point(torch.zeros(5))
    with pytest.raises(ConfigError, match="metric must be"):
        separation(torch.rand(10), "M4")  # type: ignore[arg-type]
