"""DataFrames of pandas, polars and their like, by what they can do; none of these libraries is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from selc.data.preprocess.coding import Cells, Coding, Column, Texts, as_category, as_numbers, read_column
from selc.data.preprocess.features import Numbers, gaps
from selc.data.preprocess.text_column import Documents, as_documents
from selc.data.sources.csv_table import not_numeric
from selc.data.sources.table_columns import LABELS
from selc.errors import InputError

TEXT = "text"  # what the column of a plain list of texts is called


def is_frame(thing: Any) -> bool:
    """Whether something is a table with named columns."""
    return hasattr(thing, "columns") and hasattr(thing, "to_numpy")


def is_texts(thing: Any) -> bool:
    """Whether something is a sequence of texts, a text per sample: a list, an array, a column of a DataFrame."""
    if isinstance(thing, np.ndarray) or (hasattr(thing, "to_numpy") and not is_frame(thing)):
        values = np.asarray(thing if isinstance(thing, np.ndarray) else thing.to_numpy())
        if values.ndim != 1 or values.dtype.kind not in "OUT":
            return False
        thing = values.tolist()
    return isinstance(thing, list | tuple) and any(isinstance(value, str) for value in thing)


def named_cells(x: Any, columns: Sequence[Any] | None = None) -> Cells | None:
    """Texts, or columns of a DataFrame (None: all); None: what is in ``x`` has no name."""
    if is_texts(x):
        return text_cells(x)
    return frame_cells(x, columns=columns) if is_frame(x) else None


def cells_of(x: Any, columns: Sequence[Any] | None = None) -> Cells | None:
    """Texts, or columns of a DataFrame (None: all) that hold more than numbers; None: an array can hold ``x``."""
    return None if is_frame(x) and is_plain(x, columns) else named_cells(x, columns)


def new_cells(x: Any, coding: Coding, name: str) -> Cells:
    """The same of new items, as ``coding`` has it; errors call them ``name``."""
    of_texts = coding.inputs == (TEXT,)
    if of_texts and is_texts(x):
        return text_cells(x)
    if is_frame(x):
        return frame_cells(x, coding)
    wanted = "a list of texts like that" if of_texts else "a DataFrame with columns of text or gaps like that"
    raise InputError(f"{name} must be {wanted} of the training; got {type(x).__name__}.")


def text_cells(texts: Any) -> dict[str, Documents]:
    """A sequence of texts as a table of one column, `TEXT`; None and NaN are no text."""
    values = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    gaps = [value for value in values if not isinstance(value, str)]
    if strange := [value for value in gaps if _text(value)]:
        row = next(k for k, value in enumerate(values) if value is strange[0])
        raise InputError(f"texts must be strings, one per sample; got {type(strange[0]).__name__} in row {row}.")
    return {TEXT: as_documents(TEXT, [_text(value) for value in values], _row)}


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


def frame_cells(frame: Any, coding: Coding | None = None, columns: Sequence[Any] | None = None) -> dict[str, Column]:
    """Columns of a DataFrame (None: all) as numbers, categories and texts: as ``coding`` or the cells have them."""
    names = list(frame.columns if columns is None else columns) if coding is None else list(coding.inputs)
    by_text = {str(name): name for name in frame.columns}
    if missing := [name for name in names if str(name) not in by_text]:
        raise InputError(f"a DataFrame must have the columns of the training; got no {', '.join(map(repr, missing))}.")
    if len(by_text) < len(frame.columns):
        raise InputError("a DataFrame must have columns with a name of their own each; got one name twice.")
    categories = {column.name for column in coding.categories} if coding else set()
    free = {column.name for column in coding.texts} if coding else set()
    cells: dict[str, Column] = {}
    for name in map(str, names):
        values = np.asarray(frame[by_text[name]].to_numpy())
        column: Column
        if name in free:
            column = as_documents(name, [_text(value) for value in values.tolist()], _row)
        elif values.dtype.kind in "biuf" and name not in categories:
            column = values.astype(np.float64)
        elif (numbers := _numbers(values)) is not None and name not in categories:
            column = np.array(numbers, dtype=np.float64)
        else:
            if values.dtype.kind in "mM":
                values = values.astype(np.str_)
            written = [_text(value).strip() for value in values.tolist()]
            column = read_column(name, written, _row) if coding is None else _known(name, written, categories)
        if column.dtype.kind == "f" and np.isinf(np.asarray(column, dtype=np.float64)).any():
            raise InputError(f"numbers must be finite; got infinity in column {name!r} of the DataFrame.")
        cells[name] = column
    return cells


def is_plain(frame: Any, columns: Sequence[Any] | None = None) -> bool:
    """Whether columns of a DataFrame (None: all) hold numbers alone, and no gaps: then it is an array with names."""
    for name in frame.columns if columns is None else columns:
        values = np.asarray(frame[name].to_numpy())
        numbers = values if values.dtype.kind in "biuf" else _numbers(values)
        if numbers is None or np.isnan(np.asarray(numbers, dtype=np.float64)).any():
            return False
    return True


def _row(row: int) -> str:
    return f"in row {row}"


def _text(value: Any) -> str:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # what compares with nothing
        return ""
    return "" if value != value else str(value)


def _known(name: str, written: Sequence[str], categories: set[str]) -> Numbers | Texts:
    texts: Texts = np.asarray(written, dtype=np.str_)
    if name in categories:
        return as_category(texts)
    numbers, strange = as_numbers(texts)
    if len(strange):
        raise not_numeric([name], str(texts[strange[0]]), _row(int(strange[0])))
    return numbers


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
