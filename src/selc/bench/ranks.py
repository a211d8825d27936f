"""Whether methods differ over several data sets: mean ranks, Friedman's test, and Nemenyi's critical difference.

Janez Demšar: Statistical Comparisons of Classifiers over Multiple Data Sets. JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

FAR = 8.0  # standard deviations beyond which a normal distribution has nothing left
STEPS = 4001


def ranks_of(scores: Sequence[Sequence[float]]) -> np.ndarray:
    """The rank of each method on each data set, [n, k]; 1 is the largest score, and equals share their mean rank."""
    table = np.asarray(scores, float)
    above = (table[:, None, :] > table[:, :, None]).sum(axis=2)
    alike = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    return np.asarray(above + (alike + 1) / 2)


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    """Friedman's statistic, and how likely one as large is if all methods are alike (by chi square, k - 1)."""
    n, k = ranks.shape
    mean = ranks.mean(axis=0)
    chi = 12 * n / (k * (k + 1)) * (float((mean**2).sum()) - k * (k + 1) ** 2 / 4)
    half = torch.tensor([(k - 1) / 2, max(chi, 0.0) / 2], dtype=torch.float64)
    return chi, float(torch.special.gammaincc(half[0], half[1]))


def critical_difference(k: int, n: int, level: float = 0.05) -> float:
    """Mean ranks of k methods on n data sets that are farther apart differ, by Nemenyi's test."""
    return studentized_range(k, level) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))


def studentized_range(k: int, level: float) -> float:
    """The range of k normal numbers that is exceeded with a probability of ``level``: known variance."""
    x = torch.linspace(-FAR, FAR, STEPS, dtype=torch.float64)
    density = (-0.5 * x * x).exp() / math.sqrt(2 * math.pi)
    low, high = 0.0, 2 * FAR
    while high - low > 1e-9:
        middle = (low + high) / 2
        inside = (torch.special.ndtr(x + middle) - torch.special.ndtr(x)) ** (k - 1)
        below = float(torch.trapezoid(k * density * inside, x))  # that all are within ``middle`` above the least
        low, high = (middle, high) if below < 1 - level else (low, middle)
    return high


def alike(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Runs of methods, sorted by mean rank, of which no two differ: first and last place of each, the longest ones."""
    found: list[tuple[int, int]] = []
    for first, least in enumerate(mean_ranks):
        last = max(place for place, rank in enumerate(mean_ranks) if rank - least <= difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
