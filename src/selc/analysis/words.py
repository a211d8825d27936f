"""What an analysis says, in sentences: the same on the screen, in the report and in Python."""

from __future__ import annotations

from typing import Any

from selc.analysis.labels import Why
from selc.turning.decision import Reason

WHY = {
    Why.NOT_LEARNT: "the network has not learnt enough to judge labels: it predicts them no better than by chance",
    Why.CLEAN: "there is no sign of wrong labels beside rows that are merely hard",
    Why.CANNOT_TELL: "wrong labels cannot be told from rows that are merely hard",
    Why.NOT_SURE: "no single change is likelier right than wrong",
    Why.TOO_FEW: "there are too few rows to hold any out, and without that nothing can be told",
    Why.METHOD: "the method ended up with the given ones",
}


def percent(share: float) -> str:
    """A share for a sentence: one digit more where it is near 0 or 1."""
    near = 0 < share < 0.1 or 0.9 < share < 1
    return f"{100 * share:.1f} %" if near else f"{100 * share:.0f} %"


def noise_sentence(noise: dict[str, Any] | None) -> str:
    """How many labels are wrong."""
    if noise is None:
        return "How many labels are wrong cannot be told."
    low, high = percent(noise["low"]), percent(noise["high"])
    if noise["estimate"] is None:
        return (
            f"Between {low} and {high} of the labels are wrong: in these data wrong labels cannot be told from rows "
            "that are merely hard."
        )
    return f"About {percent(noise['estimate'])} of the labels are wrong (between {low} and {high})."


def decision_sentence(decision: dict[str, Any]) -> str:
    """When correction starts, and why."""
    reason = Reason(decision["reason"])
    if reason is Reason.TOO_FEW:
        return "There are too few rows to hold any out: cross entropy to the end, and no label is changed."
    if reason is Reason.NOT_LEARNT:
        return (
            "Rows that were held out are predicted no better than by chance: cross entropy to the end, and no label is "
            "changed."
        )
    start = whole(decision["start"])
    correct = f"Labels are corrected from epoch {start + 1} on."
    best = f"Held-out labels are predicted best after epoch {whole(decision['best'])} ({percent(decision['accuracy'])})"
    if reason is Reason.FALL:
        return f"{best} and then {points(decision['fall'])} less: wrong labels are learnt by heart. {correct}"
    return (
        f"{best}; no later fall is seen (one of {points(decision['visible'])} would have been). By epoch {start} they "
        f"are predicted as well. {correct}"
    )


def whole(clock: float) -> int:
    """Epochs as a person counts them."""
    return max(round(clock), 1)


def points(share: float) -> str:
    return f"{100 * share:.1f} points"
