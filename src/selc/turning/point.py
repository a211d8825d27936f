"""The turning point of a run: what was seen, and what was decided by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from selc._io.files import read_json, read_tensors, write_json, write_tensors
from selc.turning.decision import Decision
from selc.turning.evidence import Evidence

EVIDENCE, DECISION = "evidence.safetensors", "decision.json"  # in a run folder


@dataclass(frozen=True)
class TurningPoint:
    """What a method hands on that has decided by held-out rows; an outcome carries it as ``decided``."""

    evidence: Evidence | None  # None: there were too few rows to hold any out
    decision: Decision

    @classmethod
    def of(cls, decided: object) -> TurningPoint | None:
        """What an outcome carries, if it is of this kind."""
        return decided if isinstance(decided, cls) else None

    def save(self, folder: Path) -> None:
        """Write it into the folder of a run; the decision last, as it is what counts."""
        if self.evidence is not None:
            write_tensors(folder / EVIDENCE, self.evidence.tensors())
        write_json(folder / DECISION, self.decision.as_dict())


def saved_evidence(folder: Path, num_classes: int) -> Evidence | None:
    """The evidence in the folder of a run; None if there is none (yet)."""
    path = folder / EVIDENCE
    return Evidence.from_tensors(read_tensors(path), num_classes) if path.exists() else None


def saved_decision(folder: Path) -> Decision | None:
    """The decision in the folder of a run; None if there is none (yet)."""
    path = folder / DECISION
    return Decision.from_dict(read_json(path)) if path.exists() else None
