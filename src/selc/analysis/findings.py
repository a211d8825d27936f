"""One row per sample: how good its given label is, what the run suggests, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

Column = Sequence[Any] | np.ndarray[Any, np.dtype[Any]]
KEEP, REVIEW, RELABEL = 0, 1, 2
ACTIONS = ("keep", "review", "relabel")
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
