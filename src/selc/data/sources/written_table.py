"""A table whose cells are in memory as text: what is made of a file of which nothing else is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from selc.data.preprocess.features import Numbers
from selc.data.preprocess.labels import Where
from selc.data.sources.csv_table import is_number, not_numeric


class WrittenTable:
    """Columns by name, a cell for each sample; "" where there is nothing."""

    def __init__(
        self, name: str, columns: Mapping[str, Sequence[str]], where: Where, digest: Callable[[], str]
    ) -> None:
        self.name, self.columns, self.where, self.digest = name, columns, where, digest
        self.names = list(columns)

    def example(self, name: str) -> str:
        return next((cell.strip() for cell in self.columns[name] if cell.strip()), "")

    def classes(self, name: str) -> None:
        """Text does not say which classes there are."""

    def images(self, name: str) -> None:
        """Text holds no images."""

    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]:
        """Columns as text, and columns as numbers [N, D] with NaN where a cell is empty."""
        read = {name: [cell if cell.strip() else "nan" for cell in self.columns[name]] for name in numbers}
        for name, cells in read.items():
            if (row := next((row for row, cell in enumerate(cells) if not is_number(cell)), None)) is not None:
                raise not_numeric([name], cells[row], self.where(row))
        rows = len(next(iter(self.columns.values())))
        made = [np.array(cells, dtype=np.float64) for cells in read.values()]
        return (
            {name: list(self.columns[name]) for name in texts},
            np.stack(made, axis=1) if made else np.empty((rows, 0)),
        )
