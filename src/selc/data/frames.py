"""DataFrames of pandas, polars and their like, by what they can do; none of these libraries is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selc.data.csv_table import not_numeric
from selc.data.features import Numbers, gaps
from selc.data.table_columns import LABELS
from selc.errors import InputError


def is_frame(thing: Any) -> bool:
    """Whether something is a table with named columns."""
    return hasattr(thing, "columns") and hasattr(thing, "to_numpy")


def split_frame(frame: Any, label: str | None) -> tuple[Any, list[Any]]:
    """The column of the labels, and the names of the others."""
    names = list(frame.columns)
    if label is None:
        lower = {str(name).lower(): name for name in reversed(names)}
        found = next((lower[known] for known in LABELS if known in lower), None)
        if found is None:
            raise InputError(
                f"a DataFrame without labels beside it must have a column {', '.join(LABELS[:-1])} or {LABELS[-1]}; "
                f"got {', '.join(map(repr, names[:12]))}. Give the labels, or their column, as the second argument."
            )
        label = found
    if label not in names:
        raise InputError(f"labels must name a column; got {label!r}, and there are {', '.join(map(repr, names[:12]))}.")
    return frame[label], [name for name in names if name != label]


def frame_numbers(frame: Any, names: Sequence[Any]) -> Numbers:
    """Columns as numbers [N, D], or an error that names those that are none."""
    if not names or len(set(names)) < len(names):
        got = "one name twice" if names else "none"
        raise InputError(f"a DataFrame must have columns of numbers, each with a name of its own; got {got}.")
    columns = [np.asarray(frame[name].to_numpy()) for name in names]
    out: Numbers = np.empty((len(frame), len(names)))
    wrong = []
    for k, values in enumerate(columns):
        if values.dtype.kind in "biuf":
            out[:, k] = values
        elif (numbers := _numbers(values)) is not None:
            out[:, k] = numbers
        else:
            wrong.append(k)
    if wrong:
        example = next((value for value in columns[wrong[0]].tolist() if isinstance(value, str)), columns[wrong[0]][0])
        raise not_numeric([str(names[k]) for k in wrong], example, "in the DataFrame")
    gaps(out, [str(name) for name in names], "the DataFrame", lambda row: f"in row {row}", skip_bad=False)
    return out


def _numbers(values: np.ndarray[Any, Any]) -> list[float] | None:
    """Objects as numbers, NaN for what is missing; None if some are neither."""
    if values.dtype.kind != "O":
        return None
    out = []
    for value in values.tolist():
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            out.append(float("nan"))
        elif isinstance(value, str | bytes):
            return None
        else:
            try:
                out.append(float(value))
            except (TypeError, ValueError):
                return None
    return out
