"""What a person decided on the review page of an analysis that has no run, as labels to go on with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from selc.analysis import LabelAnalysis
from selc.analysis.findings import Column
from selc.errors import InputError
from selc.noise.base import label_digest
from selc.runs.decisions import Decisions, fingerprint_of


class DecidedLabels(NamedTuple):
    """Labels after a review, [N] each."""

    labels: Tensor  # what was decided; of other samples, the corrected labels
    verified: Tensor  # booleans: a person decided on the label
    dropped: Tensor  # booleans: a person dropped the sample


def decided_labels(
    analysis: LabelAnalysis, path: Path | str, *, ids: Column | None = None, classes: Column | None = None
) -> DecidedLabels:
    """Read the decisions that the review page of ``analysis`` saved, with the checks that those of a run have."""
    N, C = len(analysis.corrected), len(analysis.transition_matrix)
    names = [str(name) for name in (range(N) if ids is None else ids)]
    kinds = [str(name) for name in (range(C) if classes is None else classes)]
    decisions = Decisions.read(path)
    if decisions.run != fingerprint_of(label_digest(analysis.findings.given), "", kinds):
        raise InputError(
            f"decisions must come from a review of these labels and names of classes; got {path}, which was saved from "
            "a review of others. Give the ids and classes that the review was written with."
        )
    decisions.check(names, kinds, [kinds[label] for label in analysis.findings.given.tolist()])
    place = {name: row for row, name in enumerate(names)}
    number = {name: k for k, name in enumerate(kinds)}
    labels = analysis.corrected.clone()
    verified, dropped = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
    for decision in decisions.made.values():
        row = place[decision.sample_id]
        dropped[row] = decision.verdict == "drop"
        if decision.label is not None:
            labels[row], verified[row] = number[decision.label], True
    return DecidedLabels(labels, verified, dropped)
