"""The fit of a curve with lapses: numbers that only say how it is computed, none that decides anything."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = 64  # groups of rows of equal confidence: more change no digit that is shown
RATES = 120  # shares of wrong labels that are tried, closer together the smaller they are
GRID = 16  # values of a, and of b, of which the best pair is where the fit begins
STEPS = 25  # of the fit of a and b for each of them
TINY = 1e-12  # instead of dividing by zero
NEAREST = 1e-6  # to 0 and 1 that a probability may be: beyond that a network tells nothing apart


def profile(z: Tensor, contradicted: Tensor, num_classes: int, least: float) -> tuple[Tensor, Tensor, Tensor]:
    """Shares of wrong labels [R], the log likelihood of each with the a and b that suit it best [R], and these [R, 2].

    ``z`` [N] are standardised log odds of the predictions, ``contradicted`` [N] whether the given label is another one,
    ``least`` the smallest b that is tried.
    """
    order = z.argsort()
    count = min(BINS, len(z))
    group = torch.arange(len(z)) * count // len(z)
    n = torch.bincount(group, minlength=count).double()
    k = torch.zeros(count, dtype=torch.float64).index_add_(0, group, contradicted[order].double())
    mean = torch.zeros(count, dtype=torch.float64).index_add_(0, group, z[order]) / n
    rates = (1 - 1 / num_classes) * torch.linspace(0, 1, RATES + 1, dtype=torch.float64)[:-1].square()
    return rates, *_fitted(rates, mean, n, k, num_classes, least)


def log_odds(probability: Tensor) -> Tensor:
    """log p / (1 - p), finite also for what a network rounds to 0 or 1."""
    p = probability.double().clamp(NEAREST, 1 - NEAREST)
    return (p / (1 - p)).log()


def hardness(curve: Tensor, z: Tensor) -> Tensor:
    """h(z) less its factor 1 - 1 / C, [R, B]: sigmoid(a - b z) for each pair (a, log b)."""
    return torch.sigmoid(curve[:, :1] - curve[:, 1:].exp() * z)


def _fitted(rates: Tensor, z: Tensor, n: Tensor, k: Tensor, num_classes: int, least: float) -> tuple[Tensor, Tensor]:
    """The largest log likelihood [R] over a and log b, and these [R, 2]: the best of a grid, then damped Fisher
    scoring, all rates at once."""
    most = 1 - 1 / num_classes
    e, weight = rates[:, None], 1 - rates[:, None] / most
    low, high = (torch.tensor(bounds, dtype=torch.float64) for bounds in ((-15.0, math.log(least)), (8.0, 3.0)))

    def share(at: Tensor) -> Tensor:
        return (e + weight * most * hardness(at, z)).clamp(1e-9, 1 - 1e-9)

    def likelihood(p: Tensor) -> Tensor:
        return (k * p.log() + (n - k) * (1 - p).log()).sum(dim=1)

    curve, highest = low.expand(len(rates), 2), torch.full((len(rates),), -torch.inf, dtype=torch.float64)
    for point in torch.cartesian_prod(*(torch.linspace(*ends, GRID).double() for ends in zip(low, high, strict=True))):
        here = point.expand(len(rates), 2)
        value = likelihood(share(here))
        curve = torch.where((value > highest)[:, None], here, curve)
        highest = torch.maximum(highest, value)
    damping = torch.full((len(rates),), 1e-2, dtype=torch.float64)
    p = share(curve)
    value = likelihood(p)
    for _ in range(STEPS):
        s = hardness(curve, z)
        slope = weight * most * s * (1 - s)
        by = slope, -slope * curve[:, 1:].exp() * z  # derivatives by a and by log b, [R, B]
        variance = p * (1 - p)
        error = (k - n * p) / variance
        first, second = (by[0] * error).sum(1), (by[1] * error).sum(1)
        xx, xy, yy = ((by[i] * by[j] * n / variance).sum(1) for i, j in ((0, 0), (0, 1), (1, 1)))
        xx, yy = xx * (1 + damping) + 1e-6, yy * (1 + damping) + 1e-6
        both = torch.stack([yy * first - xy * second, xx * second - xy * first], 1) / (xx * yy - xy**2)[:, None]
        alone = torch.stack([first / xx, torch.zeros_like(first)], 1)  # where b is at its bound, a still has its way
        moved = torch.zeros_like(damping, dtype=torch.bool)
        for step in (both, alone):
            tried = (curve + step.clamp(-2, 2)).clamp(low, high)
            p_tried = share(tried)
            better = likelihood(p_tried) > value
            curve = torch.where(better[:, None], tried, curve)
            p = torch.where(better[:, None], p_tried, p)
            value = likelihood(p)
            moved |= better
        damping = torch.where(moved, damping / 4, damping * 8).clamp(1e-8, 1e8)
    return value, curve
