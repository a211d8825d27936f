"""Labels that another run corrected, to train on in the place of those that the data bring."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from selc.core.store import Store
from selc.data import Bundle
from selc.errors import InputError
from selc.run.cleaned import cleaned_labels, cleaned_table
from selc.run.config import LabelSource
from selc.run.folder import RunFolder


class Corrected(NamedTuple):
    """Labels of each row [N], and the soft targets [N, C] that they come from, if those are to be trained on."""

    labels: Tensor
    target: Store | None = None
    rows: Tensor | None = None  # to train on; None: all


def corrected_by(source: LabelSource, bundle: Bundle) -> Corrected:
    """The labels that a finished run on the same data corrected, or that `selc apply` wrote."""
    if cleaned_table(Path(source.path)) is not None:
        if source.kind == "soft":
            raise InputError(f"--soft needs the soft targets of a run; got {source.path}, a table of cleaned labels.")
        cleaned = cleaned_labels(source.path, bundle)
        return Corrected(cleaned.labels, rows=cleaned.rows)
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
    return Corrected(run.corrected(), run.table("target") if source.kind == "soft" else None)
