"""Notes on samples that are nearly the same or like no other, from a table to the report."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from selc._io.files import read_json
from selc.cli import app
from selc.data import DATASETS
from selc.runs.unusual import unusual


def table(path: Path, categories: bool = False) -> Path:
    """300 rows; row 7 is nearly row 3 with another label, row 9 is nearly row 5, row 20 is like no other."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) + 3 * (np.arange(300) % 2)[:, None]
    x[7], x[9] = x[4] + 1e-4, x[5] + 1e-3
    x[20] = 60
    labels = ["ant" if k % 2 else "bee" for k in range(300)]
    cells = [[("ab"[int(v > 0.5)] if categories else f"{v:.6f}") for v in row] for row in x]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(
            [[*"pqrst", "label"], *([*row, name] for row, name in zip(cells, labels, strict=True))]
        )
    return path


def test_a_run_says_what_is_nearly_the_same_and_what_is_far(tmp_path: Path) -> None:
    place, run = table(tmp_path / "t.csv"), tmp_path / "run"
    result = CliRunner().invoke(app, ["train", str(place), "--method", "ce", "--epochs", "1", "--out", str(run)])
    assert result.exit_code == 0, result.output
    near = "2 pairs of samples are nearly the same, more than chance would make them; 1 of them has different labels: "
    near += "4 (bee) and 7 (ant), 5 (ant) and 9 (ant)"
    far = "1 sample is far from all others and may belong to no class: 20 (bee)"
    assert f"note: {near}" in result.output
    assert f"note: {far}" in result.output
    about = read_json(run / "data.json")
    assert about["notes"][-2:] == [near, far]
    pairs = about["unusual"]["nearly_the_same"]
    assert [row[:4] for row in pairs] == [["4", "bee", "7", "ant"], ["5", "ant", "9", "ant"]]
    assert [row[:2] for row in about["unusual"]["far_from_all"]] == [["20", "bee"]]
    result = CliRunner().invoke(app, ["report", str(run)])
    assert result.exit_code == 0, result.output
    assert far in (run / "report.html").read_text()


def test_rows_of_categories_are_told_only_where_equal_ones_have_different_labels(tmp_path: Path) -> None:
    found = unusual(DATASETS["table"](path=str(table(tmp_path / "t.csv", categories=True))))
    assert len(found.notes) == 1
    assert "are the same in every column, with different labels: first " in found.notes[0]
    assert all(row[1] != row[3] for row in found.record["nearly_the_same"])


def test_data_that_are_no_features_of_the_users_own_are_left_alone() -> None:
    assert unusual(DATASETS["moons"]()) == ([], {})
