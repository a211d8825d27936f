"""The commands as a newcomer would type them, and the sentences that wrong ones get."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from selc._io.files import write_json
from selc._io.terminal import folded
from selc.analysis import Why
from selc.analysis.unchanged import why_unchanged
from selc.analysis.words import WHY, decision_in_short, percent
from selc.callbacks import EpochRecord
from selc.cli import app
from selc.cli.ending import show_run
from selc.data import DATASETS
from selc.errors import SelcError, in_python
from selc.methods import METHODS
from selc.nets import NETS
from selc.noise import NOISES
from selc.registry import Registry
from selc.review.exchange import TOOLS
from selc.runs import RunFolder
from selc.screen import Screen
from selc.training.metrics import METRICS
from selc.turning import Decision, TurningPoint
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
    assert "after the last epoch, 3" in result.stdout
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
    start = ["--set", "method.start=1"]  # to decide on it takes five more trainings
    assert call("train", "moons", "--noise", "pair", "--out", str(first), *QUICK, *start).exit_code == 0
    result = call("train", "moons", "--config", str(first / "config.toml"), "--out", str(second))
    assert result.exit_code == 0, result.output
    assert (first / "config.toml").read_bytes() == (second / "config.toml").read_bytes()
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("kind", "registry"),
    [("methods", METHODS), ("nets", NETS), ("noise", NOISES), ("datasets", DATASETS), ("metrics", METRICS)],
)
def test_list_shows_every_name(kind: str, registry: object) -> None:
    assert isinstance(registry, type(METHODS))
    shown = call("list", kind).stdout
    for name in registry:
        assert name in shown


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("train digts", ["got 'digts': no such file or folder", "Did you mean the dataset 'digits'?"]),
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
        ("train moons --metrics top1,macro_f2", ["metric must be one of", "Did you mean 'macro_f1'?"]),
        ("train moons --set train.metrics=macro_f1", ["metrics must be a valid list", "got 'macro_f1'"]),
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


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("photo", "the folder 'photos'"), ("tabel.csv", "the file 'table.csv'"), ("Photos", "the folder 'photos'")],
)
def test_a_path_that_is_not_there_is_said_so_with_what_lies_beside_it(
    typed: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "table.csv").touch()
    sentence = refused("train", typed)
    assert f"got {typed!r}: no such file or folder" in sentence
    assert f"Did you mean {meant}?" in sentence
    assert "Did you mean the dataset" not in sentence


@pytest.mark.parametrize("kind", ["methods", "nets", "noise", "datasets", "metrics", "tools"])
def test_lists_fit_into_eighty_columns_and_break_no_word(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("list", kind).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    words = {word for line in shown for word in line.split()}
    registries: dict[str, Registry[Any]] = {"methods": METHODS, "nets": NETS, "noise": NOISES}
    registries |= {"datasets": DATASETS, "metrics": METRICS, "tools": TOOLS}
    registry = registries[kind]
    for name in registry:
        assert {*registry.describe(name).split()} <= words


def test_what_can_be_listed_is_listed() -> None:
    shown = call("list")
    assert shown.exit_code == 0
    kinds = [line.split()[0] for line in shown.stdout.split("\n\n")[0].splitlines()]
    assert kinds == ["methods", "nets", "noise", "datasets", "metrics", "encoders", "tools", "trackers"]
    assert all(call("list", kind).exit_code == 0 for kind in kinds)
    assert "Did you mean 'methods'?" in refused("list", "method")


def test_what_is_no_run_is_said_to_be_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "moons-selc-1").mkdir(parents=True)
    (tmp_path / "table.csv").touch()
    assert "got no such folder. Did you mean the folder 'moons-selc-1'?" in refused("report", "runs/moons-slec-1")
    assert "got a file. Give the folder that `selc train` wrote" in refused("review", "table.csv")
    assert "got a folder without a config.toml." in refused("predict", "runs", "table.csv")
    (tmp_path / "runs" / "moons-selc-1" / "config.toml").touch()
    assert "Give one of them: runs/moons-selc-1." in refused("apply", "runs")


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_gets_whole_words_and_a_pipe_one_line(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    path = "/a/path/" + "that-is-longer-than-a-screen-" * 8
    text = f"data must be a path that exists; {'got a long answer ' * 9}{path}. Did you mean this one?"
    for terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda there=terminal: there)
        lines = folded(text, stream, sentences=True).splitlines()
        assert " ".join(" ".join(lines).split()) == text
        assert path + "." in " ".join(lines).split()
        if terminal:
            assert all(len(line) <= columns or path in line for line in lines)
            assert lines[-1].strip() == "Did you mean this one?"
            assert folded("error: DATA must be given.", stream, sentences=True) == "error: DATA must be given."
        else:
            assert len(lines) == 1


def test_one_of_a_list_is_told_with_its_options() -> None:
    shown = call("list", "methods", "gce").stdout
    assert "L = (1 - p_y^q) / q" in shown
    assert all(f"{key}={value}" in shown for key, value in METHODS.defaults("gce").items())
    assert "Did you mean 'gce'?" in refused("list", "methods", "gec")


def test_a_dry_run_refuses_what_the_run_would_refuse(tmp_path: Path, noisy: tuple[Result, Path]) -> None:
    table = tmp_path / "truth.csv"
    table.write_text("id,label\n1,2\n")
    cleaned = tmp_path / "cleaned.csv"
    assert call("apply", str(noisy[1]), "--out", str(cleaned)).exit_code == 0
    calls = [
        ["moons", "--device", "cuda:99"],
        ["moons", "--verified", str(table)],
        ["digits", "--labels", str(cleaned), "--soft"],
        ["moons", "--soft"],
        ["moons", "--out", str(noisy[1])],
        ["moons", "--net", "cnn"],
        ["moons", "--pick", "best-val"],
    ]
    for arguments in calls:
        sentences = {refused("train", *arguments, "--epochs", "1", *more) for more in ([], ["--dry-run"])}
        assert len(sentences) == 1, sentences


def test_what_is_wrong_beside_the_data_is_said_before_these_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr(sys.modules["selc.cli.train"], "_data", read)  # `selc.cli.train` is the command
    photos, spoilt = images(tmp_path / "photos"), tmp_path / "decisions.json"
    spoilt.write_text("{")
    for more, words in [
        (["--out", str(photos / "run")], "--out must not lie inside the data"),
        (["--out", str(tmp_path)], "--out must be a new or an empty folder"),
        (["--labels", "nowhere"], "nowhere must be the folder of a run"),
        (["--verified", str(spoilt)], "decisions must be a whole JSON file"),
        (["--track", "nothing"], "the tracker must be one of"),
    ]:
        sentences = {refused("train", str(photos), *more, *dry) for dry in ([], ["--dry-run"])}
        assert len(sentences) == 1
        assert words in sentences.pop()


def test_an_option_that_data_do_not_have_is_named_as_it_was_typed(tmp_path: Path) -> None:
    photos = str(images(tmp_path / "photos"))
    table = tmp_path / "t.csv"
    table.write_text("n,label\n1,a\n2,b\n")
    assert "--test must be of the form of the data" in refused("train", photos, "--test", str(table), "--dry-run")
    for data, flag, value in [
        (photos, "--weights", "minilm"),
        (photos, "--label-column", "kind"),
        ("moons", "--test", "t.csv"),
    ]:
        sentence = refused("train", data, flag, value, "--dry-run")
        assert f"error: {flag} is not supported by " in sentence
        assert f"got {value!r}. Leave it out." in sentence


def test_a_script_reads_one_object_or_the_place_alone(noisy: tuple[Result, Path], tmp_path: Path) -> None:
    place = str(noisy[1])
    result = call("resume", place, "--json")
    content, summary = json.loads(result.stdout), RunFolder.open(place).summary
    documented = (Path(__file__).parents[1] / "docs" / "scripts.md").read_text()
    assert all(f"`{key}`" in documented for key in content)
    assert content["run"] == place
    assert content["samples"] == 1257 == content["relabel"] + content["review"] + content["keep"]
    assert content["wrong_labels"].keys() == {"estimate", "low", "high"}
    assert content["labels_changed"] == summary["actions"]["relabel"]
    assert content["epoch"] == summary["epoch"] + 1
    assert content["accuracy"] == summary["accuracy"]
    assert all(Path(content[key]).is_file() for key in ("corrected_labels", "label_issues", "model"))
    quiet = call("resume", place, "--quiet")
    assert (quiet.stdout, quiet.stderr) == (f"{place}\n", "")
    assert "--data must be a path that exists" in refused("report", place, "--data", "nowhere")
    out = str(tmp_path / "quiet")
    quiet = call("train", "moons", "--method", "ce", "--out", out, "--quiet", *QUICK)
    assert (quiet.stdout, quiet.stderr) == (f"{out}\n", "")
    for command in content["next"]:
        words = shlex.split(command)
        assert words[0] == "selc"
        assert call(*words[1:], "--help").exit_code == 0


def test_python_hears_of_keywords_and_the_command_of_flags(tmp_path: Path) -> None:
    place = tmp_path / "my run"
    place.mkdir()
    (place / "mine.txt").touch()
    with pytest.raises(SelcError) as raised:
        RunFolder(place).check_new()
    assert str(raised.value).startswith("out must be a new or an empty folder")
    assert raised.value.for_command.startswith("--out must be a new")
    assert "selc resume" not in str(raised.value)  # it is no run
    (place / "config.toml").touch()
    with pytest.raises(SelcError, match=f"`selc resume {re.escape(shlex.quote(str(place)))}`"):
        RunFolder(place).check_new()
    both = SelcError("label_column (--label-column) is wrong; go on by --skip-bad (skip_bad=True)")
    assert str(both) == "label_column is wrong; go on by skip_bad=True"
    assert both.for_command == "--label-column is wrong; go on by --skip-bad"
    assert in_python("say so (--id-column 'a b'), or --skip-bad (skip_bad=True); `selc x --out y`") == (
        "say so (id_column 'a b'), or skip_bad=True; `selc x --out y`"
    )


def test_shells_complete_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "/bin/bash"))
    shown = CliRunner().invoke(app, ["--show-completion"], prog_name="selc").stdout
    assert "_SELC_COMPLETE" in shown
    completed = CliRunner().invoke(
        app, [], prog_name="selc", env={"_SELC_COMPLETE": "complete_bash", "COMP_WORDS": "selc rep", "COMP_CWORD": "1"}
    )
    assert completed.stdout.split() == ["report"]


def test_a_rewind_reads_as_a_rewind() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, width=80))
    screen.on_stage_begin(0, 20, 0, 10, "")
    screen.on_epoch_saved(EpochRecord({"stage": 0, "epoch": 19, "loss": 1.0, "seconds": 1, "samples_per_second": 10}))
    screen.on_stage_begin(1, 20, 12, 10, "")
    assert written.getvalue().splitlines()[-1] == "Going back to the end of epoch 12."
    resumed = Screen(Console(file=written, width=80))
    resumed.on_stage_begin(1, 20, 7, 10, "")
    assert written.getvalue().splitlines()[-1] == "Going on after epoch 7."


@pytest.mark.parametrize(("width", "parts"), [(80, ["test 95.0%"]), (200, ["test 95.0%", "would relabel 12.0%"])])
def test_the_bar_fits_its_terminal(width: int, parts: list[str]) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=width, color_system=None)
    entry = {"stage": 0, "epoch": 99, "loss": 1.234, "would_relabel": 0.12, "test": {"top1": 0.95}}
    with Screen(console) as screen:
        screen.on_stage_begin(0, 100, 0, 1000, "split 3 of 5")
        screen.on_batch_end(50_000)
        screen.on_epoch_saved(EpochRecord({**entry, "seconds": 1.0, "samples_per_second": 1.0}))
    line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.getvalue()).strip().splitlines()[-1].strip()
    assert len(line) <= width
    assert all(part in line for part in ["split 3 of 5", "100/100", "loss 1.234", *parts])
    assert "…" not in line


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
    assert "found 2,000 rows of 2 features, labels of 2 classes" in result.stderr
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
    assert "t.csv; selc with" in shown
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
    assert "--label-column is not supported by the dataset 'moons'" in refused(
        "train", "--config", "named.toml", "--label-column", "kind"
    )
    for arguments in (["--config", "none.toml"], []):
        assert "DATA must be given" in refused("train", *arguments)


NOISY = ["--noise", "symmetric", "--rate", "0.4", "--epochs", "12", "--lr", "0.02", "--set", "net.hidden=[32]"]


def lines_of(text: str) -> dict[str, str]:
    """The block at the end, by the names in its first column."""
    return {line[:18].strip(): line[18:] for line in text.splitlines()}


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """What was said while such a run was trained, and its folder."""
    place = tmp_path_factory.mktemp("noisy") / "run"
    result = call("train", "digits", *NOISY, "--out", str(place))
    assert result.exit_code == 0, result.output
    return result, place


def test_the_end_says_how_many_labels_are_wrong_and_why_none_was_changed(
    noisy: tuple[Result, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = noisy[0]
    place = Path(shutil.copytree(noisy[1], tmp_path / "run"))
    run = RunFolder.open(place)
    end, rate, actions = lines_of(result.stdout), run.summary["noise_rate"], run.summary["actions"]
    assert rate["estimate"] is not None
    shares = [percent(rate[key]) for key in ("estimate", "low", "high")]
    assert end["wrong labels"] == f"about {shares[0]}, between {shares[1]} and {shares[2]}"
    assert actions["relabel"] > 0
    share = percent(actions["relabel"] / 1257)
    assert end["labels changed"] == (f"{actions['relabel']} of 1,257 ({share}); {actions['review']} more to look at")
    assert f"  selc report {noisy[1]} " in result.stdout.partition("Next:")[2]
    assert "which changes" not in end  # they are those to relabel
    assert "would relabel" in result.stderr

    def shown(**summary: object) -> dict[str, str]:
        write_json(place / "summary.json", {**run.summary, "changed": 0.0, **summary})
        show_run(run)
        return lines_of(capsys.readouterr().out)

    wide = {"estimate": None, "likely": 0.1, "low": 0.0, "high": 0.31}
    end = shown(noise_rate=wide, why_unchanged="cannot tell")
    assert end["wrong labels"] == "between 0% and 31%; wrong labels and hard samples cannot be told apart"
    many = max(actions["review"], 100)  # as many as a person can look at
    assert end["labels changed"] == f"none, because {WHY[Why.CANNOT_TELL]}; {many} to look at"
    assert "wrong labels" not in shown(noise_rate=None, why_unchanged="too few")


def test_while_it_trains_it_is_told_what_for_and_what_was_decided(noisy: tuple[Result, Path]) -> None:
    result, place = noisy
    lines = result.stderr.splitlines()
    decision = decision_in_short(RunFolder.open(place).summary["decision"])
    assert lines.count(decision) == 1
    splits = [k for k, line in enumerate(lines) if line.startswith("split ") and "epoch 12/12" in line]
    assert [lines[k].split(",")[0] for k in splits] == [f"split {k} of 5" for k in range(1, 6)]
    assert all("held out" in lines[k] for k in splits)
    [told] = [k for k, line in enumerate(lines) if line.startswith("Training 5 times")]
    [own] = [k for k, line in enumerate(lines) if line.startswith("epoch 12/12")]
    assert told < splits[0] < splits[-1] < lines.index(decision) < own


def test_bars_are_named_by_what_is_trained() -> None:
    screen = Screen(Console(file=io.StringIO(), force_terminal=True))
    for stage in range(2):
        screen.on_stage_begin(stage, 3, 0, 10, aside=f"split {stage + 1} of 2")
    screen.on_stage_begin(2, 3, 0, 10, "")
    screen.on_stage_begin(3, 3, 0, 10, "")
    names = [task.description for task in screen.bars.tasks]
    assert names == ["split 1 of 2", "split 2 of 2", "training", "training, stage 2"]
    assert [task.visible for task in screen.bars.tasks] == [False, False, False, True]  # there is one bar
    written = io.StringIO()
    piped = Screen(Console(file=written))
    for stage in range(2):
        piped.on_stage_begin(stage, 3, 0, 10, "")
        entry = {"stage": stage, "epoch": 2, "loss": 1.0, "seconds": 1, "samples_per_second": 1}
        piped.on_epoch_saved(EpochRecord(entry))
    assert [line.partition("epoch 3/3")[0] for line in written.getvalue().splitlines()] == ["", "stage 2, "]
    labelled = Screen(Console(file=io.StringIO(), force_terminal=True), label="SELC")
    labelled.on_stage_begin(0, 3, 0, 10, aside="split 1 of 5")
    labelled.on_stage_begin(1, 3, 0, 10, "")
    assert [task.description for task in labelled.bars.tasks] == ["SELC, split 1 of 5", "SELC"]


def test_what_every_stage_notes_is_said_once() -> None:
    stream = io.StringIO()
    screen = Screen(Console(file=stream, width=200))
    for text in ("one batch holds all.", "one batch holds all.", "the tables are on the disk"):
        assert screen.on_notice(text)
    assert stream.getvalue() == "note: one batch holds all.\nnote: the tables are on the disk\n"


def test_what_is_told_is_taken_as_it_is() -> None:
    written = io.StringIO()
    screen = Screen(Console(file=written, width=40))
    screen.on_message("The column [bold] is [/] " + "long " * 30)
    screen.on_decision(TurningPoint(None, Decision.too_few()))
    first, second = written.getvalue().splitlines()
    assert first.startswith("The column [bold] is [/] long")
    assert second == decision_in_short(Decision.too_few().as_dict())


def test_a_network_that_has_learnt_nothing_is_a_warning(tmp_path: Path) -> None:
    place = tmp_path / "noise.csv"
    draw = random.Random(0)
    rows = "".join(f"{draw.random()},{draw.random()},{draw.choice('abc')}\n" for _ in range(150))
    place.write_text(f"u,v,label\n{rows}")
    result = call("train", str(place), "--epochs", "2", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    summary = RunFolder.open(tmp_path / "run").summary
    assert summary["why_unchanged"] == "not learnt"
    assert summary["noise_rate"] is None
    assert "warning: the network has not learnt enough. Train longer" in result.stderr
    end = lines_of(result.stdout)
    assert end["labels changed"] == f"none, because {WHY[Why.NOT_LEARNT]}"
    assert "wrong labels" not in end


@pytest.mark.parametrize("why", [None, *Why])
def test_each_way_to_change_nothing_has_its_reason(why: Why | None) -> None:
    said = why_unchanged({"why_unchanged": None if why is None else str(why)})
    assert said == ("" if why is None else WHY[why])
    assert bool(said) == (why is not None)
    assert len(set(WHY.values())) == len(WHY) == len(Why)


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
    assert "finished already" in result.stderr


def test_the_module_runs_as_the_command_does() -> None:
    result = subprocess.run([sys.executable, "-m", "selc", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("selc ")


@pytest.mark.parametrize(("flag", "warned"), [("--data-root", False), ("--data", True)])
def test_the_root_of_datasets_has_a_new_name_and_the_old_one_warns(tmp_path: Path, flag: str, warned: bool) -> None:
    for command in (["train", "cifar10"], ["embed", "cifar10"]):
        result = call(*command, flag, str(tmp_path / "nowhere"), "--out", str(tmp_path / "out.npz"))
        assert result.exit_code == 2
        assert str(tmp_path / "nowhere") in result.stderr
        assert ("warning: --data was renamed to --data-root" in result.stderr) is warned
        assert "--data " not in call(command[0], "--help").stdout
