"""One row per sample: how good its given label is, what the run suggests, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc.core.store import Store
from selc.core.turning import Turn

Column = Sequence[Any] | np.ndarray[Any, np.dtype[Any]]
KEEP, REVIEW, RELABEL = 0, 1, 2
ACTIONS = ("keep", "review", "relabel")
Table = Store | Tensor  # [N, C]
COLUMNS = (
    "sample_id",
    "is_label_issue",
    "label_quality",
    "given_label",
    "predicted_label",
    "suggested_label",
    "suggested_confidence",
    "action",
)


@dataclass(frozen=True)
class Findings:
    """Columns of the table, in the order of the data, [N] each; labels are numbers of classes."""

    given: Tensor
    predicted: Tensor  # by the network at the end
    suggested: Tensor  # the label that the method believes
    confidence: Tensor  # of the suggestion
    quality: Tensor  # of the given label, in [0, 1]; low is bad
    action: Tensor  # a place in ACTIONS

    @property
    def is_issue(self) -> Tensor:
        """Samples to act on whose suggestion is another label than the given one."""
        return (self.action != KEEP) & (self.suggested != self.given)

    def all_kept(self) -> Findings:
        """The same, where the network cannot judge: nothing is to be done about any label."""
        return replace(self, action=torch.full_like(self.action, KEEP))

    def columns(self, ids: Column, classes: Column) -> dict[str, Any]:
        """The table by the names that users expect; ids and labels are of the kind that they are given as."""
        names = np.asarray(classes)
        return {
            "sample_id": np.asarray(ids),
            "is_label_issue": self.is_issue.numpy(),
            "label_quality": self.quality.double().numpy().round(6),
            "given_label": names[self.given.numpy()],
            "predicted_label": names[self.predicted.numpy()],
            "suggested_label": names[self.suggested.numpy()],
            "suggested_confidence": self.confidence.double().numpy().round(6),
            "action": np.array(ACTIONS)[self.action.numpy()],
        }


def label_quality(losses: Tensor, target: Table, given: Tensor, turn: Turn | None) -> Tensor:
    """How well a given label fits, in [0, 1]: the probability that it had while the network was at its best, [N].

    That is the time from the turning point on, as long again as it took to get there and at least three epochs: before
    it (and in the first two epochs in any case) the network is unsure, later it has taken in some of the wrong labels.
    A training without a turning point is judged by all of its epochs; samples without recorded losses by their soft
    target.
    """
    if turn is not None:
        first = min(max(turn.best, 2), len(losses) - 1)
        losses = losses[first : first + max(3, turn.best)]
    seen = ~torch.isnan(losses)
    mean = torch.where(seen, losses, 0.0).sum(0) / seen.sum(0).clamp_min(1)
    by_target = _at(target, given)
    return torch.where(seen.any(0), torch.exp(-mean), by_target).clamp(0, 1)


def find(
    losses: Tensor,
    target: Table,
    probs: Table,
    given: Tensor,
    corrected: Tensor,
    turn: Turn | None = None,
    noise: tuple[float, float, float] | None = None,
    settled: Tensor | None = None,
) -> Findings:
    """What to do with each sample. ``noise`` is the share of wrong labels: estimate, low, high.

    A change that the run trusts is ``relabel`` for the samples with the worst labels of each class, as many as are
    wrong by the lower half of the estimate's interval. As many as may be wrong by its upper end are at least
    ``review``, and so is every change that was not made. Each class has its part by the share of its labels that the
    run disbelieves, so that a rare class is not judged by the frequent ones. Without an estimate of the noise every
    change is for ``review``, as nothing says how many are right. What a person has ``settled`` [N], by a verdict on the
    label or by dropping the sample, is kept.
    """
    confidence, suggested = _top(target)
    quality = label_quality(losses, target, given, turn)
    disputed = suggested != given
    share = float(disputed.double().mean())
    estimate, low, high = noise or (0.0, 0.0, share)
    C = target.columns if isinstance(target, Store) else target.shape[1]
    sizes = torch.bincount(given, minlength=C).double()
    disputes = torch.bincount(given[disputed], minlength=C).double()
    by_class = disputes / sizes.clamp_min(1) / max(share, 1e-12) if share > 0 else torch.ones(C, dtype=torch.float64)
    place = _place_in_class(quality, given)  # 0: the worst label of its class, 1: the best
    sure = (by_class * (low + estimate) / 2)[given]
    doubtful = (by_class * max(high, estimate)).clamp(max=1.0)[given]
    relabel = (corrected != given) & (place < sure)
    review = (place < doubtful) | disputed | (corrected != given)
    action = torch.where(relabel, RELABEL, torch.where(review, REVIEW, KEEP))
    if settled is not None:
        action, quality = action.masked_fill(settled, KEEP), quality.masked_fill(settled, 1.0)
    return Findings(given, _top(probs)[1], suggested, confidence, quality, action)


def _top(table: Table) -> tuple[Tensor, Tensor]:
    """The largest entry of every row and its column, [N] each; the table itself may be larger than the memory."""
    values, columns = table.top() if isinstance(table, Store) else table.max(dim=1)
    return values.cpu(), columns.cpu()


def _at(table: Table, column: Tensor) -> Tensor:
    if isinstance(table, Store):
        return table.at(column.to(table.device)).cpu()
    return table.gather(1, column[:, None]).flatten()


def _place_in_class(quality: Tensor, given: Tensor) -> Tensor:
    """The rank of each sample among those with its label, as a share."""
    order = quality.argsort(stable=True)
    by_class = order[given[order].argsort(stable=True)]
    sizes = torch.bincount(given)
    label = given[by_class]
    rank = torch.arange(len(given)) - (sizes.cumsum(0) - sizes)[label]
    place = torch.empty(len(given), dtype=torch.float64)
    place[by_class] = (rank.double() + 0.5) / sizes[label]
    return place
