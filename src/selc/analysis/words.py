"""What an analysis says, in sentences: the same on the screen, in the report and in Python."""

from __future__ import annotations

from typing import Any

from selc.analysis.label_analysis import Why
from selc.turning.decision import Reason

WHY = {
    Why.NOT_LEARNT: "the network has not learnt enough to judge labels: it predicts them no better than by chance",
    Why.CLEAN: "there is no sign of wrong labels beside samples that are merely hard",
    Why.CANNOT_TELL: "wrong labels cannot be told from samples that are merely hard",
    Why.NOT_SURE: "no single change is likely enough to be right",
    Why.TOO_FEW: "there are too few samples to hold any out and judge by them",
    Why.METHOD: "the method ended up with the given ones",
    Why.NOT_HELD_OUT: "all samples were trained on, and there were none to judge by",
}
ASSUMPTION = (
    "Judging by held-out labels that may themselves be wrong assumes that in each class the right label is the most "
    "frequent one, and that labels are wrong by the class and not by the look of the sample."
)
LEAST_SHOWN = 0.0005  # share: what is rounded to less would read as none


def percent(share: float) -> str:
    """A share for a sentence: a digit more where it is near 0 or 1, and neither none nor all where that is wrong."""
    if 0 < share < LEAST_SHOWN:
        return "<0.1%"
    if 1 - LEAST_SHOWN < share < 1:
        return ">99.9%"
    near = 0 < share < 0.1 or 0.9 < share < 1
    return f"{share:.1%}" if near else f"{share:.0%}"


def points(share: float) -> str:
    """A difference of two shares."""
    return f"{100 * share:.1f} points"


def whole(clock: float) -> int:
    """Epochs as a person counts them."""
    return max(round(clock), 1)


def no_sign(noise: dict[str, Any] | None, rows: int) -> bool:
    """Whether the estimate says that not even one of the labels is wrong."""
    return noise is not None and noise["estimate"] is not None and round(noise["estimate"] * rows) == 0


def noise_sentence(noise: dict[str, Any] | None, rows: int) -> str:
    """How many of the labels of ``rows`` samples are wrong."""
    if noise is None:
        return "How many labels are wrong cannot be told."
    low, high = percent(noise["low"]), percent(noise["high"])
    if no_sign(noise, rows):
        return f"There is no sign of wrong labels beside samples that are merely hard; at most {high} are wrong."
    if noise["estimate"] is None:
        return (
            f"Between {low} and {high} of the labels are wrong: in these data wrong labels cannot be told from samples "
            "that are merely hard."
        )
    return f"About {percent(noise['estimate'])} of the labels are wrong (between {low} and {high})."


def noise_words(noise: dict[str, Any]) -> str:
    """The same in a few words, for a table."""
    between = f"between {percent(noise['low'])} and {percent(noise['high'])}"
    if noise["estimate"] is None:
        return f"{between}; wrong labels and hard samples cannot be told apart"
    return f"about {percent(noise['estimate'])}, {between}"


def decision_in_short(decision: dict[str, Any]) -> str:
    """When correction starts, for whoever watches a training; the numbers are in `decision_sentence`."""
    reason = Reason(decision["reason"])
    if reason is Reason.TOO_FEW:
        return "Too few samples to hold any out and judge by them: no label will be changed."
    if reason is Reason.NOT_LEARNT:
        return "The model predicts held-out labels no better than by chance: no label will be changed."
    if decision["alpha"] == 0:
        return "The model was still learning at the end: no epoch is left to correct labels in."
    start, best = whole(decision["start"]), whole(decision["best"])
    if reason is Reason.FALL:
        return (
            f"From epoch {best + 1} on the model starts to memorise wrong labels. From epoch {start + 1} on it also "
            "learns from its own predictions."
        )
    return (
        f"No sign that the model memorises wrong labels. From epoch {start + 1} on the model also learns from its own "
        "predictions."
    )


def decision_sentence(decision: dict[str, Any]) -> str:
    """When correction starts, and why."""
    reason = Reason(decision["reason"])
    if reason is Reason.TOO_FEW:
        return "There are too few samples to hold any out: cross entropy to the end, and no label is changed."
    if reason is Reason.NOT_LEARNT:
        return (
            "Samples that were held out are predicted no better than by chance: cross entropy to the end, and no label "
            "is changed."
        )
    start, best = whole(decision["start"]), whole(decision["best"])
    said = f"Held-out labels are predicted best after epoch {best} ({percent(decision['accuracy'])})"
    if reason is Reason.FALL:
        said += f", and at the end {points(decision['fall'])} less: wrong labels are learnt by heart."
    elif decision["visible"] < 1:
        said += f"; no fall is seen (one of {points(decision['visible'])} would have been)."
    else:
        said += "; there are too few of them to see a fall."
    if decision["alpha"] == 0:  # no epoch is left
        return f"{said} The network was learning to the end, and no epoch is left to learn from corrected labels."
    before = f"By epoch {start} they are predicted as well. " if start < best else ""
    return f"{said} {before}Correction starts in epoch {start + 1}."
