"""The commands that come next, to be pasted: the end of a training says them, and the report repeats them."""

from __future__ import annotations

from shlex import quote

from selc.analysis import Why
from selc.runs import RunFolder
from selc.runs.config import ARRAYS

LOOK = 100  # labels that a person looks at in half an hour


def next_commands(run: RunFolder) -> list[tuple[str, str]]:
    """What one would do next with a finished run, and what for."""
    place, actions = quote(str(run.path)), run.summary["actions"]
    look = actions["relabel"] + to_look_at(run)
    labels = "1 label" if look == 1 else f"{min(look, 500):,} labels" if look else "labels"
    what = f"look at {labels} in the browser"
    commands = [(f"selc report {place}", "one page: what is most likely wrong"), (f"selc review {place}", what)]
    if actions["relabel"] and run.config.data.name != ARRAYS:
        commands.append((f"selc apply {place}", f"take over the {actions['relabel']:,} surest changes"))
    return commands


def to_look_at(run: RunFolder) -> int:
    """How many labels are for a person to look at; where nothing can tell, as many as may be wrong, as the report."""
    actions, rate = run.summary["actions"], run.summary["noise_rate"]
    review: int = actions["review"]
    if run.summary["why_unchanged"] == Why.CANNOT_TELL and rate is not None and rate["estimate"] is None:
        may_be_wrong: int = round(rate["high"] * sum(actions.values()))
        return max(review, min(may_be_wrong, LOOK))
    return review
