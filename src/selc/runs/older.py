"""Run folders of 0.1.0, read as those of today.

Until late in 0.1.0 a run judged labels by signs in the training pass, and kept its findings in label_issues.csv alone.
What it found is handed out as it is. Its estimate of the share of wrong labels is not: held-out rows replaced it.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import in_short, read_json
from selc.analysis import Why
from selc.analysis.findings import ACTIONS, Findings
from selc.errors import RunFolderError

ISSUES = "label_issues.csv"


def version_of(folder: Path) -> str:
    """The version that began the run in a folder; "" where that is not known."""
    try:
        known = read_json(folder / "environment.json")
    except RunFolderError:
        return ""
    return str(known.get("selc", "")) if isinstance(known, dict) else ""


def check_same_series(folder: Path, today: str) -> None:
    """Refuse to go on with a run that another series of versions began: its checkpoints mean something else."""
    before = version_of(folder)
    if before and _series(before) != _series(today):
        raise RunFolderError(
            f"an unfinished run must have been begun by selc {_series(today)}; got {folder}, begun by selc {before}. "
            "Start it anew with another --out (its config.toml says how it was set), or finish it with that version."
        )


def _series(version: str) -> str:
    found = re.match(r"\d+\.\d+", version)
    return found[0] if found else version


def judged_by_training_pass(summary: dict[str, Any]) -> bool:
    """Whether a summary as it was written is of a run that judged labels by what it was trained on."""
    return "why_unchanged" not in summary


def epoch_as_today(entry: dict[str, Any]) -> dict[str, Any]:
    """What was recorded of an epoch, under the names of today: "changed" was a share of beliefs, and of labels too."""
    return {"would_relabel" if name == "changed" else name: value for name, value in entry.items()}


def as_today(summary: dict[str, Any], num_classes: int) -> dict[str, Any]:
    """The summary of a run that judged by its training pass, with what every run of today says."""
    why = None if summary["changed"] else str(Why.NOT_LEARNT if summary.get("unlearnt") else Why.METHOD)
    actions = summary.get("actions", dict.fromkeys(ACTIONS, 0))
    matrix = torch.eye(num_classes, dtype=torch.float64).tolist()  # where the method had no estimate
    known = {"transition_matrix": matrix, **summary, "actions": actions}
    return {**known, "decision": None, "noise_rate": None, "why_unchanged": why}


def findings_in(folder: Path, given: Tensor, classes: tuple[str, ...]) -> Findings:
    """The rows of label_issues.csv."""
    path = folder / ISSUES
    number = {name: label for label, name in enumerate(classes)}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        labels = [[number[row[name]] for row in rows] for name in ("predicted_label", "suggested_label")]
        shares = [[float(row[name]) for row in rows] for name in ("suggested_confidence", "label_quality")]
        actions = [ACTIONS.index(row["action"]) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise RunFolderError(f"{path} must hold the findings of the run; got: {in_short(error)}.") from None
    if len(rows) != len(given):
        raise RunFolderError(f"{path} must have a row for each of {len(given)} samples; got {len(rows)}.")
    predicted, suggested = (torch.tensor(column) for column in labels)
    confidence, quality = (torch.tensor(column, dtype=torch.float64) for column in shares)
    return Findings(given, predicted, suggested, confidence, quality, torch.tensor(actions))
