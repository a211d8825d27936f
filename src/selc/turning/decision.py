"""From evidence to a decision: when SELC starts, and how sure it is that wrong labels were learnt by heart.

The rule in two sentences. SELC starts at the earliest look at which held-out rows were predicted as well as ever,
within one standard error and within a point, and no class beyond chance worse. Whether accuracy fell after its best is
measured on rows other than those that the best was found on, so that the choice of a maximum is no evidence by itself.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from selc.losses.cross_entropy import usual_alpha
from selc.turning.evidence import TOGETHER, Evidence

AS_GOOD = 1  # standard errors: a look that is no farther below the best is as good (Breiman's rule of one error)
AT_MOST = 0.01  # share of labels: and no farther than a point, where few rows make for large errors
CHANCE = 0.05  # share: what is claimed of one training in twenty where it is not so
SHOWS = 0.05  # share of labels: a fall of five points is what a run should be able to see
BEYOND = NormalDist().inv_cdf(1 - CHANCE)  # standard errors: what is farther from nothing is claimed
HALVINGS = 2  # a given label must be able to lose three quarters of its weight in the epochs that are left


class Reason(StrEnum):
    """Why it was decided so."""

    FALL = "fall"  # accuracy on held-out rows fell: wrong labels were learnt by heart
    NO_FALL = "no fall"  # none was seen that is larger than chance
    NOT_LEARNT = "not learnt"  # held-out labels are predicted no better than by chance
    TOO_FEW = "too few"  # there are too few rows to hold any out


@dataclass(frozen=True)
class Decision:
    """What follows from the evidence. Looks count from 0; ``start`` and ``best`` are in epochs."""

    start: float | None  # epochs of cross entropy before SELC; None: SELC is not used
    best: float  # epochs after which held-out rows were predicted best
    reason: Reason
    accuracy: float  # share of the held-out labels that was predicted then
    fall: float  # by how much less were predicted at the end
    fall_error: float  # its standard error
    visible: float  # the smallest fall that would have been claimed
    first: int  # look of the start
    last: int  # the last look that is as good as the best
    alpha: float  # momentum of SELC's targets

    @property
    def can_see(self) -> bool:
        """Whether a fall of five points would have been noticed."""
        return self.visible <= SHOWS

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reason": str(self.reason)}

    @classmethod
    def too_few(cls) -> Decision:
        """Where nothing can be held out, nothing is decided."""
        return cls(None, 0.0, Reason.TOO_FEW, 0.0, 0.0, 0.0, 1.0, 0, 0, 0.0)

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Decision:
        return cls(**{**saved, "reason": Reason(saved["reason"])})


def decide(evidence: Evidence, epochs: float, earliest: float = 0.0) -> Decision:
    """When to start SELC in a training of so many epochs, where it cannot be before ``earliest``."""
    best = int(evidence.curve.argmax())
    good = [look for look in range(evidence.looks) if as_good(evidence, look, best)]
    first = next(look for look in good if look == best or fair_to_classes(evidence, look, best))
    while evidence.clock(first) < earliest:
        first += 1
    fall, error = fallen(evidence)
    visible = min(BEYOND * error, 1.0)
    learnt = better_than_chance(evidence.around(best), evidence.labels)
    reason = Reason.NOT_LEARNT if not learnt else Reason.FALL if fall > visible else Reason.NO_FALL
    return Decision(
        start=evidence.clock(first) if learnt else None,
        best=evidence.clock(best),
        reason=reason,
        accuracy=float(evidence.curve[best]),
        fall=fall,
        fall_error=error,
        visible=visible,
        first=first,
        last=max(*good, first),
        alpha=alpha_for(evidence.clock(first), epochs - evidence.clock(first)),
    )


def alpha_for(start: float, left: float) -> float:
    """The momentum that suits a start, or less where so few epochs are left that no label could change with it."""
    return min(usual_alpha(start), math.exp2(-HALVINGS / left)) if left > 0 else 0.0


def as_good(evidence: Evidence, look: int, best: int) -> bool:
    """Whether a look is within one standard error of the best, and within a point."""
    behind, error = evidence.behind(look, best)
    return behind <= min(AS_GOOD * error, AT_MOST)


def fair_to_classes(evidence: Evidence, look: int, best: int) -> bool:
    """Whether no class is predicted worse than at the best look, beyond what chance does to one class of so many."""
    classes = evidence.labels.unique()
    bound = NormalDist().inv_cdf(1 - CHANCE / len(classes))
    lost = (evidence.behind(look, best, evidence.labels == k) for k in classes)
    return all(behind <= bound * error for behind, error in lost)


def fallen(evidence: Evidence) -> tuple[float, float]:
    """The fall from the best look to the last one, and its standard error.

    The best look is found on one half of the rows and the fall is measured on the other, and the other way round.
    """
    half = torch.arange(len(evidence.labels)) % 2 == 0  # rows are in no order that means anything
    parts = [_fall_on(evidence, chosen_on=half, rows=~half), _fall_on(evidence, chosen_on=~half, rows=half)]
    return sum(fall for fall, _ in parts) / 2, math.sqrt(sum(error**2 for _, error in parts)) / 2


def _fall_on(evidence: Evidence, chosen_on: Tensor, rows: Tensor) -> tuple[float, float]:
    best, last = int(evidence.hits[:, chosen_on].double().mean(dim=1).argmax()), evidence.looks - 1
    # A look is no farther from itself than it is; what could have been seen is told by another one.
    error = evidence.behind(last, best if best < last else last // 2, rows)[1]
    return evidence.behind(last, best, rows)[0], error


def worse(evidence: Evidence, later: Tensor) -> bool:
    """Whether the last looks of another training, predictions [L, M], name fewer labels than the best look did, beyond
    chance."""
    best = int(evidence.curve.argmax())
    hits = (later[-TOGETHER:] == evidence.labels).double().mean(dim=0)
    apart = evidence.hits[best].double() - hits
    error = math.sqrt(float(apart.var(correction=1)) / len(apart) + 2 * evidence.scatter**2)
    return float(apart.mean()) > BEYOND * error


def better_than_chance(predictions: Tensor, labels: Tensor) -> bool:
    """Whether predictions [L, M], averaged over looks, name the labels more often than they would if the labels were
    dealt to the rows anew."""
    seen, count = predictions.long(), len(labels)
    size = int(max(seen.max(), labels.max())) + 1
    given = torch.bincount(labels, minlength=size).double() / count
    named = torch.bincount(seen.flatten(), minlength=size).double() / seen.numel()
    by_chance = given * named
    # Of each row: the mean and the mean square, over labels, of how much more often it names one than rows do.
    same = seen[:, None] == seen  # [L, L, M]
    mean = given[seen].mean(dim=0) - by_chance.sum()
    square = (given[seen] * same).mean(dim=(0, 1)) - 2 * by_chance[seen].mean(dim=0) + (by_chance * named).sum()
    error = math.sqrt(max(float((square - mean.square()).sum()), 0.0)) / count
    more = float((seen == labels).double().mean() - by_chance.sum())
    return more > BEYOND * error
