"""The form of data `folder`; more of it is in `tests/own_data/test_folder.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from selc.data.sources.base import source_of
from tests.own_data.miniature import encoded
from tests.sources.written import Rows, some_rows


def write(place: Path, rows: Rows) -> Path:
    """A picture for each row, in a folder by its label; those without one lie beside each other."""
    for k, name in enumerate(rows.names):
        pixels = np.random.default_rng(k).integers(0, 256, (12, 12, 3)).astype(np.uint8)
        file = place / "data" / ("" if rows.labels is None else rows.labels[k]) / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(pixels))
    return place / "data"


def test_a_folder_without_sub_folders_is_no_source(tmp_path: Path) -> None:
    assert source_of(write(tmp_path, some_rows(3, labelled=False))) is None
    assert source_of(write(tmp_path, some_rows(3))) is not None
