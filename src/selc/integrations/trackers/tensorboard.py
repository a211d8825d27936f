"""TensorBoard: a log in the run folder, to be looked at with ``tensorboard --logdir RUN``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selc.integrations.trackers.base import TRACKERS, Tracker


@TRACKERS.register("tensorboard")
class TensorBoard(Tracker):
    """TensorBoard: a log on your disk, in the run folder unless you say where."""

    needs = "tensorboard"

    def __init__(self, *, folder: str = "") -> None:
        self.folder = folder
        self._writer: Any = None

    def begin(self, name: str, settings: Mapping[str, str], folder: Path | None, before: str) -> str:
        from torch.utils.tensorboard import SummaryWriter

        place = self.folder or (None if folder is None else str(folder / "tensorboard"))
        self._writer = SummaryWriter(place)
        if settings and not before:
            rows = "".join(f"| {key} | `{value}` |\n" for key, value in settings.items())
            self._writer.add_text("settings", f"| setting | value |\n|---|---|\n{rows}")
        return str(self._writer.log_dir)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def conclude(self, values: Mapping[str, float]) -> None:
        self.log(values, 0)

    def keep(self, file: Path) -> None:
        self._writer.add_text(file.name, str(file.resolve()))  # it holds no files, so it says where they are

    def end(self) -> None:
        self._writer.close()
