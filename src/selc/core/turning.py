"""The turning point: the epoch after which a network no longer learns the pattern but the wrong labels.

Clean samples are learnt first, so the training losses part into two groups and later merge again as the wrong labels
are memorised. The epoch at which the groups lie farthest apart is the turning point (section 4.4 of the paper).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from selc.core.mixture import fit_mixture, normalise, two_means
from selc.errors import ConfigError, InputError

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
    mixture = fit_mixture(scaled)
    (m1, m2), (s1, s2) = mixture.mean, mixture.std
    if metric == "M1":
        return m2 - m1
    return math.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5


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


# The automatic rule. Each constant is a share or a number of updates, so that it scales with the run.
TRIM = 0.01  # of the losses at either end that the mixture does not see: a few huge ones would decide everything
DROP = 0.1  # fall of the gap below its maximum that confirms the peak
PATIENCE = 0.2  # of all epochs: no new maximum for so long confirms it too, and bounds what stepping back costs
LATEST = 0.75  # of all epochs: by then SELC starts, peak or no peak
NOTHING = 0.1  # labels in dispute at the peak below which hard samples cannot be told from wrong labels
HALVINGS = 5  # the weight of a given label halves so often within the time that it took to reach the peak
FINE = 4000  # samples from which on an epoch is looked at in quarters
LEAST_ALPHA = 0.7  # below, a network that is not mature is frozen: the gradient is alpha (p - t)


def gap(losses: Tensor) -> float:
    """M1 in the unit of the losses (nats), on all but the smallest and largest of them.

    The paper scales each epoch to [0, 1] anew; as the range of the losses changes from epoch to epoch, so does the
    unit, and the maximum is often an artefact of an epoch with few large losses. In nats epochs can be compared.
    """
    ordered = losses.flatten().sort().values
    cut = int(TRIM * (len(ordered) - 1))
    kept = ordered[cut : len(ordered) - cut]
    scale = float(kept[-1] - kept[0])
    mixture = fit_mixture(normalise(kept), bins=512, steps=200, tolerance=1e-6)
    return scale * (mixture.mean[1] - mixture.mean[0])


def gaps_in(recent: Tensor, epoch: int) -> list[tuple[float, float]]:
    """(clock, gap) over windows of one epoch that end in ``epoch``, from the losses of it and the one before.

    ``recent`` is in the order in which the losses were seen. Where an epoch has enough samples the windows move by a
    quarter of it, because the turning point of large data lies within the first epochs. A window is a whole epoch: a
    part of one holds samples that were seen a shorter or longer time ago than others. The clock is its middle.
    """
    if epoch == 0:
        return []
    size = len(recent) // 2
    steps = 4 if size >= FINE else 1
    ends = [size + size * (k + 1) // steps for k in range(steps)]
    return [(epoch - 1 + (end - size / 2) / size, gap(recent[end - size : end])) for end in ends]


class Turn(NamedTuple):
    """What was found out about a training: when to start SELC, or that there is nothing to correct."""

    peak: float  # clock (epochs) at which the gap was largest
    start: float | None  # clock at which SELC starts; None: nothing to correct
    alpha: float
    in_dispute: float  # share of samples whose prediction differed from the given label around the peak
    reason: str


def alpha_for(time: float, epochs_left: float = math.inf) -> float:
    """The momentum that suits a training which took ``time`` epochs to its turning point.

    A given label loses half of its weight in time / 5 epochs: 0.9 at 33 epochs, the paper's own scale. If few epochs
    are left, it loses it within half of them, so that labels can still change.
    """
    by_time = max(math.exp2(-HALVINGS / max(time, 1e-9)), LEAST_ALPHA)
    by_rest = math.exp2(-2.0 / max(epochs_left, 1e-9))
    return min(by_time, by_rest)


def recognise(gaps: list[tuple[float, float]], in_dispute: list[float], epochs: int) -> Turn | None:
    """Whether the turning point has passed, from the gaps so far as (clock, gap) and the epochs done so far.

    The clock of a gap is the middle of the time in which its losses were seen. The first full pass is not among
    them: its losses are those of a network that has learnt nothing yet.
    """
    now = len(in_dispute)
    if not gaps:
        return None
    peak, largest = max(gaps, key=lambda pair: pair[1])
    fallen = gaps[-1][1] < (1 - DROP) * largest
    waited = now - peak > PATIENCE * epochs
    late = now >= LATEST * epochs
    if not (fallen or waited or late):
        return None
    dispute = in_dispute[min(math.ceil(peak), now - 1)]
    if in_dispute[-1] < NOTHING:
        return Turn(peak, None, 1.0, dispute, "nothing to correct: too few labels are in dispute")
    reason = "the losses drew together again" if fallen else "the losses stopped drawing apart"
    if not (fallen or waited):
        peak, reason = float(now), "no peak in three quarters of the epochs, so it starts where it is"
    return Turn(peak, peak, alpha_for(peak, epochs - peak), dispute, reason)
