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

    M1 is the distance of the means of two Gaussians, M2 the Kullback-Leibler divergence of the first (the smaller
    mean) from the second, M3 the distance of the centroids of 2-means. The paper normalises by the smallest and the
    largest loss (``clip=0``); see `normalise` for ``clip``.
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
    """The epoch (from 0) of recorded losses [E, N] with the largest separation, as in the paper."""
    values = separations(losses, metric, clip)
    return max(range(len(values)), key=values.__getitem__)
