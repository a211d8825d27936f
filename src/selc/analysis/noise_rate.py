"""How many labels are wrong, told from rows that are merely hard.

A network contradicts a given label because the label is wrong or because the row is hard. It is the less often wrong
itself the surer it is, but a wrong label falls on easy rows as on hard ones. So among ever surer predictions the share
of contradicted labels falls to a floor, and the floor is the share of wrong labels. Psychologists know the same curve:
people answer hard questions wrongly, and now and then an easy one, which is called a lapse (Wichmann and Hill, The
psychometric function I, 2001). With e the share of wrong labels, C classes and z the log odds of the prediction,

    P(contradicted | z) = e + (1 - e C / (C - 1)) h(z)        h(z) = (1 - 1 / C) sigmoid(a - b z),   b > 0

h is how often the network itself is wrong. The estimate of e has the largest likelihood, and the interval holds every
e whose likelihood is not significantly smaller, whatever a and b are. b is 1 for a calibrated network, and more for
one that is unsure because labels are wrong; it is less only for one that is surer than it is right, which shows. Where
the contradictions hardly depend on z, a floor cannot be told from hardness: then the interval reaches from nothing to
all of them, and that is what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from selc.analysis.lapse import KNOTS, TINY, UNLIKELY, Fitted, fit, hardness, log_odds

NARROW = 0.15  # share of labels: of a wider interval no single number is named
LEAST = 0.3  # of a calibrated slope: so fast at least do errors of an overconfident network fall with its log odds
WITHIN = 1.92  # of log likelihood: half of the 95 % point of chi-square with one degree of freedom


class NoiseRate(NamedTuple):
    """The share of wrong labels: the most likely one, and the range of those that are as likely within chance."""

    likely: float
    low: float
    high: float

    @property
    def estimate(self) -> float | None:
        """The share in one number; None where wrong labels cannot be told from hard rows."""
        return self.likely if self.high - self.low <= NARROW else None


class NoiseRange(NoiseRate):
    """A range where nothing was held out: in it no share is told from another, however narrow it is."""

    __slots__ = ()

    @property
    def estimate(self) -> float | None:
        return None


@dataclass(frozen=True)
class Noise:
    """The fitted curve: for each share of wrong labels that was tried, how hard rows would then be."""

    fitted: Fitted  # for standardised z
    centre: float
    scale: float
    num_classes: int
    overconfident: bool  # whether the network is surer on average than it is right

    @property
    def rate(self) -> NoiseRate:
        rates, fit = self.fitted.rates, self.fitted.fit
        near = fit >= fit.max() - WITHIN
        return NoiseRate(*(float(rate) for rate in (rates[fit.argmax()], rates[near].min(), rates[near].max())))

    def odds(self, confidence: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Of a contradicted label, by the confidence of the prediction and a share of wrong labels: the probability
        that the predicted class is right, and that the given one is; neither may be."""
        place = int((self.fitted.rates - rate).abs().argmin())  # the nearest one that was tried
        e, h = self.fitted.rates[place], self._hard(self.fitted.curve[place : place + 1], self._z(confidence))[0]
        contradicted = self._contradicted(e, h)
        return e * (1 - h) / contradicted, (1 - e) * h / contradicted

    def right(self, confidence: Tensor) -> Tensor:
        """Of a contradicted label, by the confidence of the prediction: the probability that the predicted class is
        right. It is a mean over all curves and shares of wrong labels, each as likely as the rows say."""
        return self._mean(confidence, lambda e, h: e * (1 - h) / self._contradicted(e, h))

    def agreed(self, confidence: Tensor) -> Tensor:
        """The probability that a label is right that the prediction agrees with, likewise."""
        return self._mean(confidence, lambda e, h: (1 - e) * (1 - h) / (1 - self._contradicted(e, h)).clamp_min(TINY))

    def _contradicted(self, e: Tensor, h: Tensor) -> Tensor:
        return (e + (1 - e / (1 - 1 / self.num_classes)) * h).clamp_min(TINY)

    def _mean(self, confidence: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of what follows from a share of wrong labels [K, 1] and hardness [K, Z], at each confidence."""
        z, weights = self._z(confidence), self.fitted.weights
        likely = weights > UNLIKELY
        e = self.fitted.rates[:, None].expand_as(weights)[likely][:, None]
        knots = torch.linspace(float(z.min()), float(z.max()), KNOTS, dtype=torch.float64)
        mean = weights[likely] @ of(e, self._hard(self.fitted.around[likely], knots)) / weights[likely].sum()
        return torch.from_numpy(numpy.interp(z.numpy(), knots.numpy(), mean.numpy()))

    def _z(self, confidence: Tensor) -> Tensor:
        return (log_odds(confidence) - self.centre) / self.scale

    def _hard(self, curves: Tensor, z: Tensor) -> Tensor:
        """How often the network is wrong by each pair (a, log b) [K, 2], at each z: [K, Z]."""
        return (1 - 1 / self.num_classes) * hardness(curves, z)


def explain(contradicted: Tensor, confidence: Tensor, num_classes: int, slack: float = 0.0) -> Noise:
    """Fit the curve to rows that the network was not trained on: is the label contradicted, and how sure is it.

    By more than ``slack`` standard errors must it be surer than it is right, to count as such: what is fitted to be
    exactly as sure as it is right is above that as often as below.
    """
    z = log_odds(confidence)
    centre, scale = float(z.median()), max(float(z.std(correction=0)), TINY)
    surer = confidence.double() - (~contradicted).double()
    overconfident = float(surer.mean()) > slack * float(surer.std(correction=0)) / math.sqrt(len(surer))
    fitted = fit((z - centre) / scale, contradicted, num_classes, (LEAST if overconfident else 1) * scale)
    return Noise(fitted, centre, scale, num_classes, overconfident)
