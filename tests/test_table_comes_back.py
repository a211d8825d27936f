"""`selc apply` gives a table back as it came, with the labels corrected; what is wrong with columns is told at once."""

from __future__ import annotations

import csv
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from selc.analysis.findings import KEEP, RELABEL, Findings
from selc.cli import app
from selc.data.sources.tables import table
from selc.errors import InputError
from selc.runs import RunFolder
from selc.runs.cleaned import clean
from selc.runs.cleaned_source import corrected_table, write_corrected
from selc.runs.decisions import Decisions, Verdict
from tests.own_data.miniature import encoded, picture

QUICK = ("--epochs", "1", "--method", "ce", "--label-column", "the kind")


def selc(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def rows(count: int = 20) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    return [
        [f"P {k}", 'a "b"; c' if k % 2 else "z", round(rng.normal(), 3), " yes" if k % 3 else "no"]
        for k in range(count)
    ]


def written(path: Path, separator: str, ending: str, mark: bool) -> Path:
    with open(path, "w", encoding="utf-8-sig" if mark else "utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator=ending)
        writer.writerows([["id", "remark", "size", "the kind"], *rows()])
    return path


def findings_of(run: RunFolder, relabel: list[int]) -> Findings:
    """As if the run were sure that these rows have the other label."""
    found = run.findings()
    suggested, action = found.given.clone(), torch.full_like(found.action, KEEP)
    for row in relabel:
        suggested[row], action[row] = 1 - found.given[row], RELABEL
    return replace(found, suggested=suggested, action=action)


@pytest.mark.parametrize(("separator", "ending", "mark"), [(",", "\n", False), (";", "\r\n", True)])
def test_a_csv_table_comes_back_with_all_that_was_in_it(
    tmp_path: Path, separator: str, ending: str, mark: bool
) -> None:
    path = written(tmp_path / "mine.csv", separator, ending, mark)
    selc("train", path, *QUICK, "--out", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    found = findings_of(run, [0, 4])
    drop = Decisions(Path("d"), "", 20, {"P 7": Verdict("P 7", "yes", "drop", None)})
    cleaned = clean(run, found, drop)
    write_corrected(corrected_table(cleaned, found, run, run.config.data), tmp_path / "back.csv")
    before, after = path.read_bytes(), (tmp_path / "back.csv").read_bytes()
    lines = before.decode("utf-8-sig").split(ending)
    back = after.decode("utf-8-sig").split(ending)
    assert after.startswith(b"\xef\xbb\xbf") == mark
    assert back[0] == separator.join([lines[0], "given_label", "label_source", "label_quality"])
    kept = [line for row, line in enumerate(lines[1:-1]) if row != 7]
    assert len(back) == len(kept) + 2
    for row, (old, new) in enumerate(zip(kept, back[1:-1], strict=True)):
        cells = next(csv.reader([new], delimiter=separator))
        if row in (0, 4):
            assert cells[3] == {0: " yes", 4: "no"}[row]  # as the file writes the other class
            assert cells[4:6] == [{0: "no", 4: "yes"}[row], "relabelled"]
        else:
            assert new.startswith(old + separator)
            assert cells[5] == "given"
        assert 0 <= float(cells[6]) <= 1


def test_a_parquet_table_keeps_types_and_metadata(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    made = rows()
    original = pa.table(
        {
            "size": pa.array([row[2] for row in made], pa.float32()),
            "the kind": pa.array([len(row[3]) - 2 for row in made], pa.int16()),
            "given_label": pa.array([row[1] for row in made]),
        }
    ).replace_schema_metadata({"about": "mine"})
    pq.write_table(original, tmp_path / "mine.parquet")
    selc("train", tmp_path / "mine.parquet", *QUICK, "--out", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    found = findings_of(run, [3])
    back = tmp_path / "back.parquet"
    write_corrected(corrected_table(clean(run, found, None), found, run, run.config.data), back)
    read = pq.read_table(back)
    assert read.column_names == [*original.column_names, "given_label_2", "label_source", "label_quality"]
    assert read.schema.field("the kind").type == pa.int16()
    assert read.schema.metadata[b"about"] == b"mine"
    changed = [a != b for a, b in zip(read["the kind"].to_pylist(), original["the kind"].to_pylist(), strict=True)]
    assert [row for row, other in enumerate(changed) if other] == [3]
    for name in ("size", "given_label"):
        assert read[name].equals(original[name])


def test_images_that_ids_name_get_their_own_label_back(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    images = [encoded(picture(("red", "blue")[k % 2], k)) for k in range(12)]
    ids = [str((5 * k) % 12) for k in range(12)]  # numbers, but not those of the rows
    pq.write_table(pa.table({"id": ids, "image": images, "the kind": ["r", "b"] * 6}), tmp_path / "mine.parquet")
    selc("train", tmp_path / "mine.parquet", *QUICK, "--net", "mlp", "--out", tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    assert run.ids == ids
    found = findings_of(run, [3])
    write_corrected(corrected_table(clean(run, found, None), found, run, run.config.data), tmp_path / "back.parquet")
    assert pq.read_table(tmp_path / "back.parquet")["the kind"].to_pylist() == [*"rbrr", *"rb" * 4]


def test_apply_puts_the_table_beside_the_labels_under_its_own_name(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.csv", ",", "\n", False)
    selc("train", path, *QUICK, "--out", tmp_path / "run")
    said = selc("apply", tmp_path / "run", "--out", tmp_path / "out")
    assert f"your table        {tmp_path / 'out' / 'mine.csv'}: 0 labels corrected" in said
    assert {p.name for p in (tmp_path / "out").iterdir()} >= {"mine.csv", "cleaned.csv"}
    selc("train", path, *QUICK, "--labels", tmp_path / "out", "--out", tmp_path / "again")


def test_all_problems_of_columns_are_told_at_once_and_the_hint_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "visit date", "it's who", "label"])
        writer.writerows([[k * 1.5, f"2024-03-{k + 1:02d}", f"name {k}", "ab"[k % 2]] for k in range(25)])
    with pytest.raises(InputError) as caught:
        table(path=str(path))
    text = caught.value.for_command
    assert "2 columns of" in text
    assert "got dates" in text
    assert "25 different texts" in text
    arguments = shlex.split(text.rpartition("To leave all of them out: ")[2])
    out = tmp_path / "run"
    selc("train", path, "--epochs", 1, "--method", "ce", *arguments, "--out", out)
    assert RunFolder.open(out).config.data.options["drop"] == ("visit date", "it's who")


def test_a_missing_label_column_is_told_with_all_that_is_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["size", "Patient No", "visit", "the kind"])
        writer.writerows([[k * 1.5, f"name {k}", f"2024-03-0{1 + k % 9}", "ab"[k % 2]] for k in range(60)])
    with pytest.raises(InputError) as caught:
        table(path=str(path))
    assert "--label-column 'the kind'" in caught.value.for_command
    assert "--id-column 'Patient No'" in caught.value.for_command
    assert "--label-column visit" not in caught.value.for_command
    assert "column 'visit' must hold numbers or categories; got dates" in caught.value.for_command
