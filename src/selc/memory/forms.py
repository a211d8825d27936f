"""The forms in which a table of one row per sample can be kept: what is stored of a row, and how it is read again.

A form works on plain tensors whose first dimension is the row. `Store` holds them, and knows which rows they are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor

FormName = Literal["dense", "half", "disk", "top-k"]
Held = Mapping[str, Tensor]
MANY, COLUMNS = 256, 64  # columns from which on rows are searched in lines, and how long these are


def one_hot(label: Tensor, columns: int) -> Tensor:
    """The rows [B, C] of labels [B], in 32 bits; torch's own makes them of 64-bit integers first."""
    return torch.zeros(len(label), columns, device=label.device).scatter_(1, label.unsqueeze(1), 1.0)


def largest_of(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The largest number of each row and its column, any one of several, [B] each.

    On a CPU a search looks at one number after the other, which takes longer than the softmax of many classes. So the
    columns are laid out in lines of ``COLUMNS``, whose largest numbers are found by whole registers; then one place in
    the line is left to be searched.
    """
    columns = rows.shape[1]
    if columns < MANY or rows.device.type != "cpu":
        column = rows.argmax(dim=1, keepdim=True)
        return rows.gather(1, column)[:, 0], column[:, 0]
    lines, rest = divmod(columns, COLUMNS)
    best: Tensor = rows[:, : lines * COLUMNS].unflatten(1, (lines, COLUMNS)).amax(dim=1)
    if rest:
        best[:, :rest] = torch.maximum(best[:, :rest], rows[:, -rest:])
    largest, place = best.max(dim=1, keepdim=True)
    places = _steps(columns).add(place).clamp_(max=columns - 1)
    return largest[:, 0], places.gather(1, rows.gather(1, places).argmax(dim=1, keepdim=True))[:, 0]


@cache
def _steps(columns: int) -> Tensor:
    """Where the lines begin."""
    return torch.arange(0, columns, COLUMNS)


def first_largest(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The largest number of each row and its column, the first one of several, [B] each."""
    largest, column = largest_of(rows)
    if rows.shape[1] >= MANY and rows.device.type == "cpu":
        alike = rows == largest.unsqueeze(1)
        if int(alike.count_nonzero()) != len(rows):
            several = alike.sum(dim=1) > 1
            column[several] = rows[several].argmax(dim=1)
    return largest, column


class Form:
    """A table [rows, columns] of numbers as they are: the form "dense"."""

    name: ClassVar[FormName] = "dense"
    moves: ClassVar[bool] = True  # whether the tensors follow the module to its device

    def __init__(self, columns: int, dtype: torch.dtype = torch.float32) -> None:
        self.columns, self.dtype = columns, dtype

    @property
    def kept_columns(self) -> int:
        """How many numbers of a row are at hand without reading it."""
        return self.columns

    def shapes(self, rows: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """The shape and type of each tensor."""
        return {"table": ((rows, self.columns), self.dtype)}

    def make(self, rows: int) -> dict[str, Tensor]:
        """Tensors in which every row is zero."""
        return {name: torch.zeros(shape, dtype=dtype) for name, (shape, dtype) in self.shapes(rows).items()}

    def read(self, held: Held, slot: Tensor) -> Tensor:
        """The rows at ``slot`` as a copy, [B, columns]."""
        return held["table"].index_select(0, slot)

    def write(self, held: Held, slot: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``slot``."""
        held["table"].index_copy_(0, slot, rows.to(self.dtype))

    def ema(self, held: Held, slot: Tensor, rows: Tensor, weight: float) -> Tensor:
        """Move the rows at ``slot`` towards ``rows``; return them as they were worked out, before any rounding."""
        updated = self.read(held, slot)
        updated.lerp_(rows.to(updated.dtype), weight)
        self.write(held, slot, updated)
        return updated

    def write_labels(self, held: Held, slot: Tensor, label: Tensor) -> None:
        """Replace the rows at ``slot`` by the one-hot rows of ``label``."""
        self.write(held, slot, one_hot(label, self.columns))

    def top(self, held: Held, slot: Tensor) -> tuple[Tensor, Tensor]:
        """The largest entry of each row and its column, the first one of several, [B] each."""
        return first_largest(self.read(held, slot))

    def at(self, held: Held, slot: Tensor, column: Tensor) -> Tensor:
        """One entry of each row, [B]."""
        return self.read(held, slot).gather(1, column.unsqueeze(1)).squeeze(1)


class Half(Form):
    """The same in 16 bits (fp16); it is worked on in 32.

    A stored number is off by 2^-12 of its size at most, and by that rounding the update t <- a t + (1 - a) p stands
    still where it would move t by less. Together an entry that is at most one is off by 2^-12 / (1 - a) at most:
    0.0024 for a = 0.9. bf16 would be eight times as far off.
    """

    name = "half"

    def __init__(self, columns: int) -> None:
        super().__init__(columns, torch.float16)

    def read(self, held: Held, slot: Tensor) -> Tensor:
        return super().read(held, slot).float()
