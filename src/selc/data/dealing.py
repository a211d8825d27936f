"""Which rows belong together, and when each was taken: none is judged by what its own kin taught."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc.data.preprocess.labels import Where, is_missing
from selc.errors import InputError


def groups_of(values: Any, count: int, name: str = "groups") -> Tensor | None:
    """Names of groups, one per row, as numbers [N]; None stays None."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (count,):
        raise InputError(f"{name} must be one per row, [{count}]; got shape {list(array.shape)}.")
    return torch.from_numpy(np.unique(array.astype(np.str_), return_inverse=True)[1].astype(np.int64))


def times_of(values: Any, count: int, name: str = "time") -> Tensor | None:
    """When each row was taken, as numbers [N] of any unit; None stays None."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype.kind == "M":
        array = np.where(np.isnat(array), np.nan, array.astype("datetime64[ms]").astype(np.float64))
    if array.shape != (count,) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(f"{name} must be a number or a date for each of the {count} rows; got {str(values)[:60]}.")
    return torch.from_numpy(array.astype(np.float64))


def written_groups(cells: Sequence[str], column: str) -> Tensor | None:
    """A column that says what belongs together; each row without a value is a group of its own."""
    named = [cell.strip() for cell in cells]
    if all(is_missing(cell) for cell in named):
        raise InputError(f"--group-column must say what belongs together; got {column!r}, which is empty in every row.")
    return groups_of([f"row {row}" if is_missing(cell) else f"= {cell}" for row, cell in enumerate(named)], len(cells))


def written_times(cells: Sequence[str], column: str, where: Where) -> Tensor:
    """A column of numbers, or of dates with the year first, as 2024-03-31 or 2024-03-31 17:05."""
    numbers, dates = ([read(cell.strip()) for cell in cells] for read in (_number, _date))
    values = min(numbers, dates, key=lambda read: sum(map(math.isnan, read)))
    bad = next((row for row, value in enumerate(values) if not math.isfinite(value)), None)
    if bad is not None:
        raise InputError(
            f"--time-column must hold a number in every row, or in every row a date such as 2024-03-31; got "
            f"{cells[bad].strip()[:40]!r} in column {column!r} {where(bad)}."
        )
    return torch.tensor(values, dtype=torch.float64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _date(text: str) -> float:
    try:
        with warnings.catch_warnings(action="ignore"):  # of a time zone, which it takes into account
            date = np.datetime64(text, "ms")
    except ValueError:
        return math.nan
    return math.nan if np.isnat(date) else float(date.astype(np.int64))


def verified_rows(rows: Any, count: int) -> Tensor | None:
    """Rows whose labels a person has checked, by number or as booleans, as booleans [N]; None: there are none."""
    if rows is None:
        return None
    values = rows.cpu().numpy() if isinstance(rows, Tensor) else np.asarray(rows)
    verified = np.zeros(count, dtype=bool)
    if values.shape == (count,) and values.dtype.kind == "b":
        verified = values
    elif values.ndim == 1 and values.dtype.kind in "iu" and (values >= 0).all() and (values < count).all():
        verified[values] = True
    elif values.size:
        raise InputError(
            f"verified must be row numbers from 0 to {count - 1}, or {count} booleans; got {str(rows)[:60]}. Labels "
            "that a person has corrected go into labels."
        )
    return torch.from_numpy(verified.copy()) if verified.any() else None
