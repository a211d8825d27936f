"""The form of data `csv`; what all tables have in common is in `tests/own_data/test_tables.py`."""

from __future__ import annotations

from pathlib import Path

from selc.data.sources.tables import open_table
from tests.own_data.miniature import write_csv
from tests.sources.written import Rows, some_rows


def write(place: Path, rows: Rows) -> Path:
    return write_csv(place / "data.csv", *rows.cells())


def test_a_row_is_known_by_its_line(tmp_path: Path) -> None:
    table = open_table(write(tmp_path, some_rows(3)))
    assert table.names == ["id", "f0", "f1", "f2", "f3", "label"]
    assert table.where(2) == "in line 4 of data.csv"
