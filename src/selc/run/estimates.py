"""What a run that found its turning point can say about the labels, without knowing the true ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from selc.core.judgement import noise_rate
from selc.core.turning import Turn
from selc.noise.base import measured
from selc.types import Outcome

MAJORITY = 0.38  # dispute among confident predictions from which on the wrong labels of a class may be its majority


def estimates(turn: Turn, outcome: Outcome, given: Tensor, num_classes: int) -> dict[str, Any]:
    """Noise rate, transition matrix and the share of corrections that are right, with how sure that is."""
    corrected = outcome.corrected_labels.cpu()
    rate, low, high = noise_rate(turn, len(given))
    found: dict[str, Any] = {
        "turning_point": turn._asdict(),
        "noise_rate": {"estimate": rate, "low": low, "high": high},
        # P(given = column | corrected = row); rows sum to one. It knows only of the noise that was corrected.
        "transition_matrix": measured(corrected, given, num_classes).matrix.tolist(),
    }
    changed = corrected != given
    if outcome.trust is not None and bool(changed.any()):
        trusted = outcome.trust[changed]
        least = max(0.0, float(trusted.mean()) - 2 * math.sqrt(0.25 / len(trusted)))
        # Trust is on the low side, so the truth is looked for between it and one.
        found["corrections_right"] = {"estimate": (least + 1) / 2, "low": least, "high": 1.0}
    return found


def warnings_of(found: dict[str, Any]) -> Sequence[str]:
    """What the user should doubt."""
    turn = Turn(**found["turning_point"])
    if "unlearnt" in found:
        return []
    doubts = []
    if turn.start is not None and turn.dispute_half > MAJORITY:
        doubts.append(
            f"{turn.dispute_half:.0%} of the labels are in dispute even where the network is sure. If most labels of a "
            "class were wrong in the same way, the network has learnt them, and nothing in the data can show it. "
            "Labels of classes that contest each other were left as they are: look at some of them."
        )
    return doubts
