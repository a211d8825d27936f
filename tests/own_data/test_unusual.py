"""Notes on samples that are nearly the same or like no other, from a table to the report."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import selc
from selc._io.files import read_json
from selc.cli import app
from selc.data import DATASETS
from selc.errors import in_python
from selc.estimator import SELCClassifier
from selc.runs.unusual import unusual
from tests.own_data.reviews import reviews
from tests.test_text_runs import Quiet


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


def test_where_equal_rows_are_usual_only_different_labels_are_told() -> None:
    """Steps between levels, in an array that does not say so; copies of a few rows are told as copies."""
    steps = np.arange(60)[:, None] % 3

    def told(x: Any, labels: Any) -> list[str]:
        quiet = Quiet()
        selc.fit(x, labels, method="ce", epochs=1, batch_size=20, callbacks=[quiet])
        return quiet.notes

    assert told(steps, steps[:, 0]) == []
    (note,) = told(steps, np.where(np.arange(60) == 57, 1, steps[:, 0]))
    assert note == "1 pair of samples is the same in every column, with different labels: 0 (0) and 57 (1)"
    twice = np.concatenate([np.arange(30), np.arange(30)])[:, None] ** 2
    (note,) = told(twice, twice[:, 0] % 3)
    assert note.startswith("30 pairs of samples are nearly the same, more than chance would make them: first 0 (0) and")


def test_data_that_are_no_features_of_the_users_own_are_left_alone() -> None:
    assert unusual(DATASETS["moons"]()) == ([], {})


class Data(NamedTuple):
    """The same data as a file and in memory."""

    file: Path
    options: tuple[str, ...]  # of the command
    x: Any
    labels: Any
    words: tuple[str, ...]  # that are in the notes


def texts(place: Path) -> Data:
    """Sixty reviews, of which one is empty and two are the same with different labels."""
    written, labels = reviews(60)
    written[5], written[8] = written[2], ""
    pd.DataFrame({"text": written, "label": labels}).to_csv(place / "texts.csv", index=False)
    words = ("column 'text' is empty in 1 row", "2 (bad) and 5 (good)")
    return Data(place / "texts.csv", ("--weights", "tf-idf"), written, labels, words)


def frame(place: Path) -> Data:
    """Numbers, a category, a gap; a column with the label in other words, one of row numbers; a class of one."""
    found = pd.read_csv(table(place / "plain.csv"))
    found.loc[299, "label"] = "Ant"
    found["code"] = found["label"].map({"bee": 0.0, "ant": 1.0, "Ant": 2.0})
    found["row"] = np.arange(len(found)) + 7.0
    found["colour"] = [("red", "blue", "green")[k % 3] for k in range(len(found))]
    found.loc[11, "q"] = np.nan
    found.to_csv(place / "frame.csv", index=False)
    words: tuple[str, ...] = ("'colour' is text", "'q' is empty in 1 cell:", "'code' has one and the same label")
    words += (
        "'row' has whole numbers",
        "1 class has one sample only ('Ant')",
        "'Ant' and 'ant' differ only in upper and lower case",
    )
    return Data(place / "frame.csv", (), found.drop(columns="label"), found["label"], words)


def numbers(place: Path) -> Data:
    """A frame of plain numbers, and a column of these that is the label in other words."""
    found = pd.read_csv(table(place / "plain.csv"))
    found["code"] = (found["label"] == "ant").astype(float)
    found.to_csv(place / "numbers.csv", index=False)
    words = ("'code' has one and the same label", "20 (bee)")
    return Data(place / "numbers.csv", (), found.drop(columns="label"), found["label"], words)


def array(place: Path) -> Data:
    """The table as an array, whose columns are of different scales: what is near does not hang on these."""
    found = pd.read_csv(table(place / "plain.csv"))
    x = (found.drop(columns="label").to_numpy() * [1, 10, 100, 0.01, 1]).astype(np.float32)
    labels = (found["label"] == "ant").to_numpy().astype(int)
    np.savez(place / "array.npz", x=x, y=labels)
    return Data(place / "array.npz", (), x, labels, ("4 (0) and 7 (1), 5 (1) and 9 (1)", "20 (0)"))


@pytest.mark.parametrize("form", [texts, frame, numbers, array])
def test_in_python_the_same_is_said_as_by_the_command(form: Any, tmp_path: Path) -> None:
    data: Data = form(tmp_path)
    run = tmp_path / "run"
    quick = ("--method", "ce", "--epochs", "1", "--out", str(run))
    result = CliRunner().invoke(app, ["train", str(data.file), *data.options, *quick])
    assert result.exit_code == 0, result.output
    said = read_json(run / "data.json")
    assert all(any(word in note for note in said["notes"]) for word in data.words), said["notes"]

    def told(warned: list[warnings.WarningMessage]) -> list[str]:
        return [str(warning.message) for warning in warned]

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        outcome = selc.fit(
            data.x, data.labels, method="ce", epochs=1, batch_size=20, text_model="tf-idf", out=tmp_path / "fit"
        )
    assert read_json(tmp_path / "fit" / "data.json") == said
    assert outcome.remarks == said
    assert told(warned) == [in_python(note) for note in said["notes"]]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        classifier = SELCClassifier(method="ce", max_epochs=1, batch_size=20, random_state=0).fit(data.x, data.labels)
    assert classifier.remarks_ == said
    assert told(warned) == []  # it may be one fit of many


@pytest.mark.parametrize("module", ["mlp", "pipeline"])
def test_what_is_noticed_does_not_hang_on_what_is_trained(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network that gets the columns as they are, and a pipeline of scikit-learn; told aloud if that is wanted."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = array(tmp_path)
    chosen = make_pipeline(StandardScaler(), LogisticRegression()) if module == "pipeline" else "mlp"
    options: dict[str, Any] = {} if module == "pipeline" else {"method": "ce", "max_epochs": 1, "batch_size": 20}
    asked = SELCClassifier(chosen, **options, standardize=False, random_state=0, verbose=1)
    found = asked.fit(data.x, data.labels, sample_ids=np.array([f"row {k}" for k in range(300)]))
    (near, far) = found.remarks_["notes"]
    assert near.endswith("row 4 (0) and row 7 (1), row 5 (1) and row 9 (1)")
    assert far.endswith("row 20 (0)")
    assert f"note: {near}" in capsys.readouterr().out


def test_labels_that_do_not_fit_are_refused_before_anything_is_noticed() -> None:
    with pytest.raises(selc.InputError, match="label"):
        selc.fit(np.zeros((30, 2)), np.arange(29) % 2, method="ce", epochs=1)
    with pytest.raises(selc.InputError, match="label"):
        selc.fit(np.zeros((30, 2)), np.arange(30) % 2 - 1, method="ce", epochs=1)
