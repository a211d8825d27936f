"""Columns of features that are likely none: a second label, a number per sample, a value that dwarfs the rest."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import numpy as np
from torch import Tensor

from selc.data.preprocess.coding import Cells
from selc.data.preprocess.features import Numbers
from selc.data.preprocess.labels import Where
from selc.data.sources.hints import dropping

ROWS_OF_A_VALUE = 10  # rows for each value of a column, from which on it may stand for the label
DIFFERENT = 0.95  # share of different whole numbers from which on they may number the samples
SMALLEST = 20  # rows below which nearly any column of whole numbers differs in all of them
FAR = 1_000  # standard deviations of the middle half
QUARTILES = 1.349  # standard deviations between the quartiles of a normal distribution


def notes_on_columns(cells: Cells, labels: Tensor, where: Where) -> list[str]:
    """A sentence for each suspicion, about training rows with ``labels`` [N]; ``where`` says where a row stands."""
    numbers = labels.numpy()
    leaks, counts, notes = [], [], []
    for name, column in cells.items():
        if column.dtype.kind == "O":
            continue  # free text
        values, code = np.unique(column, return_inverse=True)
        if tells_label(code, len(values), numbers):
            leaks.append(name)
        if column.dtype.kind != "f":
            continue
        measured = np.asarray(column, dtype=np.float64)
        if numbers_samples(values.astype(np.float64), len(column)):
            counts.append(name)
        if (row := far_off(measured)) is not None:
            notes.append(
                f"column {name!r} holds {measured[row]:g} {where(row)}, so far from the others that beside it they "
                f"hardly differ: correct it, or leave the column out ({dropping([name])})"
            )
    if leaks:
        notes.append(
            f"{_subject(leaks)} one and the same label beside each value: if that is the label in other words, the "
            f"network reads its mistakes off there and none will show, so leave it out ({dropping(leaks)})"
        )
    if counts:
        notes.append(
            f"{_subject(counts)} whole numbers that nearly all differ: if they name the samples, say so "
            f"(--id-column {quote(counts[0])}), or leave them out ({dropping(counts)})"
        )
    return notes


def tells_label(code: np.ndarray[tuple[int, ...], np.dtype[np.intp]], values: int, labels: Numbers) -> bool:
    """Whether each of few values, numbered in ``code`` [N], always stands beside one and the same label."""
    if not 2 <= values < len(code) / ROWS_OF_A_VALUE:
        return False
    beside = np.zeros(values, dtype=np.int64)
    beside[code] = labels  # the last label of each value: if there is one only, it is that of all rows
    return bool((beside[code] == labels).all())


def numbers_samples(values: Numbers, rows: int) -> bool:
    """Whether the different ``values`` of a column are whole numbers, and nearly as many as there are rows."""
    there = values[~np.isnan(values)]
    return rows >= SMALLEST and len(there) >= DIFFERENT * rows and bool((there == np.floor(there)).all())


def far_off(column: Numbers) -> int | None:
    """The row whose value lies so far off that scaling by all rows makes the others alike; None if there is none."""
    there = np.where(np.isnan(column), np.nanmedian(column), column)
    low, middle, high = np.quantile(there, (0.25, 0.5, 0.75))
    distance = np.abs(there - middle)
    row = int(distance.argmax())
    spread = (high - low) / QUARTILES
    if spread == 0:  # most values are one and the same: what do the others say without the farthest?
        spread = float(np.delete(there, row).std()) if len(there) > 1 else 0.0
    return row if distance[row] > FAR * spread > 0 else None


def _subject(columns: Sequence[str]) -> str:
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    names = ", ".join(map(repr, columns[:5])) + more
    return f"column {names} has" if len(columns) == 1 else f"columns {names} have"
