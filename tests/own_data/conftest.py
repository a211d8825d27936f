"""Every test here has a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which decoded images are kept during the test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SELC_CACHE", str(folder))
    return folder
