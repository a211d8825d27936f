"""Rows of numbers as inputs: each column with mean zero and variance one over the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from selc.data.inputs.arrays import ArrayInputs
from selc.data.preprocess.labels import Where
from selc.errors import InputError

if TYPE_CHECKING:
    from selc.data.preprocess.coding import Coding
    from selc.data.preprocess.preprocessor import Preprocessor

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


class FeatureInputs(ArrayInputs):
    """Features [N, D], scaled; all else says how they came about, so that later rows are treated alike.

    ``coding`` made them of the columns of a table, ``encoding`` of items such as images.
    """

    def __init__(
        self,
        x: torch.Tensor,
        scale: Scale,
        columns: Sequence[str] = (),
        coding: Coding | None = None,
        encoding: Preprocessor | None = None,
    ) -> None:
        super().__init__(x)
        self.scale, self.columns, self.coding, self.encoding = scale, tuple(columns), coding, encoding

    def to(self, device: torch.device) -> FeatureInputs:
        return FeatureInputs(self.x.to(device), self.scale, self.columns, self.coding, self.encoding)

    def state(self) -> dict[str, Any]:
        """How rows become inputs: JSON, and numpy arrays under "arrays"."""
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
