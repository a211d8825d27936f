"""Why a finished run left every label as it was, and what its changes are worth."""

from __future__ import annotations

from typing import Any

from selc.analysis import Why
from selc.analysis.words import WHY


def why_unchanged(summary: dict[str, Any]) -> str:
    """Why no label was replaced, as the end of a sentence; "" if some were."""
    why = summary["why_unchanged"]
    return "" if why is None else WHY[Why(why)]


def which_changes(summary: dict[str, Any], changed: int) -> str:
    """What to make of ``changed`` labels that nothing judges, in a sentence; "" if there are none.

    A run that judged by held-out samples has in corrected_labels.csv what it would relabel, and nothing else.
    """
    if summary["decision"] is not None or summary["actions"]["relabel"] or not changed:
        return ""
    return (
        f"the method has no estimate of how many of its {changed:,} changes are right, so none is to be taken over "
        "unseen; look at them with selc review, or train with --method selc and no start of your own."
    )
