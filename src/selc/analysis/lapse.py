"""The fit of a curve with lapses: numbers that only say how it is computed, none that decides anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

BINS = 64  # groups of rows of equal confidence: more change no digit that is shown
RATES = 120  # shares of wrong labels that are tried, closer together the smaller they are
GRID = 16  # values of a, and of b, of which the best pair is where the fit begins
STEPS = 25  # of the fit of a and b for each of them
AROUND = 9  # values of a, and of b, around the best pair over which a mean is taken
REACH = 3  # standard deviations: so far from the best pair they reach to each side
LOWEST, HIGHEST = -15.0, (8.0, 3.0)  # that a, and a and log b, may be
UNLIKELY = 1e-7  # of all curves together: what weighs less changes no digit that is shown
KNOTS = 256  # log odds at which a mean over curves is taken; between them it is a straight line
TINY = 1e-12  # instead of dividing by zero
NEAREST = 1e-6  # to 0 and 1 that a probability may be: beyond that a network tells nothing apart


class Fitted(NamedTuple):
    """Curves for each of R shares of wrong labels: the one that suits it best, and those around it."""

    rates: Tensor  # [R] shares of wrong labels
    fit: Tensor  # [R] log likelihood with the a and b that suit it best
    curve: Tensor  # [R, 2] these a and log b
    around: Tensor  # [R, G, 2] others near them
    weights: Tensor  # [R, G] how likely each is, if none was likelier than another before; all of them sum to one


def fit(z: Tensor, contradicted: Tensor, num_classes: int, least: float) -> Fitted:
    """Fit a and b for each share of wrong labels.

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
    curves = Curves(rates, mean, n, k, num_classes, math.log(least))
    curve, value = curves.best()
    return Fitted(rates, value, curve, *curves.around(curve))


def log_odds(probability: Tensor) -> Tensor:
    """log p / (1 - p), finite also for what a network rounds to 0 or 1."""
    p = probability.double().clamp(NEAREST, 1 - NEAREST)
    return (p / (1 - p)).log()


def hardness(curve: Tensor, z: Tensor) -> Tensor:
    """h(z) less its factor 1 - 1 / C, [R, B]: sigmoid(a - b z) for each pair (a, log b)."""
    return torch.sigmoid(curve[:, :1] - curve[:, 1:].exp() * z)


@dataclass(frozen=True)
class Curves:
    """The likelihood of groups of rows by the curve: ``n`` rows each, of which ``k`` were contradicted, at a mean z."""

    rates: Tensor  # [R]
    z: Tensor  # [B]
    n: Tensor  # [B]
    k: Tensor  # [B]
    num_classes: int
    least: float  # the smallest log b

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        low, high = (LOWEST, self.least), HIGHEST
        return torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64)

    def share(self, curve: Tensor) -> Tensor:
        """P(contradicted | z), [R, B], for a pair (a, log b) each, [R, 2]."""
        most, e = 1 - 1 / self.num_classes, self.rates[:, None]
        return (e + (1 - e / most) * most * hardness(curve, self.z)).clamp(1e-9, 1 - 1e-9)

    def likelihood(self, p: Tensor) -> Tensor:
        return (self.k * p.log() + (self.n - self.k) * (1 - p).log()).sum(dim=1)

    def slopes(self, curve: Tensor, p: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Of the log likelihood by a and by log b, and what the rows tell of both (Fisher's information), [R] each."""
        s = hardness(curve, self.z)
        slope = (1 - 1 / self.num_classes - self.rates)[:, None] * s * (1 - s)
        by = slope, -slope * curve[:, 1:].exp() * self.z  # derivatives of a share by a and by log b, [R, B]
        variance = p * (1 - p)
        error = (self.k - self.n * p) / variance
        information = [(by[i] * by[j] * self.n / variance).sum(1) for i, j in ((0, 0), (0, 1), (1, 1))]
        return (by[0] * error).sum(1), (by[1] * error).sum(1), information

    def best(self) -> tuple[Tensor, Tensor]:
        """The pairs of largest likelihood [R, 2], and its logarithm [R]: the best of a grid, then damped Fisher
        scoring, all rates at once."""
        low, high = self.bounds
        curve = low.expand(len(self.rates), 2)
        highest = torch.full((len(self.rates),), -torch.inf, dtype=torch.float64)
        lines = (torch.linspace(*ends, GRID).double() for ends in zip(low, high, strict=True))
        for point in torch.cartesian_prod(*lines):
            here = point.expand(len(self.rates), 2)
            value = self.likelihood(self.share(here))
            curve = torch.where((value > highest)[:, None], here, curve)
            highest = torch.maximum(highest, value)
        damping = torch.full((len(self.rates),), 1e-2, dtype=torch.float64)
        p = self.share(curve)
        value = self.likelihood(p)
        for _ in range(STEPS):
            first, second, (xx, xy, yy) = self.slopes(curve, p)
            xx, yy = xx * (1 + damping) + 1e-6, yy * (1 + damping) + 1e-6
            both = torch.stack([yy * first - xy * second, xx * second - xy * first], 1) / (xx * yy - xy**2)[:, None]
            alone = torch.stack([first / xx, torch.zeros_like(first)], 1)  # b may be at its bound: a has its way
            moved = torch.zeros_like(damping, dtype=torch.bool)
            for step in (both, alone):
                tried = (curve + step.clamp(-2, 2)).clamp(low, high)
                p_tried = self.share(tried)
                better = self.likelihood(p_tried) > value
                curve = torch.where(better[:, None], tried, curve)
                p = torch.where(better[:, None], p_tried, p)
                value = self.likelihood(p)
                moved |= better
            damping = torch.where(moved, damping / 4, damping * 8).clamp(1e-8, 1e8)
        return curve, value

    def around(self, curve: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs around the best ones [R, G, 2], as far as the rows leave room, and how likely each is [R, G]."""
        low, high = self.bounds
        xx, xy, yy = self.slopes(curve, self.share(curve))[2]
        known = torch.stack([torch.stack([xx, xy], 1), torch.stack([xy, yy], 1)], 1)  # [R, 2, 2]
        # Where the rows say nothing, the bounds do: a value between them that is as likely as any other.
        known = known + torch.diag(12 / (high - low).square())
        spread = torch.linalg.cholesky(torch.linalg.inv(known))
        line = torch.linspace(-REACH, REACH, AROUND, dtype=torch.float64)
        pairs = curve[:, None] + torch.cartesian_prod(line, line) @ spread.mT
        inside = ((pairs >= low) & (pairs <= high)).all(dim=2)
        value = torch.stack([self.likelihood(self.share(pair)) for pair in pairs.unbind(1)], dim=1)
        (apart,) = torch.gradient(self.rates)  # shares lie closer together the smaller they are
        value = value + (apart * torch.linalg.det(spread)).log()[:, None]
        weights = torch.where(inside, (value - value[inside].max()).exp(), 0.0)
        return pairs, weights / weights.sum()
