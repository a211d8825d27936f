"""Watching a training for its turning point: for SELC, and for methods that must know the share of wrong labels."""

from __future__ import annotations

from typing import Any

from selc.core.turning import Turn, Window, look, noise_rate, recognise
from selc.methods.base import Train
from selc.methods.ce import CE
from selc.types import Outcome, Seen, TrainSet


def watch(history: list[dict[str, Any]], seen: Seen, epochs: int) -> bool:
    """Note how far apart the losses lie, and say whether the turning point has passed and SELC should start."""
    if found(history) is not None:
        return False  # there was nothing to correct
    entry = history[-1]
    entry["window"] = list(look(*seen, entry["epoch"]))  # a list, as it comes back from a file
    turn = recognise([Window(*e["window"]) for e in history], len(history), epochs)
    if turn is None:
        return False
    entry["turning_point"] = turn._asdict()
    return turn.start is not None


def passed(history: list[dict[str, Any]], seen: Seen, epochs: int) -> bool:
    """The same for whoever needs to know no more than what was found."""
    watch(history, seen, epochs)
    return found(history) is not None


def found(history: list[dict[str, Any]]) -> Turn | None:
    """The turning point that a watched training noted, if it noted one."""
    return next((Turn(**entry["turning_point"]) for entry in history if "turning_point" in entry), None)


def estimated_rate(data: TrainSet, train: Train) -> tuple[float, Outcome]:
    """The share of wrong labels as a short training with CE shows it, and that training."""
    watched = train(CE(), data, stop=passed)
    turn = found(watched.history)
    assert turn is not None  # by three quarters of the epochs there is one
    rows = len(data) if data.rows is None else len(data.rows)
    return noise_rate(turn, rows)[0], watched
