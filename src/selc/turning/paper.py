"""The paper's turning point (section 4.4): the epoch in which losses of clean and wrong labels lie farthest apart."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.turning.mixture import Mixture, fit_mixture, normalise, two_means

Metric = Literal["M1", "M2", "M3"]


def separation(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> float:
    """How far apart the two groups of losses lie, after normalisation to [0, 1].

    Parameters
    ----------
    losses : Tensor, shape [N]
        Losses of the samples in one epoch.
    metric : "M1", "M2" or "M3", default "M1"
        M1 is the distance of the means of two Gaussians, M2 the Kullback-Leibler divergence of the first (the smaller
        mean) from the second, M3 the distance of the centroids of 2-means.
    clip : float, default 0.0
        Share of the smallest and of the largest losses that is clipped before. The paper normalises by the smallest
        and the largest one, which is 0.

    Returns
    -------
    float

    Examples
    --------
    >>> import torch
    >>> from selc import separation
    >>> losses = torch.tensor([0.0] * 50 + [0.2] * 50 + [1.8] * 10 + [2.0] * 10)
    >>> round(separation(losses, "M3"), 3)  # centroids 0.1 and 1.9, divided by 2
    0.9
    """
    if metric not in ("M1", "M2", "M3"):
        raise ConfigError(f"metric must be 'M1', 'M2' or 'M3'; got {metric!r}.")
    scaled = normalise(losses, clip)
    if metric == "M3":
        low, high = two_means(scaled)
        return high - low
    return of_mixture(fit_mixture(scaled))[0 if metric == "M1" else 1]


def of_mixture(mixture: Mixture) -> tuple[float, float]:
    """M1 and M2 of two Gaussians, whose fit is what takes time."""
    (m1, m2), (s1, s2) = mixture.mean, mixture.std
    return m2 - m1, math.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5


def separations(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> list[float]:
    """The separation of each epoch of recorded losses [E, N]; samples that were not seen (NaN) are left out."""
    if losses.dim() != 2:
        raise InputError(f"losses must be [epochs, samples]; got shape {tuple(losses.shape)}.")
    seen = ~torch.isnan(losses)
    return [separation(epoch[there], metric, clip) for epoch, there in zip(losses, seen, strict=True)]


def turning_point(losses: Tensor, metric: Metric = "M1", clip: float = 0.0) -> int:
    """The epoch with the largest separation of recorded losses, as in the paper (section 4.4).

    Parameters
    ----------
    losses : Tensor, shape [E, N]
        Losses of each sample in each epoch; NaN where a sample was not seen.
    metric, clip
        As of `selc.separation`.

    Returns
    -------
    int
        The epoch, counted from 0.

    Examples
    --------
    >>> import torch
    >>> from selc import turning_point
    >>> clean = torch.tensor([1.0, 0.2, 0.05, 0.01]).outer(torch.linspace(0.9, 1.1, 80))
    >>> wrong = torch.tensor([1.0, 2.0, 0.5, 0.05]).outer(torch.linspace(0.9, 1.1, 20))
    >>> turning_point(torch.cat([clean, wrong], dim=1))
    1
    """
    values = separations(losses, metric, clip)
    return max(range(len(values)), key=values.__getitem__)
