"""What networks predicted of rows that they were not trained on: the evidence of every decision.

A wrong label cannot be predicted, but it can be learnt by heart. On rows that were trained on the two look alike; on
rows that were held out only the pattern helps, whatever their labels are. So the share of *given* labels that is
predicted there rises while the pattern is learnt and falls when wrong labels are learnt by heart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

TOGETHER = 3  # looks that are averaged: one network wavers from look to look


@dataclass(frozen=True)
class Evidence:
    """What was predicted at each of L looks, of M rows that the network of that look was not trained on.

    Rows of several splits stand side by side: each was judged by the network of the split that held it out.
    """

    labels: Tensor  # [M] given labels
    predictions: Tensor  # [L, M] predicted class
    confidences: Tensor  # [L, M] its probability
    given: Tensor  # [L, M] probability of the given label
    num_classes: int
    splits: int  # networks that the rows are spread over
    rows: Tensor | None = None  # [M] which rows of the training set they are; None: a set of its own
    looks_per_epoch: int = 1
    learnt: Tensor | None = None  # [E, M] probability of the given label in the networks that were trained on the row

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        found = {name: getattr(self, name).contiguous() for name in ("labels", "predictions", "confidences", "given")}
        found["about"] = torch.tensor([self.splits, self.looks_per_epoch])
        more = {"rows": self.rows, "learnt": self.learnt}
        return found | {name: tensor for name, tensor in more.items() if tensor is not None}

    @classmethod
    def from_tensors(cls, saved: dict[str, Tensor], num_classes: int) -> Evidence:
        splits, looks_per_epoch = saved["about"].tolist()
        return cls(
            *(saved["labels"], saved["predictions"], saved["confidences"], saved["given"]),
            num_classes=num_classes,
            splits=splits,
            rows=saved.get("rows"),
            looks_per_epoch=looks_per_epoch,
            learnt=saved.get("learnt"),
        )

    @property
    def looks(self) -> int:
        return len(self.predictions)

    def clock(self, look: int) -> float:
        """Epochs that were trained before a look, which is counted from 0."""
        return (look + 1) / self.looks_per_epoch

    def look_at(self, clock: float) -> int:
        """The look that was taken after so many epochs."""
        return min(round(clock * self.looks_per_epoch), self.looks) - 1

    @property
    def classes(self) -> Tensor:
        """Whether any row of a class was held out, so that its labels can be judged, [C]."""
        return torch.bincount(self.labels, minlength=self.num_classes) > 0

    def around(self, look: int) -> Tensor:
        """What was predicted at a look and its neighbours, which are averaged, [L', M]."""
        return self.predictions[max(look - TOGETHER // 2, 0) : look + TOGETHER // 2 + 1]

    @cached_property
    def hits(self) -> Tensor:
        """Whether the given label was predicted, averaged over neighbouring looks, [L, M]."""
        hits = (self.predictions == self.labels).float()
        sums = torch.cat([torch.zeros_like(hits[:1]), hits.cumsum(0)])
        look = torch.arange(self.looks)
        first, end = (look - TOGETHER // 2).clamp_min(0), (look + TOGETHER // 2 + 1).clamp_max(self.looks)
        return (sums[end] - sums[first]) / (end - first)[:, None]

    @cached_property
    def curve(self) -> Tensor:
        """The share of given labels that was predicted, averaged over neighbouring looks, [L]."""
        return self.hits.double().mean(dim=1)

    @cached_property
    def scatter(self) -> float:
        """How much one point of the curve wavers because the network does, as a standard deviation.

        It is what is left of the single looks when the curve is taken off, over the looks that are averaged; rows that
        are drawn by chance waver otherwise, and `behind` counts them apart.
        """
        single = (self.predictions == self.labels).double().mean(dim=1)
        left = single - self.curve
        used = min(TOGETHER, self.looks)
        # Of a mean over n looks, the look itself is a part: the residual has (n - 1) / n of the variance.
        spread = float(left.square().mean()) * used / max(used - 1, 1)
        return math.sqrt(spread / used)

    def behind(self, look: int, other: int, rows: Tensor | None = None) -> tuple[float, float]:
        """By how much a look predicts fewer labels than another does, and the standard error of that.

        Rows are compared with themselves, so that hard rows, which are missed by both, add no error. ``rows`` are
        some of the M, as booleans.
        """
        apart = (self.hits[other] - self.hits[look]).double()
        apart = apart if rows is None else apart[rows]
        if len(apart) < 2:  # of one row nothing is known: it may be off by all there is
            return float(apart.sum()), 1.0
        by_rows = float(apart.var(correction=1)) / len(apart)
        return float(apart.mean()), math.sqrt(by_rows + 2 * self.scatter**2 * (look != other))
