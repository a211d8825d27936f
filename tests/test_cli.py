"""The commands as a newcomer would type them, and the sentences that wrong ones get."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from selc.cli import app
from selc.data import DATASETS
from selc.files import write_json
from selc.methods import METHODS
from selc.nets import NETS
from selc.noise import NOISES
from selc.run import RunFolder
from selc.run.unchanged import why_unchanged
from selc.screen import show_summary
from tests.own_data.miniature import folder as images

QUICK = ["--epochs", "3", "--set", "net.hidden=[16]"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    """The sentence of a call that must end with exit code 2 and without a traceback."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    return errors[0]


def test_train_writes_a_whole_run_and_says_where(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = call("train", "moons", "--noise", "symmetric", "--rate", "0.4", "--out", str(out), *QUICK)
    assert result.exit_code == 0, result.output
    assert "corrected_labels.csv" in result.stdout
    assert "last epoch (3)" in result.stdout
    run = RunFolder.open(out)
    assert run.finished
    assert run.config.method.name == "selc"
    assert run.config.train.epochs == 3
    with open(out / "corrected_labels.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2000
    assert list(rows[0]) == ["sample_id", "given_label", "corrected_label", "believed_label", "confidence"]
    assert {row["given_label"] for row in rows} == {"upper", "lower"}
    given = [run.classes[k] for k in run.given.tolist()]
    assert [row["given_label"] for row in rows] == given


def test_every_option_of_the_readme_reaches_the_configuration(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = "--method gce --net mlp --noise symmetric --rate 0.4 --epochs 2 --lr 0.03 --batch-size 50 --seed 7"
    more = "--optimizer adamw --schedule cosine --pick best-val --val-fraction 0.1 --device cpu --set method.q=0.5"
    result = call("train", "moons", "--out", str(out), *options.split(), *more.split())
    assert result.exit_code == 0, result.output
    config = RunFolder.open(out).config
    plan = config.train
    assert (config.method.name, config.method.options) == ("gce", {"q": 0.5})
    assert config.noise.options == {"rate": 0.4, "include_true": True, "exact": True}
    assert (plan.epochs, plan.lr, plan.batch_size, plan.seed) == (2, 0.03, 50, 7)
    assert (plan.optimizer, plan.schedule, plan.pick, plan.val_fraction) == ("AdamW", "cosine", "best-val", 0.1)
    assert "the best on the validation set" in result.stdout


def test_without_out_a_free_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert call("train", "moons", "--method", "ce", *QUICK).exit_code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["moons-ce-1", "moons-ce-2"]


def test_a_configuration_file_can_be_run_again(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert call("train", "moons", "--noise", "pair", "--out", str(first), *QUICK).exit_code == 0
    result = call("train", "moons", "--config", str(first / "config.toml"), "--out", str(second))
    assert result.exit_code == 0, result.output
    assert (first / "config.toml").read_bytes() == (second / "config.toml").read_bytes()
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("kind", "registry"), [("methods", METHODS), ("nets", NETS), ("noise", NOISES), ("datasets", DATASETS)]
)
def test_list_shows_every_name(kind: str, registry: object) -> None:
    assert isinstance(registry, type(METHODS))
    shown = call("list", kind).stdout
    for name in registry:
        assert name in shown


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("train digts", ["data must be one of", "digits", "got 'digts'"]),
        ("train moons --method slec", ["method must be one of", "Did you mean 'selc'?"]),
        ("train moons --net mpl", ["net must be one of", "Did you mean 'mlp'?"]),
        ("train moons --noise symetric", ["noise must be one of", "Did you mean 'symmetric'?"]),
        ("train moons --noise symmetric --rate 1.5", ["rate must be in [0, 1]", "got 1.5"]),
        ("train moons --rate 0.4", ["--rate needs a noise", "--noise symmetric"]),
        ("train moons --epochs 0", ["epochs must be greater than or equal to 1", "got 0"]),
        ("train moons --lr -1", ["lr must be greater than 0", "got -1"]),
        ("train moons --batch-size 0", ["batch_size must be greater than or equal to 1"]),
        ("train moons --optimizer adamm", ["optimizer must be one of", "Did you mean 'adam'?"]),
        ("train moons --optimizer lbfgs", ["optimizer must be one of"]),
        ("train moons --schedule cos", ["schedule must be 'constant', 'step' or 'cosine'"]),
        ("train moons --pick best-val", ["needs a validation set", "val_fraction"]),
        ("train moons --device cuda:99", ["device must be", "cuda:99"]),
        ("train moons --device tpu9", ["device must be", "tpu9"]),
        ("train moons --set method.alpha=1.5", ["alpha must be in [0, 1)", "got 1.5", "0.9"]),
        ("train moons --set method.alpha=high", ["alpha of method 'selc' is not valid", "'high'"]),
        ("train moons --set method.alhpa=0.5", ["an option of method 'selc'", "Did you mean 'alpha'?"]),
        ("train moons --set train.epoch=5", ["a setting of [train]", "Did you mean 'epochs'?"]),
        ("train moons --set alpha=5", ["--set must be SECTION.NAME=VALUE"]),
        ("train moons --set metod.alpha=5", ["the section of --set", "Did you mean 'method'?"]),
        ("train moons --set train.optimizer_options={nesterovv=true}", ["optimizer_options must fit torch.optim.SGD"]),
        ("train moons --net cnn", ["net 'cnn' needs images", "--net mlp"]),
        ("train moons --config /nowhere.toml", ["--config must be a readable TOML file"]),
        ("resume /nowhere", ["/nowhere must be the folder of a run"]),
    ],
)
def test_a_wrong_call_gets_its_sentence_and_makes_no_folder(
    arguments: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = refused(*arguments.split())
    for part in parts:
        assert part in sentence
    assert not (tmp_path / "runs").exists()


def test_a_run_folder_that_exists_is_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert call("train", "moons", "--method", "ce", "--out", str(out), *QUICK).exit_code == 0
    before = (out / "model.safetensors").read_bytes()
    sentence = refused("train", "moons", "--out", str(out))
    assert f"selc resume {out}" in sentence
    assert (out / "model.safetensors").read_bytes() == before


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path: Path) -> None:
    result = call("train", "moons", "--dry-run", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    assert "found 2,000 inputs of 2 with labels of 2 classes" in result.stderr
    assert "selc with mlp, 40 epochs" in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_dry_run_tells_what_was_noticed_about_the_data(tmp_path: Path) -> None:
    place = tmp_path / "t.csv"
    place.write_text("u,v,label\n" + "".join(f"{k % 7},{'' if k == 3 else k % 5},{'ab'[k % 2]}\n" for k in range(60)))
    notes = [line for line in call("train", str(place), "--dry-run").stderr.splitlines() if line.startswith("note: ")]
    assert any("'v'" in note for note in notes), notes
    out = tmp_path / "run"
    result = call("train", str(place), "--epochs", "1", "--method", "ce", "--out", str(out))
    assert [line for line in result.stderr.splitlines() if line in notes] == notes  # the same ones, once


def test_data_are_called_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("u,label\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(40)))
    shown = call("train", "t.csv", "--dry-run").stderr
    assert "t.csv, noise none; selc with" in shown
    assert str(tmp_path) not in shown


def test_a_configuration_file_that_names_data_needs_no_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("u,kind\n" + "".join(f"{k % 7},{'ab'[k % 2]}\n" for k in range(40)))
    train = '[train]\nepochs = 1\n[method]\nname = "ce"\n'
    Path("own.toml").write_text('[data]\nname = "table"\npath = "t.csv"\nlabel_column = "kind"\n' + train)
    Path("named.toml").write_text('data = "moons"\n' + train)
    Path("none.toml").write_text(train)
    for name, folder in (("own", "t-ce-1"), ("named", "moons-ce-1")):
        result = call("train", "--config", f"{name}.toml")
        assert result.exit_code == 0, result.output
        assert RunFolder.open(tmp_path / "runs" / folder).finished
    options = RunFolder.open(tmp_path / "runs" / "t-ce-1").config.data.options
    assert options["path"] == str(tmp_path / "t.csv")  # found again from any other folder
    assert options["label_column"] == "kind"
    assert "--label-column is for data that have such a thing" in refused(
        "train", "--config", "named.toml", "--label-column", "kind"
    )
    for arguments in (["--config", "none.toml"], []):
        assert "DATA must be given" in refused("train", *arguments)


def test_the_end_says_why_no_label_was_changed_and_which_changes_are_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    noise = ["--noise", "symmetric", "--rate", "0.4", "--epochs", "12", "--lr", "0.02", "--set", "net.hidden=[32]"]
    result = call("train", "digits", *noise, "--out", str(place))
    assert result.exit_code == 0, result.output
    run = RunFolder.open(place)
    changed, relabel = int((run.corrected() != run.given).sum()), run.summary["actions"]["relabel"]
    assert 0 < relabel < changed
    assert f"has all {changed:,} changes; selc apply takes over only the {relabel:,} to relabel" in result.stdout
    assert "because" not in result.stdout
    assert "labels changed" not in result.stderr
    assert "believed otherwise" in result.stderr
    write_json(place / "summary.json", {**run.summary, "changed": 0.0})
    show_summary(run)
    assert "labels changed    0.00%, because the run was not sure enough of any change" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ({"changed": 0.1}, ""),
        ({"changed": 0.0, "unlearnt": "..."}, "not learnt enough"),
        ({"changed": 0.0, "turning_point": {"start": None}}, "no sign of wrong labels"),
        ({"changed": 0.0, "turning_point": {"start": 3.0}}, "not sure enough"),
        ({"changed": 0.0}, "the given ones"),
    ],
)
def test_each_way_to_change_nothing_has_its_reason(summary: dict[str, object], why: str) -> None:
    assert why in why_unchanged(summary)
    assert bool(why_unchanged(summary)) == bool(why)


def test_a_run_folder_does_not_lie_inside_the_images(tmp_path: Path) -> None:
    place = images(tmp_path / "photos", each=6)
    for more in ([], ["--dry-run"]):
        sentence = refused("train", str(place), "--out", str(place / "run"), *more)
        assert "--out must not lie inside the data" in sentence
    assert not (place / "run").exists()


def test_resume_of_a_finished_run_says_so(tmp_path: Path) -> None:
    out = tmp_path / "run"
    call("train", "moons", "--method", "ce", "--out", str(out), *QUICK)
    result = call("resume", str(out))
    assert result.exit_code == 0
    assert "finished already" in result.stdout


def test_the_module_runs_as_the_command_does() -> None:
    result = subprocess.run([sys.executable, "-m", "selc", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("selc ")
