"""What a sentence tells a person to type, quoted so that it can be pasted into a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

MOST, TOLD = 20, 8  # columns that a command names; that have a sentence


def dropping(columns: Sequence[str]) -> str:
    """How columns are left out on the command line."""
    return f"--set {shlex.quote(f'data.drop={json.dumps(list(columns[:MOST]), ensure_ascii=False)}')}"


def flag(option: str, value: str) -> str:
    """An option with its value."""
    return f"{option} {shlex.quote(value)}"


def all_at_once(table: str, wrong: Mapping[str, str]) -> str:
    """What is wrong with columns, by their names: all of it, so that one more command does."""
    if len(wrong) == 1:
        return next(iter(wrong.values()))
    told = [f"({number}) {sentence}" for number, sentence in enumerate(list(wrong.values())[:TOLD], start=1)]
    more = f" ({len(wrong) - TOLD} more columns: {', '.join(list(wrong)[TOLD:])})" if len(wrong) > TOLD else ""
    return (
        f"{len(wrong)} columns of {table} cannot be used as they are: {' '.join(told)}{more} To leave all of them out: "
        f"{dropping(list(wrong))}"
    )
