"""What a tracker is told, in which order, and that nothing it does stops a training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import selc
from selc.callbacks import Callback, EpochRecord
from selc.cli import app
from selc.errors import ConfigError
from selc.integrations.trackers import TRACKERS, Tracker
from selc.integrations.trackers.tracking import KNOWN_BY, Tracking
from selc.runs import Config, execute, resume
from tests.toy import blobs


class Told(Tracker):
    """Writes down what it is told, or fails at one of the calls."""

    needs = "json"

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls = fails, list[tuple[Any, ...]]()

    def _told(self, name: str, *about: Any) -> None:
        self.calls.append((name, *about))
        if name == self.fails:
            raise OSError("the server is gone")

    def begin(self, name: str, settings: Mapping[str, str], folder: Path | None, before: str) -> str:
        self._told("begin", name, dict(settings), before)
        return "run 17"

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._told("log", step, dict(values))

    def conclude(self, values: Mapping[str, float]) -> None:
        self._told("conclude", dict(values))

    def keep(self, file: Path) -> None:
        assert file.exists()
        self._told("keep", file.name)

    def end(self) -> None:
        self._told("end")

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


class Heard(Callback):
    def __init__(self, stop_after: int | None = None) -> None:
        self.notices, self.stop_after = list[str](), stop_after

    def on_notice(self, text: str) -> bool:
        self.notices.append(text)
        return True

    def on_epoch_saved(self, record: EpochRecord) -> None:
        if record.done == self.stop_after:
            raise KeyboardInterrupt


def config(epochs: int = 2) -> Config:
    return Config.resolve({"data": "digits", "method": {"name": "ce"}, "train": {"epochs": epochs, "batch_size": 256}})


def test_it_is_told_of_settings_epochs_result_and_report(tmp_path: Path, undrawn: None) -> None:
    told, heard = Told(), Heard()
    run = execute(config(), tmp_path / "mine", [heard, Tracking(told, heard.notices.append)])
    assert told.names == ["begin", "log", "log", "conclude", "keep", "keep", "keep", "end"]
    _, name, settings, before = told.calls[0]
    assert (name, settings["method.name"], settings["train.epochs"], before) == ("mine", "ce", "2", "")
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    for line, (_, step, values) in zip(lines, told.calls[1:3], strict=True):
        assert step == line["epoch"] + 1
        assert values["loss"] == line["loss"]
        assert values["test/top1"] == line["test"]["top1"]
        assert not {"stage", "epoch"} & values.keys()
    assert told.calls[3][1]["final/accuracy/test/top1"] == run.summary["accuracy"]["test"]["top1"]
    assert told.calls[3][1]["final/actions/keep"] == run.summary["actions"]["keep"]
    assert [call[1] for call in told.calls[4:7]] == ["report.html", "label_issues.csv", "corrected_labels.csv"]
    assert heard.notices == []


@pytest.mark.parametrize("fails", ["begin", "log", "conclude", "keep", "end"])
def test_a_tracker_that_fails_is_said_once_and_changes_nothing(tmp_path: Path, fails: str, undrawn: None) -> None:
    told, heard = Told(fails), Heard()
    run = execute(config(), tmp_path / "run", [heard, Tracking(told, heard.notices.append)])
    assert run.finished
    assert told.names.count(fails) == (2 if fails == "keep" else 1)  # a report that fails is not the end
    assert all("Told failed" in text and "the server is gone" in text for text in heard.notices)
    assert len(heard.notices) == told.names.count(fails)


def test_a_run_that_goes_on_is_the_same_run_to_its_tracker(tmp_path: Path, undrawn: None) -> None:
    told = Told()
    with pytest.raises(KeyboardInterrupt):
        execute(config(3), tmp_path / "run", [Tracking(told, print), Heard(stop_after=2)])
    assert json.loads((tmp_path / "run" / KNOWN_BY).read_text()) == {"Told": "run 17"}
    again = Told()
    resume(tmp_path / "run", [Heard(), Tracking(again, print)])
    assert again.calls[0][3] == "run 17"
    steps = [call[1] for call in (*told.calls, *again.calls) if call[0] == "log"]
    assert sorted(set(steps)) == [1, 2, 3]
    finished = Told()
    resume(tmp_path / "run", [Tracking(finished, print)])
    assert finished.calls == []  # there is nothing to tell


def test_epochs_of_several_stages_are_numbered_through_and_helpers_apart() -> None:
    told = Told()
    callback = Tracking(told, print)
    for stage, epoch, aside in [(0, 0, "split 1"), (1, 0, ""), (1, 1, ""), (2, 0, ""), (2, 1, "")]:
        entry = {"stage": stage, "epoch": epoch, "loss": 0.5, "doubt": float("nan"), "good": True}
        callback.on_epoch_saved(EpochRecord(entry | ({"aside": aside} if aside else {})))
    assert [call[1:] for call in told.calls] == [
        (1, {"split 1/loss": 0.5}),
        *((step, {"loss": 0.5}) for step in (1, 2, 3, 4)),
    ]


def test_a_fit_in_memory_is_tracked_without_a_folder() -> None:
    told = Told()
    x, y = blobs(60)
    selc.fit(x, y, method="ce", epochs=2, batch_size=32, tracker=told)
    assert told.names == ["begin", "log", "log", "conclude", "end"]


def test_trackers_by_name_are_refused_before_a_training_where_they_cannot_be() -> None:
    assert {"tensorboard", "mlflow", "wandb"} <= set(TRACKERS)
    x, y = blobs(60)
    with pytest.raises(ConfigError, match=r"the tracker must be one of mlflow.*got 'tensorbord'.*Did you mean"):
        selc.fit(x, y, tracker="tensorbord")

    class Missing(Told):
        needs = "no_such_module"

    with pytest.raises(ConfigError, match=r"no module 'no_such_module'.*selc\[track\]"):
        selc.fit(x, y, tracker=[Missing()])


def test_the_command_knows_them(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(
        app, ["train", "digits", "--method", "ce", "--epochs", "1", "--out", str(out), "--track", "nonsense"]
    )
    assert result.exit_code == 2
    assert "the tracker must be one of" in result.stderr
    assert not out.exists()
    assert "mlflow" in CliRunner().invoke(app, ["list", "trackers"]).stdout
