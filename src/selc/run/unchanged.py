"""Why a finished run left every label as it was, and what its numbers of changes are the numbers of."""

from __future__ import annotations

from typing import Any


def why_unchanged(summary: dict[str, Any]) -> str:
    """Why no label was replaced, as the end of a sentence; "" if some were."""
    if summary["changed"]:
        return ""
    if "unlearnt" in summary:
        return "the network has not learnt enough to judge labels"
    turn = summary.get("turning_point")
    if turn is None:
        return "the method ended up with the given ones"
    if turn["start"] is None:
        return "there is no sign of wrong labels beyond what hard samples explain"
    return "the run was not sure enough of any change"


def which_changes(summary: dict[str, Any], changed: int, relabel: int) -> str:
    """How the ``changed`` labels and the zone `relabel` differ, in a sentence; "" if they do not."""
    if changed == relabel:
        return ""
    file = "the file corrected_labels.csv, which --labels RUN trains on,"
    if not relabel and "turning_point" not in summary:
        return (
            f"the method has no estimate of how many of its {changed:,} changes are right, so none is relabelled "
            f"unseen; {file} holds what it believes. Look at them with selc review, or train with --method selc."
        )
    surest = f"only the {relabel:,} to relabel" if relabel else "none of them"
    return f"{file} has all {changed:,} changes; selc apply takes over {surest}, and leaves the others for review."
