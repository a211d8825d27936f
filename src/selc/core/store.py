"""Per-sample memory: one row per sample of the training set, addressed by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from selc.errors import InputError

BLOCK = 65_536  # rows per block: large enough to be fast, small enough for any width that fits a batch


class Store(nn.Module):
    """A table [rows, columns] that is saved with the model and moves with it.

    Nothing outside may rely on the table being dense: whole-table access goes through ``blocks``.
    """

    table: Tensor

    def __init__(self, rows: int, columns: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(rows, columns, dtype=dtype))
        self.register_load_state_dict_pre_hook(_same_shape)  # type: ignore[no-untyped-call]

    @classmethod
    def from_labels(cls, labels: Tensor, num_classes: int) -> Store:
        """A table whose rows are the one-hot vectors of ``labels``."""
        store = cls(len(labels), num_classes).to(labels.device)
        store.table.scatter_(1, labels.unsqueeze(1).to(store.table.device), 1.0)
        return store

    def __len__(self) -> int:
        return self.table.shape[0]

    @property
    def columns(self) -> int:
        return self.table.shape[1]

    def read(self, index: Tensor) -> Tensor:
        """The rows at ``index``, as a copy."""
        return self.table.index_select(0, index)

    @torch.no_grad()
    def write(self, index: Tensor, rows: Tensor) -> None:
        """Replace the rows at ``index``."""
        self.table.index_copy_(0, index, rows.detach().to(self.table.dtype))

    @torch.no_grad()
    def ema(self, index: Tensor, rows: Tensor, momentum: float) -> Tensor:
        """Move the rows at ``index`` towards ``rows`` and return them: t <- momentum t + (1 - momentum) rows."""
        updated = self.read(index).lerp_(rows.detach().to(self.table.dtype), 1.0 - momentum)
        self.table.index_copy_(0, index, updated)
        return updated

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[Tensor, Tensor]]:
        """All rows, piece by piece, as (index, rows): the whole table may not fit."""
        for first in range(0, len(self), size):
            index = torch.arange(first, min(first + size, len(self)), device=self.table.device)
            yield index, self.read(index)

    def argmax(self) -> Tensor:
        """The column of the largest entry of every row, [rows]."""
        return torch.cat([rows.argmax(dim=1) for _, rows in self.blocks()])

    def full(self) -> Tensor:
        """The whole table as one tensor, for whoever knows that it fits."""
        return torch.cat([rows for _, rows in self.blocks()])


def _same_shape(store: Store, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A saved table belongs to one training set; one of another size is refused with a sentence."""
    saved = state.get(prefix + "table")
    if saved is not None and saved.shape != store.table.shape:
        raise InputError(
            f"a saved table must have the rows and columns of the training set, {list(store.table.shape)}; "
            f"got {list(saved.shape)}. It belongs to other data."
        )
