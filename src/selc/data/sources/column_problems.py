"""What is wrong with the columns of a table whose labels were not found: everything, so that one more command does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from selc.data.preprocess.coding import are_dates, read_column
from selc.data.preprocess.labels import Where
from selc.data.sources.hints import dropping, flag
from selc.errors import InputError

MOST_CLASSES = 50  # different values that a column of labels may have to be thought of
OFFERED = 5  # columns that are offered


def on_missing_label(cells: Mapping[str, Sequence[str]], where: Where, ids: Sequence[str]) -> str:
    """Which columns may be the labels, last ones first, and what else will be in the way; "" if nothing is known."""
    different = {name: {cell.strip() for cell in column} - {""} for name, column in cells.items()}
    likely = [name for name, found in different.items() if 2 <= len(found) <= MOST_CLASSES and not are_dates([*found])]
    words = []
    if likely:
        offered = " or ".join(flag("--label-column", name) for name in reversed(likely[-OFFERED:]))
        words.append(f"Columns with few different values are named by {offered}.")
    wrong = []
    for name, column in cells.items():
        if name.lower() in ids or name in likely:
            continue
        try:
            read_column(name, column, where)
        except InputError as error:
            wrong.append((name, error.for_command))
    if wrong:
        told = " ".join(f"({number}) {sentence}" for number, (_, sentence) in enumerate(wrong, start=1))
        words.append(f"Then this will be in the way: {told}")
        if len(wrong) > 1:
            words.append(f"To leave all of that out: {dropping([name for name, _ in wrong])}")
    return " ".join(words)
