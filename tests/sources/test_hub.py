"""The form of data `hub`; more of it is in `tests/own_data/test_hub.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from selc.data.sources.hub import was_saved
from tests.sources.written import Rows


def write(place: Path, rows: Rows) -> Path:
    datasets = pytest.importorskip("datasets")
    columns, cells = rows.cells()
    arrays = {name: list(column) for name, column in zip(columns, zip(*cells, strict=True), strict=True)}
    if rows.labels is None:  # a run on a saved dataset predicts tables
        datasets.Dataset.from_dict(arrays).to_parquet(str(place / "data.parquet"))
        return place / "data.parquet"
    datasets.Dataset.from_dict(arrays).save_to_disk(str(place / "data"))
    return place / "data"


def test_what_is_saved_is_known_by_its_marks(tmp_path: Path) -> None:
    assert not was_saved(tmp_path)
    (tmp_path / "state.json").touch()
    assert was_saved(tmp_path)
