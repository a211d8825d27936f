"""What a report knows of a run: one state of its folder, read once, whether the run is finished or still going."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import read_json
from selc.analysis import Why
from selc.analysis.findings import KEEP, REVIEW, Findings
from selc.classifiers import PREFIX, is_classifier_name
from selc.errors import RunFolderError
from selc.noise.base import label_digest
from selc.runs import RunFolder
from selc.turning import Decision, Evidence
from selc.types import Pass


class Snapshot(RunFolder):
    """A run folder whose files are read once: what is drawn and what is said come from the same moment."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path)
        self._manifests: dict[int, dict[str, Any]] = {}
        self._passes: dict[int | None, Pass] = {}
        self._done = super().finished

    @classmethod
    def of(cls, run: RunFolder) -> Snapshot:
        return run if isinstance(run, Snapshot) else cls(run.path)

    @property
    def finished(self) -> bool:
        return self._done

    def _manifest(self, stage: int) -> dict[str, Any]:
        if stage not in self._manifests:
            self._manifests[stage] = super()._manifest(stage)
        return self._manifests[stage]

    def records(self, stage: int | None = None) -> Pass:
        if stage not in self._passes:
            self._passes[stage] = super().records(self._main_stage() if stage is None else stage)
        return self._passes[stage]

    def _main_stage(self) -> int:
        """The last stage of the result that recorded anything."""
        if not self.timeline:
            raise RunFolderError(f"{self.path} must have saved an epoch of its training; got none yet.")
        recorded = [entry["stage"] for entry in self.timeline if "given_loss" in entry]
        return int(max(recorded, default=self.timeline[0]["stage"]))

    @cached_property
    def classifier(self) -> str:
        """The classifier of scikit-learn that was fitted in the place of a network; "": it was a network."""
        name = self.config.net.name
        return name.removeprefix(PREFIX) if is_classifier_name(name) else ""

    @cached_property
    def timeline(self) -> list[dict[str, Any]]:
        """The epochs that led to the result, in order: those that were stepped back over, and trainings that only
        helped to decide, are left out."""
        return [entry for entry in self.history() if not entry.get("undone") and not entry.get("aside")]

    @cached_property
    def trainings(self) -> list[int]:
        """Epochs of each training in the timeline; a stage that goes on in the epoch after another is of the same."""
        epochs = [entry["epoch"] for entry in self.timeline]
        begins = [place for place, epoch in enumerate(epochs) if not place or epoch != epochs[place - 1] + 1]
        return [end - begin for begin, end in pairwise([*begins, len(epochs)])]

    @cached_property
    def preparing(self) -> dict[str, Any] | None:
        """The last epoch of what is trained only to decide, while nothing else is."""
        before = [entry for entry in self.history() if entry.get("aside")]
        return before[-1] if before and not self.timeline else None

    def stage_number(self, entry: dict[str, Any]) -> int:
        """Which stage of the result an epoch belongs to, from 1."""
        return list(dict.fromkeys(other["stage"] for other in self.timeline)).index(entry["stage"]) + 1

    @cached_property
    def _decided(self) -> tuple[Decision | None, Evidence | None]:
        """The decision is written last: where it is, the evidence is as well."""
        decision = super().decision()
        return decision, None if decision is None else super().evidence()

    def decision(self) -> Decision | None:
        return self._decided[0]

    def evidence(self) -> Evidence | None:
        return self._decided[1]

    @cached_property
    def noise(self) -> dict[str, Any] | None:
        """The share of wrong labels as the run estimates it: estimate, likely, low and high; None if it does not."""
        return self.summary["noise_rate"] if self.finished else None

    @cached_property
    def why(self) -> Why | None:
        """Why no label was replaced; None if some were, or while that is not yet to be said."""
        said = self.summary["why_unchanged"] if self.finished else None
        return None if said is None else Why(said)

    @cached_property
    def recorded(self) -> Pass | None:
        """The training pass, or None while no epoch of it is saved."""
        try:
            return self.records()
        except RunFolderError:
            if self.timeline:
                raise
            return None

    @cached_property
    def verdicts(self) -> Findings | None:
        """The findings of the run; of one that is not finished what they would be by now, None before an epoch."""
        if self.finished:
            return self.findings()
        return None if self.recorded is None else _so_far(self.recorded, self.given)

    @cached_property
    def about_data(self) -> dict[str, Any]:
        """What was noticed about the data, and what was left out."""
        path = self.path / "data.json"
        return dict(read_json(path)) if path.exists() else {}

    @cached_property
    def as_of(self) -> str:
        """When the run last wrote something that the report shows."""
        files = [self.path / "config.toml", self.path / "summary.json"]
        files += [stage / "manifest.json" for stage in self.stages()]
        latest = max(path.stat().st_mtime for path in files if path.exists())
        return datetime.fromtimestamp(latest, UTC).strftime("%Y-%m-%d %H:%M UTC")

    @cached_property
    def fingerprint(self) -> str:
        """The hash of everything that the result depends on."""
        return self.config.fingerprint(label_digest(self.given))

    def judged(self) -> RunFolder:
        """The same run with its own labels in the place of the true ones, where nobody knows these."""
        return _Judged(self)


class _Judged(Snapshot):
    def __init__(self, run: Snapshot) -> None:
        super().__init__(run.path)
        self.__dict__ |= run.__dict__

    @property
    def true(self) -> Tensor | None:
        found = self.verdicts
        return None if found is None else torch.where(found.is_issue, found.suggested, found.given)


def _so_far(seen: Pass, given: Tensor) -> Findings:
    """Findings from the last epoch that was saved: nothing is relabelled yet, and what is disputed is to be reviewed.

    The quality of a label is the probability that it had on average; one of a sample that was not seen counts as right.
    """
    predicted = seen.predictions[-1].long()
    predicted = torch.where(predicted < 0, given, predicted)
    believed = seen.beliefs[-1].long()
    suggested = torch.where(believed < 0, predicted, believed)
    quality = torch.exp(-torch.nanmean(seen.losses.double(), dim=0)).nan_to_num(nan=1.0)
    confidence = torch.nan_to_num(seen.confidences[-1], nan=1.0)
    action = torch.where(suggested == given, KEEP, REVIEW)
    return Findings(given, predicted, suggested, confidence, quality, action)
