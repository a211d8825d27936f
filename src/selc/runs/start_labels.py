"""Labels to start from in the place of those that the data bring: what another run corrected, what a person decided."""

from __future__ import annotations

import copy
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import torch
from torch import Tensor

from selc._io.files import read_json
from selc.data import Bundle
from selc.errors import InputError
from selc.memory.store import Store
from selc.runs.cleaned import HUMAN, check_places, cleaned_labels, cleaned_table, verified_rows
from selc.runs.config import LabelSource
from selc.runs.folder import RunFolder


class Start(NamedTuple):
    """Labels of each row [N], and the soft targets [N, C] that they come from, if those are to be trained on."""

    labels: Tensor
    target: Store | None = None
    rows: Tensor | None = None  # to train on; None: all
    verified: Tensor | None = None  # [N] booleans: labels that a person has decided on
    before: Tensor | None = None  # [N] the labels that were corrected, where another run did that


def corrected_by(source: LabelSource, bundle: Bundle) -> Start:
    """The labels that a finished run on the same data corrected, or that `selc apply` wrote."""
    if cleaned_table(Path(source.path)) is not None:
        if source.kind == "soft":
            raise InputError(f"--soft needs the soft targets of a run; got {source.path}, a table of cleaned labels.")
        cleaned = cleaned_labels(source.path, bundle)
        return Start(cleaned.labels, rows=cleaned.rows, verified=_some(cleaned.source == HUMAN), before=cleaned.given)
    run = RunFolder.open(source.path)
    if run.classes != bundle.classes or len(run.given) != len(bundle.labels):
        raise InputError(
            f"--labels must be a run on the same data; got {source.path} with {len(run.given)} samples of "
            f"{len(run.classes)} classes, and the data have {len(bundle.labels)} of {len(bundle.classes)}."
        )
    if bundle.ids is not None and run.ids != list(bundle.ids):
        raise InputError(
            f"--labels must be a run on the same data; got {source.path}, whose samples have other names or another "
            "order."
        )
    if bundle.by_place:
        _check_same_rows(run, bundle)
    return Start(
        run.corrected(), run.table("target") if source.kind == "soft" else None, run.rows, run.verified, run.given
    )


def _check_same_rows(run: RunFolder, bundle: Bundle) -> None:
    """Refuse labels of a run by their places alone, unless its data were the very same."""
    before = read_json(run.path / "noise.json").get("data_sha256", "")
    if not before or not bundle.digest:
        check_places(run.given, bundle, f"the run {run.path}")
    elif before != bundle.digest:
        raise InputError(
            f"samples without names are known by their place, so --labels must be a run on the very same data, with "
            f"the same test set; got {run.path}, whose data were others or in another order. Give the samples ids "
            f"(--id-column), or the table that `selc apply {quote(str(run.path))} --out cleaned.csv` writes."
        )


def with_verdicts(start: Start, path: str, bundle: Bundle) -> Start:
    """The same labels, but those that a person decided on are what was decided, and stay so; the dropped are left out.

    A review is about the labels that the training starts from, or about those that were corrected to them.
    """
    about = [start.labels] if start.before is None else [start.before, start.labels]
    verdicts = verified_rows(path, bundle, *about)
    labels, target = start.labels.clone(), start.target
    labels[verdicts.rows] = verdicts.labels
    verified = torch.zeros(len(labels), dtype=torch.bool) if start.verified is None else start.verified.clone()
    verified[verdicts.rows], verified[verdicts.dropped] = True, False
    left = torch.ones(len(labels), dtype=torch.bool)
    if start.rows is not None:
        left[:] = False
        left[start.rows] = True
        left[verdicts.rows] = True  # the last word counts: it was dropped before
    left[verdicts.dropped] = False
    if not bool(left.any()):
        raise InputError(f"--verified must leave samples to train on; got {path}, which drops all of them.")
    if target is not None:
        target = copy.deepcopy(target)
        target.write_labels(verdicts.rows, verdicts.labels)
    return Start(labels, target, None if bool(left.all()) else left.nonzero().flatten(), _some(verified), start.before)


def _some(verified: Tensor) -> Tensor | None:
    return verified if bool(verified.any()) else None
