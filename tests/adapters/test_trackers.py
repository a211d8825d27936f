"""Trackers, each read back by its own library: a log of TensorBoard, a store of MLflow in SQLite, an offline run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from selc.callbacks import Callback, with_trackers
from selc.runs import Config, RunFolder, execute

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
EPOCHS = 3


class Heard(Callback):
    def __init__(self) -> None:
        self.notices: list[str] = []

    def on_notice(self, text: str) -> bool:
        self.notices.append(text)
        return True


def tracked(folder: Path, tracker: Any) -> RunFolder:
    heard = Heard()
    train = {"epochs": EPOCHS, "batch_size": 256}
    config = Config.resolve({"data": "digits", "method": {"name": "ce"}, "train": train})
    run = execute(config, folder / "run", with_trackers([heard], tracker))
    assert heard.notices == []
    return run


def lines(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def test_a_log_of_tensorboard_holds_every_epoch_and_the_result(tmp_path: Path) -> None:
    run = tracked(tmp_path, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = EventAccumulator(str(run.path / "tensorboard"))
    log.Reload()
    said = lines(run)
    for key, values in (("loss", [e["loss"] for e in said]), ("test/top1", [e["test"]["top1"] for e in said])):
        events = log.Scalars(key)
        assert [event.step for event in events] == [1, 2, 3]
        assert [event.value for event in events] == pytest.approx(values, rel=1e-6)
    assert log.Scalars("final/actions/keep")[0].value == run.summary["actions"]["keep"]
    texts = {tag.removesuffix("/text_summary") for tag in log.Tags()["tensors"]}
    assert {"settings", "report.html"} <= texts


def test_a_store_of_mlflow_holds_settings_epochs_result_and_report(tmp_path: Path, monkeypatch: Any) -> None:
    import mlflow

    from selc.integrations.trackers.mlflow import MLflow

    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path}/mlflow.db"
    run = tracked(tmp_path, MLflow(uri=store, experiment="noisy"))
    client = mlflow.MlflowClient(store)
    experiment = client.get_experiment_by_name("noisy")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "run"
    assert found.data.params["method.name"] == "ce"
    assert found.data.params["train.epochs"] == str(EPOCHS)
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(k + 1, pytest.approx(e["loss"])) for k, e in enumerate(lines(run))]
    assert found.data.metrics["final/accuracy/test/top1"] == pytest.approx(run.summary["accuracy"]["test"]["top1"])
    files = {file.path for file in client.list_artifacts(found.info.run_id)}
    assert files == {"report.html", "label_issues.csv", "corrected_labels.csv"}
    place = Path(client.download_artifacts(found.info.run_id, "report.html"))
    assert place.read_bytes() == (run.path / "report.html").read_bytes()


def test_a_run_of_mlflow_that_is_active_already_is_used_and_left_open(tmp_path: Path, monkeypatch: Any) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as active:
        tracked(tmp_path, "mlflow")
        assert mlflow.active_run().info.run_id == active.info.run_id
        data = mlflow.MlflowClient().get_run(active.info.run_id)
        assert data.info.status == "RUNNING"
        assert "loss" in data.data.metrics


def test_an_offline_run_of_wandb_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = tracked(tmp_path, "wandb")
    (log,) = run.path.glob("wandb/offline-run-*/run-*.wandb")
    assert log.stat().st_size > 1000


@pytest.mark.parametrize("name", ["mlflow", "tensorboard"])
def test_what_cannot_be_reached_is_a_notice_and_the_run_is_whole(name: str, tmp_path: Path) -> None:
    from selc.integrations.trackers.mlflow import MLflow
    from selc.integrations.trackers.tensorboard import TensorBoard

    (tmp_path / "file").write_text("in the way")
    there = {
        "mlflow": MLflow(uri="nowhere://such"),
        "tensorboard": TensorBoard(folder=f"{tmp_path}/file/x"),
    }
    heard = Heard()
    config = Config.resolve({"data": "digits", "method": {"name": "ce"}, "train": {"epochs": 1}})
    run = execute(config, tmp_path / "run", with_trackers([heard], there[name]))
    assert run.finished
    assert len(heard.notices) == 1
    assert "failed, nothing more is tracked" in heard.notices[0]
