"""Over 200 random mixtures ours is as likely as scikit-learn's, run to convergence, and lies where it lies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from torch import Tensor

from selc.turning.mixture import fit_mixture, normalise, two_means
from tests.tiers import exhaustive


def random_losses(rng: np.random.Generator) -> tuple[Tensor, bool]:
    """Two groups of a random shape, and whether they are clearly separated Gaussians."""
    count = int(rng.integers(300, 2000))
    low = rng.random(count) < rng.uniform(0.1, 0.9)
    shape = rng.integers(3)
    separated = False
    if shape == 0:  # Gaussians at any distance
        gap, spread = rng.uniform(0.02, 0.7), rng.uniform(0.01, 0.2, size=2)
        x = np.where(low, rng.normal(0.2, spread[0], count), rng.normal(0.2 + gap, spread[1], count))
        separated = bool(gap > 3 * spread.sum())
    elif shape == 1:  # a peak at zero and a bump: losses in the middle of a training
        x = np.where(
            low, rng.exponential(rng.uniform(0.02, 0.1), count), rng.normal(0.6, rng.uniform(0.05, 0.2), count)
        )
    else:  # everything nearly learnt, with a long tail
        x = np.where(low, rng.gamma(0.5, 0.02, count), rng.gamma(4.0, 0.1, count))
    return normalise(torch.from_numpy(x)), separated


@pytest.mark.parametrize("seed", [0, *exhaustive(*range(1, 20))])
def test_ten_random_mixtures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        losses, separated = random_losses(rng)
        column = losses.numpy()[:, None]
        ours = fit_mixture(losses)
        theirs = GaussianMixture(2, tol=1e-6, max_iter=2000, random_state=0).fit(column)
        likelihood = float(ours.density(losses).sum(0).log().mean())
        assert likelihood > theirs.score(column) - 1e-3
        if separated:
            assert ours.mean == pytest.approx(np.sort(theirs.means_.ravel()), abs=0.01)
        clusters = KMeans(2, n_init=3, random_state=0).fit(column)
        centres = np.sort(clusters.cluster_centers_.ravel())
        if two_means(losses) != pytest.approx(centres, abs=0.01):
            # KMeans may stop at a worse pair; then ours must have the smaller sum of squares.
            ours_centres = np.array(two_means(losses))
            squares = float(np.min((column - ours_centres) ** 2, axis=1).sum())
            assert squares < clusters.inertia_
