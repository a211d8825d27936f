"""The turning point: the epoch after which a network no longer learns the pattern but the wrong labels.

Clean samples are learnt first, so the training losses part into two groups and later merge again as the wrong labels
are memorised. The time at which the groups lie farthest apart is the turning point. The paper looks for it in a
finished training (`selc.core.separation`); here it is recognised as it passes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from selc.core.window import Window

# Each constant is a share or a number of updates, so that it scales with the run.
DROP = 0.1  # fall of the gap below its maximum that confirms the peak
PLATEAU = 0.05  # below its maximum the gap is as good as at it: the first epoch so near counts as the peak
PATIENCE = 0.15  # of all epochs: so long without a higher gap, and purity alone confirms it; it steps back no farther
LATEST = 0.75  # of all epochs: by then SELC starts, peak or no peak
LEAST_ALPHA = 0.7  # below, a network that is not mature is frozen
HALVINGS = 5  # the weight of a given label halves so often within the time that it took to reach the peak
SURE = 0.02  # dispute among the most confident fifth that cannot be told from none
FEW = 0.15  # dispute among all that a good network has with hard samples alone
YOUTH = 2.0  # epochs before it knows its mind from which on a network may start: a change shows an epoch later


class Turn(NamedTuple):
    """What was found out about a training: when to start SELC, or that there is nothing to correct."""

    peak: float  # clock (epochs) at which the gap was largest
    start: float | None  # clock at which SELC starts; None: nothing to correct
    alpha: float
    dispute: float  # as in the epoch after the best one
    dispute_half: float
    dispute_fifth: float
    reason: str

    @property
    def best(self) -> int:
        """The epoch in which the network knew most and had memorised least: that of the start, else of the peak."""
        return int(self.peak if self.start is None else self.start)

    def judged(self, epochs: int) -> int:
        """Which of the first ``epochs`` epochs labels are judged by: the one after the best."""
        return min(self.best + 1, epochs - 1)


def alpha_for(time: float, dispute: float = 0.5, halving: float = math.inf, epochs_left: float = math.inf) -> float:
    """The momentum that suits a training which took ``time`` epochs to its turning point.

    A given label loses half of its weight in time / 5 epochs: 0.9 at 33 epochs, the paper's own scale. A fast training
    would freeze so (the gradient is alpha (p - t), and the network is young): there alpha is one less half of the share
    in ``dispute``, as labels that are seldom contradicted weigh more, but such that a label's weight halves twice in
    the time ``halving`` in which memorisation halves the dispute. With few epochs left it halves thrice in those.
    """
    in_time = min(1 - dispute / 2, math.exp2(-2 / max(halving, 1e-9)))
    at_leisure = max(math.exp2(-HALVINGS / max(time, 1e-9)), in_time, LEAST_ALPHA)
    return min(at_leisure, flips_within(epochs_left))


def flips_within(epochs: float) -> float:
    """The largest alpha with which a label loses seven eighths of its weight in so many epochs.

    With the eighth that is left it changes where another class has on average a seventh more probability than its own.
    """
    return math.exp2(-3 / max(epochs, 1e-9))


def halving_time(first: Window, last: Window) -> float:
    """Epochs in which the dispute halves, at the pace between two windows; infinite if it does not fall."""
    if not 0 < last.dispute < first.dispute:
        return math.inf
    return (last.clock - first.clock) * math.log(2) / math.log(first.dispute / last.dispute)


def purity_lost(since: list[Window]) -> tuple[float, float]:
    """By what share purity lies below its best, and what share chance would explain.

    Up to three epochs are taken together, as many as leave others to compare with, because one of few samples says
    little. Chance is 2.5 standard errors of the difference: more than two, as it is asked after every epoch.
    """
    together = max(1, min(3, len(since) // 2))
    purities = torch.tensor([window.purity for window in since], dtype=torch.float64)
    means = purities.unfold(0, together, 1).mean(dim=1)
    best = int(means.argmax())
    error = max(window.error for window in (*since[best : best + together], *since[-together:]))
    scale = max(float(means[best]), 1e-9)
    return 1 - float(means[-1]) / scale, 2.5 * error * math.sqrt(2 / together) / scale


def knows_its_mind(seen: list[Window], patience: float) -> Window | None:
    """The window by which the network had learnt most of what it will; None while it still learns.

    It is the first steady one. A network that never is changes its mind ever less while it learns: it is waited for as
    long as it comes within a standard error of its fewest changes in ``patience`` epochs, and until half of what it
    contradicted at first no longer is, be it learnt or memorised.
    """
    fewest, near = 1.0, 0
    for place, window in enumerate(seen):
        fewest = min(fewest, window.fickle)
        if window.fickle <= fewest + math.sqrt(fewest * (1 - fewest) / max(window.lasting, 1)):
            near = place
        if window.steady or window.lasting < seen[0].lasting / 2 or place - near > patience:
            return window
    return None


def recognise(seen: list[Window], now: int, epochs: float) -> Turn | None:
    """Whether the turning point has passed after ``now`` of ``epochs`` epochs; it looks at the training pass alone.

    The first epoch does not count: its losses are those of a network that knew nothing. The clock of an epoch is its
    middle, so the start has a fraction.

    The gap falls when wrong labels are memorised, but also when hard samples are learnt. What tells these apart is how
    pure the dispute is, see `Window.purity`; so the peak is confirmed where both fall, purity by more than chance would
    have it. Purity alone, if it falls twice as far, confirms a gap that has long stopped growing. Both fall too while a
    young network finds out where it can be sure of itself, so nothing is confirmed before it `knows_its_mind`. What is
    in dispute is read off the epoch after the start.

    There is nothing to correct if the network, where it is sure of itself, does not contradict the labels, and
    elsewhere contradicts few, or so many more that it must be the samples which are hard: wrong labels would be found
    among easy samples too.
    """
    late = now >= LATEST * epochs
    counted = seen[1:] or (seen if late else [])
    if not counted:
        return None
    last, back = seen[-1], PATIENCE * epochs
    largest = max(window.gap for window in counted)
    top = next(window for window in counted if window.gap >= (1 - PLATEAU) * largest)
    lost, chance = purity_lost(seen[seen.index(top) :])
    together = last.gap < (1 - DROP) * largest
    learnt = knows_its_mind(seen[1:], back)
    fallen = learnt is not None and together and lost > max(PLATEAU, chance)
    memorised = learnt is not None and now - top.clock > back and lost > max(DROP, chance)
    # Stepping back farther than that would cost too much; and a network that learnt so long is not sent to its youth.
    start = top.clock if now - top.clock <= back + 1 else max(top.clock, min(now - back, epochs - 1))
    if learnt is not None:
        start = max(start, learnt.clock - YOUTH)
    if not (fallen or memorised) and late and now < epochs:  # in three epochs or fewer none is left
        start = float(now)
    best, after = (seen[min(epoch, len(seen) - 1)] for epoch in (int(start), int(start) + 1))
    shares = after.dispute, after.dispute_half, after.dispute_fifth
    clean = after.dispute_fifth < SURE and (last.dispute < FEW or after.hard())
    if clean and (together or memorised or late):
        return Turn(top.clock, None, 1.0, *shares, "there is nothing to correct")
    if not (fallen or memorised or late):
        return None
    reason = "nothing was memorised in three quarters of the epochs, so SELC starts where it is"
    if fallen or memorised:
        reason = "the losses drew together again" if fallen else "labels that were surely wrong are memorised"
    # The pace of memorisation; as far as the surest are not contradicted, the dispute falls because samples are learnt.
    halving = halving_time(best, last) / max(min(1.0, last.dispute_fifth / SURE), 1e-9)
    if after.dispute_fifth < SURE and now < epochs:
        start = float(now)  # no need to step back: nothing that is surely wrong is memorised
    return Turn(top.clock, start, alpha_for(start, after.dispute, halving, epochs - start), *shares, reason)
