"""Bad input on the command line: one sentence, exit code 2, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from selc.runs import Config, RunFolder, execute
from selc.runs.decisions import fingerprint
from tests.own_data.miniature import folder, write_csv
from tests.test_cli import call, refused
from tests.test_review import Quiet
from tests.toy import BrokenOffError, StopAfter

HEAD = ["id", "u", "v", "label"]
QUICK = ["--epochs", "2", "--set", "net.hidden=[8]"]


def rows(labels: Callable[[int], str] = lambda k: "ab"[k % 2], ids: Callable[[int], str] = str) -> list[list[str]]:
    x = np.random.default_rng(0).normal(size=(40, 2)).round(4)
    return [[ids(k), str(x[k, 0]), str(x[k, 1]), labels(k)] for k in range(40)]


def in_order(path: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("head", "body", "flags", "words"),
    [
        (["id", "u", "v", "kind"], rows(), [], "the column of the labels must be called"),
        (HEAD, rows(), ["--label-column", "species"], "--label-column must be a column of"),
        (HEAD, rows(), ["--label-column", "the Label"], "Did you mean 'label'?"),
        (HEAD, rows(lambda k: "a"), [], "must name at least two classes; got only 'a'"),
        (HEAD, rows(lambda k: f"name {k}"), [], "labels must be classes, which repeat; got 40 different ones in 40"),
        (HEAD, rows(ids=lambda k: str(k // 2)), ["--id-column", "id"], "--id-column must tell samples apart"),
    ],
    ids=["no labels", "no such column", "nearly a column", "one class", "unique labels", "duplicate ids"],
)
def test_a_table_that_cannot_be_trained_on(
    head: list[str], body: list[list[str]], flags: list[str], words: str, tmp_path: Path
) -> None:
    data = write_csv(tmp_path / "data.csv", head, body)
    before = in_order(tmp_path)
    assert words in refused("train", str(data), *flags, "--out", str(tmp_path / "run"), *QUICK)
    assert in_order(tmp_path) == before


def test_duplicate_ids_in_arrays_are_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 2, ids=np.arange(40) // 2)
    sentence = refused("train", str(tmp_path / "data.npz"), "--out", str(tmp_path / "run"), *QUICK)
    assert "ids must tell samples apart" in sentence
    assert "'0'" in sentence


def test_a_class_with_one_sample_is_noted_and_the_training_goes_on(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data.csv", HEAD, rows(lambda k: "ab"[k % 2] if k else "rare"))
    result = call("train", str(data), "--out", str(tmp_path / "run"), *QUICK)
    assert result.exit_code == 0, result.output
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ") and "'rare'" in line]
    assert len(notes) == 1
    assert RunFolder.open(tmp_path / "run").finished


@pytest.fixture
def unfinished(tmp_path: Path) -> RunFolder:
    settings = {"data": "moons", "method": {"name": "ce"}, "net": {"name": "mlp", "hidden": [8]}}
    with pytest.raises(BrokenOffError):
        execute(Config.resolve({**settings, "train": {"epochs": 3}}), tmp_path / "run", [StopAfter(1)])
    return RunFolder.open(tmp_path / "run")


@pytest.mark.parametrize(
    "command",
    ["review RUN", "apply RUN --out OUT", "predict RUN DATA --out OUT", "train moons --labels RUN --out OUT"],
)
def test_a_run_that_was_not_finished_says_how_to_go_on(command: str, unfinished: RunFolder, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", ["x0", "x1"], [["0", "0"]])
    before = in_order(tmp_path)
    places = {"RUN": str(unfinished.path), "OUT": str(tmp_path / "out.csv"), "DATA": str(data)}
    sentence = refused(*(places.get(word, word) for word in command.split()))
    assert f"selc resume {unfinished.path}" in sentence
    assert in_order(tmp_path) == before


def test_decisions_of_another_run_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    settings = {"method": {"name": "ce"}, "net": {"name": "mlp", "hidden": [8]}, "train": {"epochs": 1}}
    runs = []
    for seed in (0, 1):
        noise = {"noise": {"name": "symmetric", "rate": 0.4}, "train": {"epochs": 1, "seed": seed}}
        config = Config.resolve({"data": "moons", **settings, **noise})
        runs.append(execute(config, tmp_path / f"run-{seed}", [Quiet()]))
    first, second = runs
    given = first.classes[int(first.given[0])]
    verdict = {"sample_id": "0", "given": given, "suggested": given, "verdict": "keep", "label": given}
    content = {"format": 1, "run": fingerprint(first), "samples": len(first.given), "decisions": [verdict]}
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(content))
    before = in_order(tmp_path)
    out = ["--out", str(tmp_path / "out")]
    assert "other labels" in refused("apply", str(second.path), "--decisions", str(path), *out)
    same = ["--noise", "symmetric", "--rate", "0.4", "--seed", "1"]
    assert "the very same labels and data" in refused("train", "moons", *same, "--verified", str(path), *out)
    assert in_order(tmp_path) == before


@pytest.mark.usefixtures("undrawn")
def test_a_report_of_a_run_whose_images_have_moved_is_written_and_says_so(tmp_path: Path) -> None:
    data = folder(tmp_path / "photos", each=6)
    assert call("train", str(data), "--net", "mlp", "--out", str(tmp_path / "run"), "--epochs", "1").exit_code == 0
    shutil.move(data, tmp_path / "elsewhere")
    before = in_order(tmp_path / "elsewhere")
    result = call("report", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert "--data" in notes[0]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    found = call("report", str(tmp_path / "run"), "--data", str(tmp_path / "elsewhere"))
    assert found.exit_code == 0
    assert "note" not in found.stderr
    sentence = refused("apply", str(tmp_path / "run"), "--out", str(tmp_path / "cleaned"))
    assert "must still hold the data of the run" in sentence
    assert not (tmp_path / "cleaned").exists()
    assert in_order(tmp_path / "elsewhere") == before
