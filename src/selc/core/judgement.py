"""What a network at its turning point can say about the given labels: how many are wrong, and which to change."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from selc.core.turning import SURE, Turn
from selc.core.window import ENOUGH

WORTH = 1 / 3  # least trust at which a label is changed; trust is on the low side, see `trust`
CONTEST = 0.35  # share, relative to the predicted class, from which on another given class contests it


def noise_rate(turn: Turn, samples: int) -> tuple[float, float, float]:
    """An estimate of the share of wrong labels, with an interval.

    At the turning point a confident network disputes wrong labels, an unsure one also those of hard samples. So the
    truth lies between the dispute among the most confident fifth (which misses noise that falls on hard samples) and
    that among all (which counts what is merely hard), each widened by two standard errors. The estimate is halfway
    between the more confident half and all. The less the surest are contradicted, the more of the dispute elsewhere is
    hardness, and the nearer the estimate is to that of the half; it is that where there was nothing to correct.
    """

    def error(share: float, count: float) -> float:
        return 2 * math.sqrt(max(share * (1 - share), 1 / count) / count)

    low = 0.0 if turn.dispute_fifth < SURE else turn.dispute_fifth - error(turn.dispute_fifth, 0.2 * samples)
    high = turn.dispute + error(turn.dispute, samples)
    beyond = 0.0 if turn.start is None else min(1.0, turn.dispute_fifth / SURE) / 2
    rate = turn.dispute_half + beyond * (turn.dispute - turn.dispute_half)
    return rate, max(low, 0.0), min(high, 1.0)


def trust(agrees: Tensor, confidences: Tensor) -> Tensor:
    """For each sample the share of right ones among changes of labels like its own, [N].

    Wrong labels that have nothing to do with the sample fall on confident predictions as on others. So where samples
    of some confidence are disputed twice as often as the most confident fifth, about half of that dispute is the
    network's own doing. Samples are compared in ten groups by confidence; more confident ones are trusted no less.
    It is on the low side, because what is memorised first is what the network is most confident of.
    """
    N = len(agrees)
    order = confidences.argsort(descending=True, stable=True)
    disputed = (~agrees)[order].double()
    floor = float(disputed[: max(1, N // 5)].mean())
    if floor < SURE:
        return torch.zeros(N, dtype=torch.float64)
    groups = torch.tensor([float(part.mean()) for part in disputed.chunk(10)], dtype=torch.float64)
    share = (floor / groups.cummax(0).values.clamp_min(1e-12)).clamp(max=1.0)
    sizes = torch.tensor([len(part) for part in disputed.chunk(10)])
    return torch.empty(N, dtype=torch.float64).scatter_(0, order, share.repeat_interleave(sizes))


def contested(predictions: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """Classes of which the data cannot say which labels are the true ones, [C] booleans.

    Of two labels that share the samples of a pattern, the true one is taken to be the more frequent. Where the other is
    more than a third as frequent, that becomes a guess, unless it is less than half as frequent beyond chance: noise
    that moves 40 % of a class to another and noise that moves 60 % of it look the same. Both classes of such a pair are
    contested; a handful of samples says nothing of the class that they were given.
    """
    pairs = predictions.long() * num_classes + given.long()
    counts = torch.bincount(pairs, minlength=num_classes**2).view(num_classes, num_classes)
    own = counts.diagonal()[:, None]
    at_most = counts + 2 * (counts + counts**2 / own.clamp_min(1)).sqrt()  # two standard errors of the ratio
    rivals = ((counts > CONTEST * own) & (at_most > own / 2)).fill_diagonal_(False)
    return rivals.any(dim=1) | (rivals & (counts >= ENOUGH)).any(dim=0)


def unknown(predictions: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """Classes whose labels the network predicts no more often than by chance, [C] booleans.

    It has not learnt them, because they are rare or because next to all of their labels are wrong: it cannot judge.
    """
    agreed = torch.bincount(given[predictions == given].long(), minlength=num_classes)
    return agreed * num_classes <= torch.bincount(given.long(), minlength=num_classes)
