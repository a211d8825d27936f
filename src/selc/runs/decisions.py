"""What a person decided about samples of a run: decisions.json, and how often it agrees with the run's suggestions.

{"format": 1, "run": fingerprint, "samples": N, "decisions": [{"sample_id", "given", "suggested", "confidence",
"verdict": keep | suggested | other | drop | skip, "label": name or null}]}
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from selc._io.files import read_json
from selc.analysis.findings import Findings
from selc.errors import InputError
from selc.runs.folder import RunFolder

FORMAT = 1
VERDICTS = ("keep", "suggested", "other", "drop", "skip")
BANDS = (0.0, 0.7, 0.9, 1.0)  # of the confidence; the last one includes its end


class Verdict(NamedTuple):
    """One verdict; ``label`` is the name of the class that the sample has by it, None without one."""

    sample_id: str
    given: str
    verdict: str
    label: str | None


@dataclass(frozen=True)
class Decisions:
    """A file of decisions that was found to be whole."""

    path: Path
    run: str  # fingerprint of the run that was reviewed
    samples: int  # of that run
    made: Mapping[str, Verdict]  # by the id of the sample

    @classmethod
    def read(cls, path: Path | str) -> Decisions:
        path = Path(path)
        content = _content(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            got = content.get("format") if isinstance(content, dict) else type(content).__name__
            raise InputError(
                f"decisions must be a file saved by a review page of this version (format {FORMAT}); "
                f"got {path} with {got!r}."
            )
        entries = content.get("decisions")
        count = content.get("samples")
        if not isinstance(entries, list) or not isinstance(count, int) or not isinstance(content.get("run"), str):
            raise InputError(f"{path} must hold run, samples and decisions; got a file without one of them.")
        made: dict[str, Verdict] = {}
        for place, entry in enumerate(entries):
            decision = _verdict(entry, f"decision {place + 1} of {path}")
            if decision.sample_id in made:
                raise InputError(
                    f"{path} must decide on each sample once; got {decision.sample_id!r} more than once. "
                    "Remove one of the two."
                )
            made[decision.sample_id] = decision
        return cls(path, content["run"], count, made)

    def of_run(self, run: RunFolder) -> Decisions:
        """These decisions, or an error if they were made about other labels than those of ``run``.

        Samples that have names are known by these, whatever the network was shown of them: a review of a run on
        photographs is also one of a run on their features, if the labels are the same.
        """
        by_place = run.ids == [str(row) for row in range(len(run.given))]
        if self.run != fingerprint(run) and (by_place or self.samples != len(run.given)):
            raise InputError(
                f"--decisions must come from a review of {run.path} (or of a run on the same labels); got {self.path}, "
                "which was saved from a review of other labels. Give the run that was reviewed."
            )
        names = run.classes
        self.check(run.ids, names, [names[label] for label in run.given.tolist()])
        return self

    def check(self, ids: Sequence[str], classes: Sequence[str], *given: Sequence[str]) -> None:
        """Refuse samples, classes or labels (where these are known, by one of several labellings) that do not fit."""
        place = {sample: row for row, sample in enumerate(ids)}
        known = set(classes)
        for decision in self.made.values():
            row = place.get(decision.sample_id)
            if row is None:
                raise InputError(
                    f"decisions must be about samples of the data; got {decision.sample_id!r} in {self.path}, "
                    "which the data do not have. Give the decisions that belong to the data."
                )
            if decision.label is not None and decision.label not in known:
                raise InputError(
                    f"a label must be one of the {len(known)} classes of the data; got {decision.label!r} for "
                    f"{decision.sample_id!r} in {self.path}."
                )
            if given and all(decision.given != labels[row] for labels in given):
                raise InputError(
                    f"decisions must be about the labels of the data; got {self.path}, where the given label of "
                    f"{decision.sample_id!r} is {decision.given!r}, and in the data it is {given[0][row]!r}."
                )


def fingerprint(run: RunFolder) -> str:
    """What decisions are about: these labels of these samples, under these names of classes."""
    about = read_json(run.path / "noise.json")
    return fingerprint_of(about["sha256"], about.get("data_sha256", ""), run.classes)


def fingerprint_of(labels_digest: str, data_digest: str, classes: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([labels_digest, data_digest, list(classes)]).encode()).hexdigest()


def check_unique(ids: Sequence[str], where: str) -> None:
    """A verdict is addressed by the name of a sample, so names must differ."""
    sample, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"the ids of samples must differ, since verdicts are kept by id; got {sample!r} {times} times in {where}. "
            "Give each sample an id of its own."
        )


class Band(NamedTuple):
    """How many suggestions of a range of confidence were reviewed, and how many the reviewer agreed with."""

    low: float
    high: float
    reviewed: int
    agreed: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share (Wilson, 1927)."""
        if not self.reviewed:
            return 0.0, 1.0
        z, n, p = 1.959964, self.reviewed, self.agreed / self.reviewed
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def agreement(decisions: Decisions, findings: Findings, run: RunFolder, *, changes: bool = True) -> list[Band]:
    """How often the reviewer chose the label that the run suggests, by its confidence; the last entry is the total.

    With ``changes`` only suggestions of another label than the given one count, else only those of the given label.
    A sample that was dropped was reviewed and not agreed with; one that was skipped was not reviewed.
    """
    place = {sample: row for row, sample in enumerate(run.ids)}
    reviewed = [d for d in decisions.made.values() if d.verdict != "skip"]
    rows = [place[d.sample_id] for d in reviewed]
    suggested = [run.classes[label] for label in findings.suggested[rows].tolist()]
    differs = (findings.suggested != findings.given)[rows].tolist()
    counted = [
        (confidence, decision.label == label)
        for decision, label, confidence, other in zip(
            reviewed, suggested, _floats(findings.confidence[rows]), differs, strict=True
        )
        if other == changes
    ]
    bands = []
    for low, high in pairwise(BANDS):
        inside = [agreed for c, agreed in counted if low <= c and (c < high or high == BANDS[-1])]
        bands.append(Band(low, high, len(inside), sum(inside)))
    return [*bands, Band(BANDS[0], BANDS[-1], len(counted), sum(agreed for _, agreed in counted))]


def _floats(values: Tensor) -> list[float]:
    return [float(value) for value in values.double().tolist()]


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"decisions must be a file that can be read; got {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise InputError(
            f"decisions must be a whole JSON file, as the review page saves it; got {path}, which is none. "
            "Save it again from the page: the work is still in the browser."
        ) from None


def _verdict(entry: Any, where: str) -> Verdict:
    if not isinstance(entry, dict):
        raise InputError(f"{where} must be an object; got {type(entry).__name__}.")
    texts = {}
    for key in ("sample_id", "given", "suggested", "verdict"):
        if not isinstance(entry.get(key), str):
            raise InputError(f"{where} must have a text {key!r}; got {entry.get(key)!r:.80}.")
        texts[key] = entry[key]
    verdict, label = texts["verdict"], entry.get("label")
    if verdict not in VERDICTS:
        raise InputError(f"{where} must have one of the verdicts {', '.join(VERDICTS)}; got {verdict!r:.80}.")
    must_be = {"keep": texts["given"], "suggested": texts["suggested"], "drop": None, "skip": None}
    if verdict in must_be and label != must_be[verdict]:
        raise InputError(
            f"{where} must have the label {must_be[verdict]!r} by its verdict {verdict!r}; got {label!r:.80}."
        )
    if verdict == "other" and not isinstance(label, str):
        raise InputError(f"{where} must name the label that was chosen; got {label!r:.80}.")
    return Verdict(texts["sample_id"], texts["given"], verdict, label)
