"""How many labels are wrong, told from rows that are merely hard.

A network contradicts a given label because the label is wrong or because the row is hard. It is the less often wrong
itself the surer it is, but a wrong label falls on easy rows as on hard ones. So among ever surer predictions the share
of contradicted labels falls to a floor, and the floor is the share of wrong labels. Psychologists know the same curve:
people answer hard questions wrongly, and now and then an easy one, which is called a lapse (Wichmann and Hill, The
psychometric function I, 2001). With e the share of wrong labels, C classes and z the log odds of the prediction,

    P(contradicted | z) = e + (1 - e C / (C - 1)) h(z)        h(z) = (1 - 1 / C) sigmoid(a - b z),   b > 0

h is how often the network itself is wrong. The estimate of e has the largest likelihood, and the interval holds every e
whose likelihood is not significantly smaller, whatever a and b are. Where the contradictions hardly depend on z, a
floor cannot be told from hardness: then the interval reaches from nothing to all of them, and that is what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

NARROW = 0.15  # share of labels: of a wider interval no single number is named
WITHIN = 1.92  # of log likelihood: half of the 95 % point of chi-square with one degree of freedom
BINS = 64  # groups of rows of equal confidence: more change no digit that is shown
RATES = 120  # shares of wrong labels that are tried, closer together the smaller they are
STEPS = 40  # of the fit of a and b for each of them


class NoiseRate(NamedTuple):
    """The share of wrong labels: the most likely one, and the range of those that are as likely within chance."""

    likely: float
    low: float
    high: float

    @property
    def estimate(self) -> float | None:
        """The share in one number; None where wrong labels cannot be told from hard rows."""
        return self.likely if self.high - self.low <= NARROW else None


@dataclass(frozen=True)
class Noise:
    """The fitted curve: for each share of wrong labels that was tried, how hard rows would then be."""

    rates: Tensor  # [R] shares that were tried
    fit: Tensor  # [R] log likelihood with the best a and b
    curve: Tensor  # [R, 2] these a and log b, for standardised z
    centre: float
    scale: float
    num_classes: int

    @property
    def rate(self) -> NoiseRate:
        near = self.fit >= self.fit.max() - WITHIN
        likely = self.rates[self.fit.argmax()]
        return NoiseRate(*(float(rate) for rate in (likely, self.rates[near].min(), self.rates[near].max())))

    def odds(self, confidence: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Of a contradicted label, by the confidence of the prediction and a share of wrong labels: the probability
        that the predicted class is right, and that the given one is; neither may be."""
        e, h = self._at(confidence, rate)
        contradicted = (e + (1 - e / (1 - 1 / self.num_classes)) * h).clamp_min(1e-12)
        return e * (1 - h) / contradicted, (1 - e) * h / contradicted

    def agreed(self, confidence: Tensor, rate: float) -> Tensor:
        """The probability that a label is right that the prediction agrees with."""
        e, h = self._at(confidence, rate)
        agreed = (1 - e - (1 - e / (1 - 1 / self.num_classes)) * h).clamp_min(1e-12)
        return (1 - e) * (1 - h) / agreed

    def _at(self, confidence: Tensor, rate: float) -> tuple[float, Tensor]:
        """The nearest rate that was tried, and how often the network is wrong with it."""
        place = int((self.rates - rate).abs().argmin())
        z = (log_odds(confidence) - self.centre) / self.scale
        h = (1 - 1 / self.num_classes) * hardness(self.curve[place : place + 1], z)[0]
        return float(self.rates[place]), h


def explain(contradicted: Tensor, confidence: Tensor, num_classes: int) -> Noise:
    """Fit the curve to rows that the network was not trained on: is the label contradicted, and how sure is it."""
    z = log_odds(confidence)
    centre, scale = float(z.median()), max(float(z.std(correction=0)), 1e-9)
    order = z.argsort()
    count = min(BINS, len(z))
    group = torch.arange(len(z)) * count // len(z)
    n = torch.bincount(group, minlength=count).double()
    k = torch.zeros(count, dtype=torch.float64).index_add_(0, group, contradicted[order].double())
    mean = torch.zeros(count, dtype=torch.float64).index_add_(0, group, (z[order] - centre) / scale) / n
    most = 1 - 1 / num_classes
    rates = most * torch.linspace(0, 1, RATES + 1, dtype=torch.float64)[:-1].square()
    fits = [_fitted(rates, mean, n, k, num_classes, begin) for begin in ((0.0, 0.0), (-2.0, 1.0))]
    better = fits[1][0] > fits[0][0]
    fit = torch.where(better, fits[1][0], fits[0][0])
    curve = torch.where(better[:, None], fits[1][1], fits[0][1])
    return Noise(rates, fit, curve, centre, scale, num_classes)


def log_odds(probability: Tensor) -> Tensor:
    """log p / (1 - p), finite also for what a network rounds to 0 or 1."""
    p = probability.double().clamp(1e-6, 1 - 1e-6)
    return (p / (1 - p)).log()


def hardness(curve: Tensor, z: Tensor) -> Tensor:
    """h(z) less its factor 1 - 1 / C, [R, B]: sigmoid(a - b z) for each pair (a, log b)."""
    return torch.sigmoid(curve[:, :1] - curve[:, 1:].exp() * z)


def _fitted(
    rates: Tensor, z: Tensor, n: Tensor, k: Tensor, num_classes: int, begin: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """The largest log likelihood [R] over a and log b, and these [R, 2]: damped Fisher scoring, all rates at once."""
    most = 1 - 1 / num_classes
    e, weight = rates[:, None], 1 - rates[:, None] / most
    curve = torch.tensor(begin, dtype=torch.float64).expand(len(rates), 2).clone()
    low, high = (torch.tensor(bounds, dtype=torch.float64) for bounds in ((-15.0, -4.0), (8.0, 3.0)))

    def share(at: Tensor) -> Tensor:
        return (e + weight * most * hardness(at, z)).clamp(1e-9, 1 - 1e-9)

    def likelihood(p: Tensor) -> Tensor:
        return (k * p.log() + (n - k) * (1 - p).log()).sum(dim=1)

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
        step = torch.stack([yy * first - xy * second, xx * second - xy * first], 1) / (xx * yy - xy**2)[:, None]
        tried = (curve + step.clamp(-2, 2)).clamp(low, high)
        p_tried = share(tried)
        better = likelihood(p_tried) >= value
        curve = torch.where(better[:, None], tried, curve)
        p = torch.where(better[:, None], p_tried, p)
        value = likelihood(p)
        damping = torch.where(better, damping / 4, damping * 8).clamp(1e-8, 1e8)
    return value, curve
