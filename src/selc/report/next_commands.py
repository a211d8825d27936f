"""The commands that come next, to be pasted: the end of a training says them, and the report repeats them."""

from __future__ import annotations

from shlex import quote
from typing import Any

from selc.analysis import Why
from selc.runs import RunFolder
from selc.runs.config import ARRAYS

LOOK = 100  # labels that a person looks at in half an hour


def to_look_at(summary: dict[str, Any]) -> int:
    """How many labels a person should look at."""
    actions, rate = summary["actions"], summary["noise_rate"]
    look: int = actions["relabel"] + actions["review"]
    if summary["why_unchanged"] == Why.CANNOT_TELL and rate is not None and rate["estimate"] is None:
        # As the report says: of those that may be wrong as many as a person can look at.
        look = max(look, min(round(rate["high"] * sum(actions.values())), LOOK))
    return look


def next_commands(run: RunFolder) -> list[tuple[str, str]]:
    """What one would do next with a finished run, and what for."""
    place, actions, look = quote(str(run.path)), run.summary["actions"], to_look_at(run.summary)
    labels = "1 label" if look == 1 else f"{min(look, 500):,} labels" if look else "labels"
    what = f"look at {labels} in the browser"
    commands = [(f"selc report {place}", "one page: what is most likely wrong"), (f"selc review {place}", what)]
    if actions["relabel"] and run.config.data.name != ARRAYS:
        commands.append((f"selc apply {place}", f"take over the {actions['relabel']:,} surest changes"))
    return commands
