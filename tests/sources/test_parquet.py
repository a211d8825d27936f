"""The form of data `parquet`; what all tables have in common is in `tests/own_data/test_tables.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from selc.data.sources.tables import open_table
from tests.sources.written import Rows, some_rows


def write(place: Path, rows: Rows) -> Path:
    import pyarrow
    import pyarrow.parquet as parquet

    columns, cells = rows.cells()
    values = zip(*cells, strict=True)
    arrays = {
        name: [v or None if isinstance(v, str) else v for v in column]
        for name, column in zip(columns, values, strict=True)
    }
    parquet.write_table(pyarrow.table(arrays), place / "data.parquet")
    return place / "data.parquet"


def test_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    rows = some_rows(3)
    names, x = open_table(write(tmp_path, rows)).load(["id"], ["f0", "f3"])
    assert names == {"id": rows.names}
    np.testing.assert_array_equal(x, rows.x[:, [0, 3]])
