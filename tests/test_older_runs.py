"""Run folders of 0.1.0: what is finished is read by all commands, what is not must be started anew.

`runs_of_0_1` was made by the code of then (commit 70d9a0b): 60 rows of two classes, a sixth of the labels wrong.
"""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from selc._io.files import read_json, write_json
from selc.analysis.findings import KEEP
from selc.errors import RunFolderError
from selc.report.reading import Snapshot
from selc.report.reliability import reliability
from selc.report.sentences import what_happened
from selc.runs import Config, RunFolder, execute, resume
from selc.runs.older import version_of
from tests.test_cli import call, refused

MADE_THEN = Path(__file__).parent / "runs_of_0_1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that holds the table and the run, which the commands are called in."""
    shutil.copytree(MADE_THEN, tmp_path / "then")
    monkeypatch.chdir(tmp_path / "then")
    return tmp_path / "then"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_it_found_is_read_as_it_was_written(place: Path) -> None:
    run = RunFolder.open("run")
    written = rows(place / "run" / "label_issues.csv")
    columns = run.findings().columns(run.ids, run.classes)
    for row, *values in zip(written, *columns.values(), strict=True):
        shown = [str(value) for value in values]
        assert [row[name] for name in columns if "quality" not in name and "confidence" not in name] == [
            shown[k] for k, name in enumerate(columns) if "quality" not in name and "confidence" not in name
        ]
        assert float(row["label_quality"]) == float(values[2])
    corrected = [run.classes[label] for label in run.corrected().tolist()]
    assert corrected == [row["corrected_label"] for row in rows(place / "run" / "corrected_labels.csv")]
    assert torch.equal(run.analysis().corrected, run.corrected())


def test_what_was_recorded_of_an_epoch_has_the_names_of_today(place: Path) -> None:
    written = read_json(place / "run" / "stage-1" / "manifest.json")["history"]
    entries = [entry for entry in RunFolder.open("run").history() if entry["stage"] == 1]
    assert [entry["would_relabel"] for entry in entries] == [entry["changed"] for entry in written]
    assert not any("changed" in entry for entry in entries)


def test_it_is_reported_without_an_estimate_that_was_replaced(place: Path) -> None:
    run = Snapshot(place / "run")
    assert run.of_older
    assert run.noise is None
    assert run.decision() is None
    assert run.why is None  # three labels were changed
    said = " ".join([*what_happened(run), *reliability(run)])
    assert "3 labels (5.0%) were replaced" in said
    assert "made by selc 0.1.0, which judged labels by samples that it was trained on" in said
    assert "held-out labels" not in said


def test_it_is_reviewed_applied_and_predicts(place: Path, undrawn: None) -> None:
    assert call("report", "run", "--samples", "3").exit_code == 0
    assert call("review", "run").exit_code == 0
    assert call("apply", "run", "--out", "cleaned.csv").exit_code == 0
    changed = {row["sample_id"] for row in rows(place / "cleaned.csv") if row["source"] == "relabelled"}
    assert changed == {r["sample_id"] for r in rows(place / "run" / "label_issues.csv") if r["action"] == "relabel"}
    assert call("predict", "run", "t.csv", "--out", "p.csv").exit_code == 0
    predicted = [row["predicted_label"] for row in rows(place / "p.csv")]
    assert predicted == [row["predicted_label"] for row in rows(place / "run" / "label_issues.csv")]


def test_what_is_finished_is_left_alone_and_what_is_not_must_be_started_anew(place: Path) -> None:
    assert resume("run").finished
    (place / "run" / "summary.json").unlink()  # it is written last: the run of then was killed before
    assert "an unfinished run must have been begun by selc 0.2; got run, begun by selc 0.1.0. Start it anew" in refused(
        "resume", "run"
    )


def made_today(place: Path) -> RunFolder:
    settings = {"data": {"name": "moons"}, "method": {"name": "ce"}, "train": {"epochs": 2}}
    return execute(Config.resolve(settings), place / "run")


def test_labels_under_their_old_name_are_read(tmp_path: Path) -> None:
    run = made_today(tmp_path)
    given, ids = run.given, run.ids
    (run.path / "given_labels.npz").rename(run.path / "noise.npz")
    again = RunFolder.open(run.path)
    assert torch.equal(again.given, given)
    assert again.ids == ids
    (run.path / "noise.npz").write_bytes(b"broken")
    with pytest.raises(RunFolderError, match=r"noise\.npz must hold the labels"):
        _ = RunFolder.open(run.path).given


def test_an_analysis_is_read_as_it_was_concluded(tmp_path: Path) -> None:
    run = made_today(tmp_path)
    analysis, summary = run.analysis(), run.summary
    assert analysis.as_dict() == {name: summary[name] for name in analysis.as_dict()}
    assert int((analysis.findings.action == KEEP).sum()) == summary["actions"]["keep"]
    assert np.array_equal(analysis.issues()["given_label"], run.given.numpy())


def test_a_run_of_no_known_version_may_go_on(tmp_path: Path) -> None:
    run = made_today(tmp_path)
    assert version_of(run.path)
    known = read_json(run.path / "environment.json")
    write_json(run.path / "environment.json", {name: value for name, value in known.items() if name != "selc"})
    run.check_resumable()
