"""Small data of which every form has to hold the same: features of flowers, or pictures of colours, or reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.own_data.miniature import flowers


class Rows(NamedTuple):
    """What a form is given to write: features, labels (None: there are none), and a name for each row."""

    x: np.ndarray[Any, np.dtype[np.float64]]
    labels: Sequence[str] | None
    names: Sequence[str]

    def cells(self) -> tuple[list[str], list[list[Any]]]:
        """As a table: the names of its columns, and its rows."""
        columns = ["id", *(f"f{k}" for k in range(self.x.shape[1])), *(["label"] if self.labels is not None else [])]
        more = [[]] * len(self.x) if self.labels is None else [[label] for label in self.labels]
        return columns, [[n, *row, *last] for n, row, last in zip(self.names, self.x.tolist(), more, strict=True)]


def some_rows(count: int = 30, labelled: bool = True) -> Rows:
    x, labels = flowers(count)
    return Rows(x, labels if labelled else None, [f"n{k:02d}" for k in range(count)])
