"""MLflow: where MLFLOW_TRACKING_URI says, by default a store in the folder that one works in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from selc.integrations.trackers.base import TRACKERS, Tracker

AT_ONCE = 100  # settings that a server takes in one call
LETTERS = 500  # of a setting
T = TypeVar("T")


@TRACKERS.register("mlflow")
class MLflow(Tracker):
    """MLflow: a run of an experiment, or the run that is active already."""

    needs = "mlflow"

    def __init__(self, *, uri: str = "", experiment: str = "") -> None:
        self.uri = uri
        self.experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", "") or "selc"
        self._client: Any = None
        self._run, self._own = "", True

    def begin(self, name: str, settings: Mapping[str, str], folder: Path | None, before: str) -> str:
        import mlflow
        from mlflow.entities import Param

        self._client = mlflow.MlflowClient(tracking_uri=self.uri or None)
        if active := mlflow.active_run():  # of whoever called us: theirs to end
            self._run, self._own = active.info.run_id, False
        elif before:
            self._run = before
            self._client.update_run(before, status="RUNNING")
        else:
            found = self._client.get_experiment_by_name(self.experiment)
            place = found.experiment_id if found else self._client.create_experiment(self.experiment)
            self._run = self._client.create_run(place, run_name=name).info.run_id
        if not before:
            for part in _parts([Param(key, value[:LETTERS]) for key, value in settings.items()]):
                self._client.log_batch(self._run, params=part)
        return self._run

    def log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(key, value, now, step) for key, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def conclude(self, values: Mapping[str, float]) -> None:
        self.log(values, 0)

    def keep(self, file: Path) -> None:
        self._client.log_artifact(self._run, str(file))

    def end(self) -> None:
        if self._own:
            self._client.set_terminated(self._run)


def _parts(rows: Iterable[T]) -> Iterable[list[T]]:
    left = iter(rows)
    while part := list(islice(left, AT_ONCE)):
        yield part
