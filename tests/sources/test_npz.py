"""The form of data `npz`; more of it is in `tests/own_data/test_npz.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from selc.data.sources.npz import Arrays
from tests.sources.written import Rows, some_rows


def write(place: Path, rows: Rows) -> Path:
    arrays = {"x": rows.x, "ids": np.array(rows.names)}
    np.savez(place / "data.npz", **arrays | ({} if rows.labels is None else {"y": np.array(rows.labels)}))
    return place / "data.npz"


def test_arrays_are_those_of_the_file(tmp_path: Path) -> None:
    rows = some_rows(3)
    listing = Arrays(write(tmp_path, rows)).listing("x", "y")
    np.testing.assert_array_equal(listing.items, rows.x)
    assert (listing.names, listing.labels) == (rows.names, rows.labels)
