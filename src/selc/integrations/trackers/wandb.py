"""Weights & Biases: as WANDB_MODE, WANDB_PROJECT and the login of the machine say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selc.integrations.trackers.base import TRACKERS, Tracker


@TRACKERS.register("wandb")
class WandB(Tracker):
    """Weights & Biases: a run of a project."""

    needs = "wandb"

    def __init__(self, *, project: str = "") -> None:
        self.project = project or os.environ.get("WANDB_PROJECT", "") or "selc"
        self._run: Any = None

    def begin(self, name: str, settings: Mapping[str, str], folder: Path | None, before: str) -> str:
        import wandb

        self._run = wandb.init(
            project=self.project,
            name=name,
            config=dict(settings),
            dir=None if folder is None else str(folder),
            id=before or None,
            resume="allow" if before else None,
        )
        # Trainings that help to decide count their epochs from 1 again, which its own steps must not.
        self._run.define_metric("*", step_metric="epoch")
        return str(self._run.id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "epoch": step})

    def conclude(self, values: Mapping[str, float]) -> None:
        self._run.summary.update(dict(values))

    def keep(self, file: Path) -> None:
        self._run.log_artifact(str(file), name=file.name, type="result")

    def end(self) -> None:
        self._run.finish()
