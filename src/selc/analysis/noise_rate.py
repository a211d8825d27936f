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

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from selc.analysis.lapse import TINY, hardness, log_odds, profile

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

    rates: Tensor  # [R] shares that were tried
    fit: Tensor  # [R] log likelihood with the best a and b
    curve: Tensor  # [R, 2] these a and log b, for standardised z
    centre: float
    scale: float
    num_classes: int
    overconfident: bool  # whether the network is surer on average than it is right

    @property
    def rate(self) -> NoiseRate:
        near = self.fit >= self.fit.max() - WITHIN
        likely = self.rates[self.fit.argmax()]
        return NoiseRate(*(float(rate) for rate in (likely, self.rates[near].min(), self.rates[near].max())))

    def odds(self, confidence: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Of a contradicted label, by the confidence of the prediction and a share of wrong labels: the probability
        that the predicted class is right, and that the given one is; neither may be."""
        e, h = self._at(confidence, rate)
        contradicted = (e + (1 - e / (1 - 1 / self.num_classes)) * h).clamp_min(TINY)
        return e * (1 - h) / contradicted, (1 - e) * h / contradicted

    def agreed(self, confidence: Tensor, rate: float) -> Tensor:
        """The probability that a label is right that the prediction agrees with."""
        e, h = self._at(confidence, rate)
        agreed = (1 - e - (1 - e / (1 - 1 / self.num_classes)) * h).clamp_min(TINY)
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
    centre, scale = float(z.median()), max(float(z.std(correction=0)), TINY)
    overconfident = float(confidence.double().mean()) > 1 - float(contradicted.double().mean())
    rates, fit, curve = profile(
        (z - centre) / scale, contradicted, num_classes, (LEAST if overconfident else 1) * scale
    )
    return Noise(rates, fit, curve, centre, scale, num_classes, overconfident)
