"""What a training in memory says about the labels, by the names that users of scikit-learn expect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from selc.core.turning import Turn, noise_rate
from selc.methods.watch import found
from selc.noise.base import measured
from selc.run.findings import ACTIONS, Findings, find
from selc.types import Outcome

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Issues:
    """The findings of a training, and the estimates behind them."""

    findings: Findings
    corrected: Tensor  # [N]
    turning_point: Turn | None  # None: the method did not look for one
    noise_rate: float  # share of wrong labels: by the turning point, else the share of corrected labels
    transition_matrix: Tensor  # [C, C] P(given = column | corrected = row); rows sum to one

    def table(self, classes: Array, ids: Array) -> dict[str, Array]:
        """One row per sample, as columns; labels are of the kind that ``classes`` [C] are."""
        found = self.findings
        return {
            "sample_id": ids,
            "is_label_issue": found.is_issue.numpy(),
            "label_quality": found.quality.double().numpy(),
            "given_label": classes[found.given.numpy()],
            "predicted_label": classes[found.predicted.numpy()],
            "suggested_label": classes[found.suggested.numpy()],
            "suggested_confidence": found.confidence.double().numpy(),
            "action": np.array(ACTIONS)[found.action.numpy()],
        }


def issues_of(outcome: Outcome, given: Tensor, num_classes: int) -> Issues:
    """What to do with each sample, by what the training knows at its end; ``given`` are its labels [N]."""
    given = given.cpu()
    turn = found(outcome.history)
    rate = None if turn is None else noise_rate(turn, len(given))
    corrected = outcome.corrected_labels.cpu()
    findings = find(outcome.losses.cpu(), outcome.target, outcome.probs, given, corrected, turn, rate)
    share = float((corrected != given).double().mean())
    matrix = measured(corrected, given, num_classes).matrix
    return Issues(findings, corrected, turn, share if rate is None else rate[0], matrix)
