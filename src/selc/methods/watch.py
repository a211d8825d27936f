"""Watching a training for its turning point: for SELC, and for methods that must know the share of wrong labels."""

from __future__ import annotations

from typing import Any, Literal

from selc.core.judgement import noise_rate
from selc.core.turning import Turn, recognise
from selc.core.window import Window, look
from selc.errors import ConfigError
from selc.methods.base import Train
from selc.methods.ce import CE
from selc.types import Outcome, Seen, TrainSet

Rate = float | Literal["auto"]  # a share of wrong labels; "auto": to be estimated


def watch(history: list[dict[str, Any]], seen: Seen, epochs: int) -> bool:
    """Note how far apart the losses lie, and say whether the turning point has passed and SELC should start."""
    if found(history) is not None:
        return False  # there was nothing to correct
    entry = history[-1]
    entry["window"] = list(look(*seen[:3], entry["epoch"], seen.changed))  # a list, as it comes back from a file
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


def check_rate(rate: Rate, name: str) -> Rate:
    if rate == "auto" or (not isinstance(rate, str) and 0 <= rate < 1):
        return rate
    raise ConfigError(f"{name} must be in [0, 1) or 'auto'; got {rate!r}. It is the share of samples to leave out.")


def known_rate(rate: Rate, data: TrainSet, train: Train) -> float:
    """A given share of wrong labels, or an estimate of it, which costs a short training.

    The estimate stays at or below 1 - 1 / C: with more, the given labels would be worse than a guess.
    """
    if not isinstance(rate, str):
        return rate
    return min(estimated_rate(data, train)[0], 1 - 1 / data.num_classes)
