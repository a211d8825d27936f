"""Rows of numbers as inputs: each column with mean zero and variance one over the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from selc.data.inputs.arrays import ArrayInputs
from selc.data.preprocess.labels import Where
from selc.data.preprocess.preprocessor import Made, Transform
from selc.errors import InputError

if TYPE_CHECKING:
    from selc.data.preprocess.coding import Coding
    from selc.data.sources.listing import Listing

Numbers = np.ndarray[Any, np.dtype[np.float64]]


def row_number(row: int) -> str:
    return f"in row {row}"


class Scale(NamedTuple):
    """What was subtracted from each column, and what it was divided by."""

    mean: Numbers
    std: Numbers

    @classmethod
    def of(
        cls, x: Numbers, measured: int | None = None, columns: Sequence[str] = (), where: Where = row_number
    ) -> Scale:
        """The scale of rows [N, ...]; columns from ``measured`` on are 0 or 1 and stay as they are."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, std = x.mean(axis=0), x.std(axis=0)
        if not np.isfinite(std).all():
            raise _too_large(x, np.broadcast_to(np.isfinite(std), x.shape), columns, where)
        # A column that never changes is left at zero; rounding must not blow it up.
        flat = std <= 1e-12 * np.abs(x).max(axis=0, initial=0.0)
        std = np.where(flat, 1.0, std)
        if measured is not None:
            mean[measured:], std[measured:] = 0.0, 1.0
        return cls(mean, std)

    def none(self) -> Scale:
        """One for as many columns that leaves them as they are."""
        return Scale(np.zeros_like(self.mean), np.ones_like(self.std))

    def apply(self, x: Numbers, columns: Sequence[str] = (), where: Where = row_number) -> torch.Tensor:
        """Rows [N, ...] as the network sees them; ``columns`` and ``where`` say in a message what does not fit."""
        with np.errstate(over="ignore"):
            scaled = ((x - self.mean) / self.std).astype(np.float32)
        fits = np.isfinite(scaled) | ~np.isfinite(x)  # what was not finite before has sentences of its own
        if not fits.all():
            raise _too_large(x, fits, columns, where)
        return torch.from_numpy(scaled)


def _too_large(
    x: Numbers, fits: np.ndarray[Any, np.dtype[np.bool_]], columns: Sequence[str], where: Where
) -> InputError:
    """The error for a number that is finite but cannot be scaled; the largest of those that do not fit."""
    place = np.unravel_index(int(np.where(fits, -1.0, np.abs(x)).argmax()), x.shape)
    row, k = int(place[0]), int(place[1]) if x.ndim > 1 else 0
    column = repr(columns[k]) if columns else str(k)
    return InputError(
        f"numbers must not be so large that they cannot be scaled like the others; got {x[place]:g} in column {column} "
        f"{where(row)}. Correct it, or leave the row or the column out."
    )


@dataclass(frozen=True)
class Features:
    """A preprocessor: items into features [N, D], each column scaled.

    ``coding`` makes numbers of the columns of a table, ``encoding`` of items such as images.
    """

    scale: Scale
    columns: tuple[str, ...] = ()
    coding: Coding | None = None
    encoding: Transform | None = None
    side = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.scale.mean.shape)

    def rows(self, listing: Listing, /) -> Made:
        x = listing.items
        if isinstance(x, np.ndarray):
            x = checked_array(x, listing.source, self.shape)
        return Made(self.apply(x, listing.where, listing.source))

    def apply(self, items: Any, where: Where = row_number, what: str = "x") -> FeatureInputs:
        """Numbers [N, D], or what ``coding`` or ``encoding`` makes numbers of."""
        if self.coding is not None:
            return self.scaled(self.coding.apply(items), where)
        if self.encoding is not None and not isinstance(items, np.ndarray):
            return self.scaled(self.encoding.apply(items), where)
        return self.scaled(finite(items, what, where), where)

    def scaled(self, x: Numbers, where: Where = row_number) -> FeatureInputs:
        return FeatureInputs(self.scale.apply(x, () if self.coding is None else self.columns, where), self)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "features" if self.coding is None else "table",
            "columns": list(self.columns),
            "coding": None if self.coding is None else self.coding.state(),
            **({} if self.encoding is None else {"encoding": self.encoding.state()}),
            "arrays": {
                "mean": self.scale.mean,
                "std": self.scale.std,
                **({} if self.coding is None else self.coding.arrays()),
                **({} if self.encoding is None else self.encoding.arrays()),
            },
        }


class FeatureInputs(ArrayInputs):
    """Features [N, D], scaled; ``how`` says how they came about, so that later rows are treated alike."""

    def __init__(self, x: torch.Tensor, how: Features) -> None:
        super().__init__(x)
        self.how = how

    def to(self, device: torch.device) -> FeatureInputs:
        return FeatureInputs(self.x.to(device), self.how)


def checked_array(x: np.ndarray[Any, Any], name: str, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    """An array of numbers, a row for each sample; ``shape`` is that of the inputs in training."""
    if x.dtype.kind not in "fiub":
        raise InputError(f"{name} must be an array of numbers; got values of type {x.dtype}.")
    if x.ndim < 2 or len(x) == 0:
        raise InputError(f"{name} must be a non-empty array [N, ...], a row for each sample; got shape {x.shape}.")
    if shape is not None and x.shape[1:] != shape:
        raise InputError(f"{name} must hold inputs of shape {list(shape)} as in the training; got {list(x.shape[1:])}.")
    return x


def finite(x: np.ndarray[Any, Any], what: str = "x", where: Where = row_number) -> Numbers:
    """An array [N, D] in float64, or an error that names a cell that is empty or infinite."""
    numbers: Numbers = x.astype(np.float64)
    gaps(numbers, [f"{k}" for k in range(x.shape[1])], what, where, skip_bad=False)
    return numbers


def gaps(x: Numbers, columns: Sequence[str], what: str, where: Where, skip_bad: bool) -> dict[int, str]:
    """The rows with a cell that is empty (NaN), each with a reason. Without ``skip_bad`` they are an error."""
    if np.isinf(x).any():
        row, column = np.argwhere(np.isinf(x))[0]
        raise InputError(f"numbers must be finite; got {x[row, column]} in column {columns[column]!r} {where(row)}.")
    empty = np.isnan(x)
    rows = np.flatnonzero(empty.any(axis=1)).tolist()
    if rows and not skip_bad:
        column = int(empty.sum(axis=0).argmax())
        raise InputError(
            f"every number of {what} must be there; got {int(empty.sum())} empty cells in {len(rows)} of {len(x)} "
            f"rows, most in column {columns[column]!r}, first {where(rows[0])}. Fill them, leave the column out "
            "(data.drop), or go on without such rows by --skip-bad (skip_bad=True)."
        )
    return {row: f"column {columns[int(empty[row].argmax())]!r} is empty" for row in rows}
