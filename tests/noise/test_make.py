"""`selc noise make`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import selc
from selc.cli.noise import app
from selc.data import DATASETS
from selc.noise import draw_noise
from selc.noise.base import label_digest
from selc.noise.label_file import read_labels
from tests.noise.bounds import assert_binomial

QUICK = ["--epochs", "3", "--lr", "0.01", "--set", "net.hidden=[16]"]
DIGITS = DATASETS["digits"]().labels


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["make", *arguments])


def made(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize("ending", ["npz", "npy", "csv", "json"])
def test_make_writes_the_labels_that_a_run_would_draw_and_all_about_them(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"labels.{ending}"
    shown = made("digits", "--noise", "symmetric", "--rate", "0.3", "--seed", "5", "--out", str(out))
    drawn = draw_noise("symmetric", DIGITS, 10, 5, {"rate": 0.3})
    labels, about = read_labels(out)
    assert torch.equal(labels, drawn.labels)
    assert {k: about[k] for k in ("data", "noise", "seed", "selc", "torch", "samples", "classes")} == {
        "data": "digits",
        "noise": "symmetric",
        "seed": 5,
        "selc": selc.__version__,
        "torch": torch.__version__,
        "samples": 1257,
        "classes": 10,
    }
    assert about["options"] == {"rate": 0.3, "include_true": True, "exact": True}
    assert about["sha256"] == label_digest(labels)
    assert about["rate"] == float((labels != DIGITS).double().mean())
    assert f"{about['rate']:.2%} of 1,257 labels" in shown
    assert str(out) in shown


def test_options_go_by_set_with_or_without_a_section(tmp_path: Path) -> None:
    made("digits", "--noise", "symmetric", "--set", "include_true=false", "--out", str(tmp_path / "a.npy"))
    made("digits", "--noise", "symmetric", "--set", "noise.include_true=false", "--out", str(tmp_path / "b.npy"))
    a, b = (np.load(tmp_path / f"{name}.npy", allow_pickle=False) for name in "ab")
    assert (a == b).all()
    assert (a != DIGITS.numpy()).sum() == int(0.4 * 1257)


def test_a_file_that_was_made_can_be_read_and_made_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first.npz", tmp_path / "second.json"
    made("digits", "--noise", "pair", "--out", str(first))
    made("digits", "--noise", "file", "--set", f"path={first}", "--out", str(second))
    assert torch.equal(read_labels(first)[0], read_labels(second)[0])


@pytest.mark.parametrize("name", ["seal", "pmd"])
def test_a_teacher_is_trained_as_asked_and_noted(tmp_path: Path, name: str) -> None:
    out = tmp_path / "labels.json"
    made("digits", "--noise", name, "--rate", "0.5", "--out", str(out), *QUICK)
    about = json.loads(out.read_text())
    assert about["rate"] == pytest.approx(0.5, abs=1 / 1257)
    assert about["teacher"]["net"] == {"name": "mlp", "hidden": [16]}
    assert about["teacher"]["train"]["epochs"] == 3
    assert about["teacher"]["train"]["lr"] == 0.01
    assert ("factor" in about["facts"]) == (name == "pmd")


def test_part_dependent_noise_needs_no_teacher(tmp_path: Path) -> None:
    out = tmp_path / "labels.json"
    made("digits", "--noise", "part", "--rate", "0.4", "--out", str(out))
    about = json.loads(out.read_text())
    assert "teacher" not in about
    assert_binomial(about["rate"] * 1257, 1257, 0.4)


def test_a_file_that_is_there_is_kept_unless_overwriting_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    out.write_text("precious")
    assert "--out must be a new file" in refused("digits", "--noise", "pair", "--out", str(out))
    assert out.read_text() == "precious"
    made("digits", "--noise", "pair", "--out", str(out), "--overwrite")
    assert torch.equal(read_labels(out)[0], draw_noise("pair", DIGITS, 10, 0, {}).labels)


def test_without_out_the_name_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made("digits", "--noise", "symmetric", "--seed", "3")
    assert [p.name for p in tmp_path.iterdir()] == ["digits-symmetric-3.npz"]


def documented() -> list[list[str]]:
    """The commands of docs/noise.md for data that need no download."""
    text = (Path(__file__).parents[2] / "docs" / "noise.md").read_text().replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("selc noise make ")]
    return [words[3:] for words in lines if words[3] in ("digits", "moons")]


def test_the_commands_of_the_page_on_noise_do_what_they_say(tmp_path: Path) -> None:
    commands = documented()
    assert {words[2] for words in commands} >= {"symmetric", "pair", "map", "matrix", "seal", "pmd", "part", "hybrid"}
    for number, words in enumerate(commands):
        out = tmp_path / f"{number}.npz"
        made(*words, "--out", str(out), "--set", "net.hidden=[32]")
        assert len(read_labels(out)[0]) in (1257, 2000)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digts", "--noise", "pair"], "Did you mean 'digits'"),
        (["digits", "--noise", "pairs"], "Did you mean 'pair'"),
        (["digits", "--noise", "pair", "--rate", "2"], "rate must be in [0, 1]; got 2.0"),
        (["digits", "--noise", "none", "--rate", "0.2"], "an option of noise 'none'"),
        (["digits", "--noise", "seal", "--rate", "2"], "rate must be in [0, 1]; got 2.0"),
        (["digits", "--noise", "pair", "--out", "labels.txt"], "must end in .npz, .npy, .csv, .json"),
        (["digits", "--noise", "asymmetric-cifar100"], "needs the 100 classes of CIFAR-100; got 10"),
        (["digits", "--noise", "pair", "--set", "rate"], "--set must be"),
        (["digits", "--noise", "file"], "needs the path of a file of labels"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_no_file(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(*arguments)
    assert sentence in error
    assert len([line for line in error.splitlines() if line.startswith("error: ")]) == 1
    assert not list(tmp_path.iterdir())
