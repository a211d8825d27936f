"""Tables in Arrow's memory layout: Parquet files, and what Hugging Face datasets hand out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from selc._io.files import sha256
from selc._io.parquet_file import read_parquet
from selc.data.preprocess.features import Numbers
from selc.data.sources.base import table_source
from selc.data.sources.csv_table import not_numeric
from selc.errors import InputError


@table_source("parquet", ".parquet", ".pq")
def parquet_table(path: Path) -> ArrowTable:
    """A Parquet file."""
    return ArrowTable(read_parquet(path), str(path), lambda: sha256(path))


class ArrowTable:
    """An Arrow table; ``files`` says whether images may lie in files that it names."""

    def __init__(self, table: Any, name: str, digest: Any, files: bool = False) -> None:
        self.table, self.name, self.digest, self.files = table, name, digest, files
        self.names: list[str] = list(table.column_names)
        if table.num_rows == 0:
            raise InputError(f"{name} must have a row per sample; got none.")
        twice = {column for column, times in Counter(self.names).items() if times > 1}
        if twice:
            raise InputError(f"the columns of {name} must differ; got {sorted(twice)[0]!r} more than once.")

    def example(self, name: str) -> str:
        """The first cell of a column that is a text."""
        values = self.table.column(name).slice(0, 20).to_pylist()
        return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")

    def where(self, row: int) -> str:
        return f"in row {row} of {Path(self.name).name}"

    def classes(self, name: str) -> tuple[str, ...] | None:
        """The names of the classes, if a Hugging Face dataset wrote them into the schema."""
        try:
            about = json.loads((self.table.schema.metadata or {}).get(b"huggingface", b"{}"))
            names = about["info"]["features"][name]["names"]
        except (ValueError, KeyError, TypeError):
            return None
        return tuple(map(str, names)) if isinstance(names, list) and names else None

    def images(self, name: str) -> ArrowImages | None:
        """The images of a column of bytes, or of bytes and paths as Hugging Face writes them; else None."""
        import pyarrow

        kind = self.table.schema.field(name).type
        if _binary(kind):
            return ArrowImages(self.table.column(name), None)
        if pyarrow.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            column = self.table.column(name).combine_chunks()
            chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
            fields = {f: pyarrow.chunked_array([chunk.field(f) for chunk in chunks]) for f in _fields(kind)}
            return ArrowImages(fields["bytes"], fields.get("path") if self.files else None)
        return None

    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]:
        """Columns as text, and columns as numbers [N, D] with NaN where a cell is empty."""
        import pyarrow
        import pyarrow.compute as compute

        cells = {}
        for name in texts:
            values = self.table.column(name).to_pylist()
            cells[name] = ["" if value is None else str(value) for value in values]
        out: Numbers = np.empty((self.table.num_rows, len(numbers)))
        wrong = []
        for k, name in enumerate(numbers):
            column = self.table.column(name)
            kind = column.type
            if not (_numeric(kind) or pyarrow.types.is_boolean(kind) or pyarrow.types.is_null(kind)):
                wrong.append(name)
                continue
            filled = compute.fill_null(compute.cast(column, pyarrow.float64(), safe=False), float("nan"))
            out[:, k] = filled.to_numpy()
        if wrong:
            example = next((v for v in self.table.column(wrong[0]).slice(0, 100).to_pylist() if v is not None), None)
            raise not_numeric(wrong, example, f"in {self.name}")
        return cells, out


def _numeric(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _binary(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _fields(kind: Any) -> list[str]:
    return [field.name for field in kind if field.name in ("bytes", "path")]


class ArrowImages(Sequence[str | bytes]):
    """Images as bytes in a column; where there are none, as the path beside them if paths may be used."""

    def __init__(self, column: Any, paths: Any) -> None:
        self.column, self.paths = column, paths

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        data = self.column[row].as_py()
        if data is None and self.paths is not None:
            data = self.paths[row].as_py()
        return b"" if data is None else data
