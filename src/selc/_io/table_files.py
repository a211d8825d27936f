"""Tables that a run writes, CSV and Parquet; a table is a dictionary of columns, lists or arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selc._io.files import write_bytes, write_text
from selc.errors import ConfigError

CSV, PARQUET = ".csv", (".parquet", ".pq")


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table, as Parquet if the file is called so and else as CSV."""
    if path.suffix.lower() not in PARQUET:
        write_text(path, as_csv(columns))
    elif (content := as_parquet(columns)) is not None:
        write_bytes(path, content)
    else:
        raise ConfigError(f"{path} needs pyarrow; got no such package. Write .csv, or install selc[parquet].")


def as_csv(columns: Mapping[str, Any]) -> str:
    """The table as CSV; None is an empty cell."""
    values = [_listed(column) for column in columns.values()]
    # Python 3.11 leaves a lone carriage return unquoted, and then does not read it back.
    texts = [column for column in values if column and isinstance(column[0], str | None)]
    odd = any("\r" in cell for column in texts for cell in column if cell is not None)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows(zip(*values, strict=True))
    return text.getvalue()


def as_parquet(columns: Mapping[str, Any]) -> bytes | None:
    """The table as Parquet; None without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return None
    arrays = {name: pa.array(_listed(column)) for name, column in columns.items()}
    arrays = {name: a.cast(pa.string()) if pa.types.is_null(a.type) else a for name, a in arrays.items()}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    return bytes(sink.getvalue())


def has_pyarrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _listed(column: Any) -> list[Any]:
    return list(column.tolist() if hasattr(column, "tolist") else column)
