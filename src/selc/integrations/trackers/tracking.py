"""The callback that tells a tracker how a training goes; what fails there is said once, and the training goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selc._io.files import in_short, read_json, write_json
from selc.callbacks import Callback, Callbacks, EpochRecord
from selc.integrations.trackers.base import TRACKERS, Tracker
from selc.report.page import write_report
from selc.runs.folder import RunFolder

KNOWN_BY = "tracking.json"  # in a run folder: what each tracker calls the run, to go on with it
FILES = ("label_issues.csv", "corrected_labels.csv")
_NO_NUMBERS = ("stage", "epoch")


def tracking(chosen: str | Tracker | Sequence[str | Tracker], callbacks: Sequence[Callback]) -> list[Callback]:
    """A callback for each tracker, by its name or itself; ``callbacks`` hear of what fails."""
    several = [chosen] if isinstance(chosen, str | Tracker) else list(chosen)
    made: list[Callback] = []
    for one in several:
        tracker = TRACKERS[one]() if isinstance(one, str) else one
        tracker.check()
        made.append(Tracking(tracker, Callbacks(callbacks).notice))
    return made


class Tracking(Callback):
    """Tells a tracker of settings, of each epoch, and of the result with its report.

    Epochs of the result are numbered through from 1. Those of trainings that only helped to decide go under the name of
    these, such as ``split 1 of 5/loss``.
    """

    def __init__(self, tracker: Tracker, tell: Callable[[str], None]) -> None:
        self.tracker, self.tell = tracker, tell
        self.name = type(tracker).__name__
        self._works = True
        self._epochs: dict[int, int] = {}  # of each stage of the result, how many are done

    def on_run_begin(self, folder: Path | None) -> None:
        self._try(lambda: self._begin(folder))

    def on_epoch_saved(self, record: EpochRecord) -> None:
        entry = record.entry
        before = f"{entry['aside']}/" if entry.get("aside") else ""
        numbers = {key: value for key, value in entry.items() if key not in _NO_NUMBERS}
        step = self._step(entry)
        self._try(lambda: self.tracker.log(_flat(numbers, before), step))

    def on_run_end(self, summary: Mapping[str, Any], folder: Path | None) -> None:
        self._try(lambda: self.tracker.conclude(_flat(summary, "final/")))
        if folder is not None:
            # Without what draws there is no report, but there are the tables.
            self._try(lambda: self.tracker.keep(write_report(RunFolder.open(folder))[0]), lasting=False)
            for name in FILES:
                self._try(partial(self.tracker.keep, folder / name))
        self._try(self.tracker.end)

    def _begin(self, folder: Path | None) -> None:
        if folder is None:
            self.tracker.begin("selc", {}, None, "")
            return
        run, place = RunFolder.open(folder), folder / KNOWN_BY
        for entry in run.history():
            self._step(entry)
        known = dict(read_json(place)) if place.exists() else {}
        found = self.tracker.begin(folder.resolve().name, _settings(run), folder, str(known.get(self.name, "")))
        write_json(place, known | {self.name: found})

    def _step(self, entry: Mapping[str, Any]) -> int:
        """The number of an epoch, from 1: in its stage, after those of earlier stages of the result."""
        stage, done = int(entry["stage"]), int(entry["epoch"]) + 1
        if entry.get("aside"):
            return done
        self._epochs[stage] = done
        return done + sum(epochs for other, epochs in self._epochs.items() if other < stage)

    def _try(self, action: Callable[[], object], *, lasting: bool = True) -> None:
        """Do it, unless it failed before; what fails is said, and if it is ``lasting`` nothing more is tried."""
        if not self._works:
            return
        try:
            action()
        except Exception as error:  # of any kind: the tracker is somebody else's, and the training goes on
            self._works = not lasting
            rest = "nothing more is tracked" if lasting else "the rest is tracked"
            self.tell(f"{self.name} failed, {rest}: {type(error).__name__}: {in_short(error)}")


def _settings(run: RunFolder) -> dict[str, str]:
    sections = run.config.model_dump(mode="json").items()
    return {f"{section}.{key}": str(value) for section, values in sections for key, value in values.items()}


def _flat(values: Mapping[str, Any], before: str) -> dict[str, float]:
    """All numbers, those inside of others under both names: ``test/top1``."""
    found: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[before + key] = float(value)
    return found
