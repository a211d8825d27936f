"""The form of data `texts`; more of it is in `tests/own_data/test_text_folder.py`."""

from __future__ import annotations

from pathlib import Path

from selc.data.sources.text_folder import holds_texts
from tests.sources.written import Rows, some_rows

WORDS = ["garden", "petal", "stem", "leaf", "soil", "water", "light", "frost", "spring", "bloom", "thorn", "scent"]


def write(place: Path, rows: Rows) -> Path:
    """A text for each row, in a folder by its label; those without one lie beside each other."""
    for k, name in enumerate(rows.names):
        words = [WORDS[(k * step + step) % len(WORDS)] for step in range(1, 9)]
        file = place / "data" / ("" if rows.labels is None else rows.labels[k]) / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"number {k} of the {' '.join(words)}", encoding="utf-8")
    return place / "data"


def test_a_folder_with_a_picture_is_none_of_texts(tmp_path: Path) -> None:
    place = write(tmp_path, some_rows(3))
    assert holds_texts(place)
    (place / "rose" / "a.png").touch()
    assert not holds_texts(place)
