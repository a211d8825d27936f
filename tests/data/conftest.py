from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of datasets, with a cache of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SELC_DATA", str(folder))
    monkeypatch.setenv("SELC_CACHE", str(tmp_path / "cache"))
    return folder
