"""To cleanlab and back: its columns, its whole numbers for labels, its matrix with columns that sum to one.

cleanlab's ``noise_matrix`` is P(given = row | true = column), the transpose of our ``transition_matrix_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from selc.analysis import LabelAnalysis
from selc.analysis.findings import Column
from selc.errors import ConfigError, InputError
from selc.runs.folder import RunFolder

Array = np.ndarray[Any, np.dtype[Any]]
COLUMNS = ("is_label_issue", "label_quality", "given_label", "predicted_label")


@dataclass(frozen=True)
class ForCleanlab:
    """What cleanlab's functions take, by their names."""

    labels: Array  # [N] whole numbers from 0
    pred_probs: Array  # [N, C]
    label_issues: Any  # a pandas DataFrame with cleanlab's four columns, labels as whole numbers
    noise_matrix: Array  # [C, C] P(given = row | true = column); columns sum to one
    classes: Array  # [C] what the whole numbers stand for


class Fitted(Protocol):
    """What is read of a fitted `selc.SELCClassifier`."""

    classes_: Array
    label_issues_: dict[str, Array]
    pred_probs_: Array
    transition_matrix_: Array


def to_cleanlab(
    source: Fitted | RunFolder | LabelAnalysis | Path | str, pred_probs: Any = None, *, classes: Column | None = None
) -> ForCleanlab:
    """The result of a fitted `SELCClassifier`, of a finished run or of an analysis, as cleanlab takes it.

    ``pred_probs`` [N, C] replaces the network's own probabilities. cleanlab is meant for those of samples that the
    network has not seen (``cross_val_predict(..., method="predict_proba")``); ours were seen, though by a network that
    did not learn their wrong labels by heart. An analysis has no probabilities, only what it concludes of each label:
    there the given label has its quality, and the suggested class the rest (else the predicted one; if that is the
    given label, all others). ``classes`` [C] names its classes, by default by number.
    """
    if isinstance(source, LabelAnalysis):
        C = len(source.transition_matrix)
        names = np.arange(C) if classes is None else np.asarray(classes)
        if len(names) != C:
            raise InputError(f"classes must be the names of {C} classes; got {len(names)}.")
        table, probs, matrix = source.issues(classes=names), _concluded(source), source.transition_matrix.numpy()
        return _handed(table, probs if pred_probs is None else pred_probs, matrix, names)
    if classes is not None:
        raise InputError("classes go with an analysis; got them with what names its own. Leave them out.")
    if isinstance(source, RunFolder | Path | str):
        table, probs, matrix, names = _of_run(source if isinstance(source, RunFolder) else RunFolder.open(source))
    else:
        if not hasattr(source, "label_issues_"):
            raise InputError("a SELCClassifier must be fitted before its result can be handed on; got one that is not.")
        table, names = source.label_issues_, source.classes_
        probs, matrix = source.pred_probs_, source.transition_matrix_
    return _handed(table, probs if pred_probs is None else pred_probs, matrix, names)


def _handed(table: dict[str, Array], pred_probs: Any, matrix: Array, classes: Array) -> ForCleanlab:
    number = {name: k for k, name in enumerate(classes.tolist())}
    numbered = {name: _numbers(table[name], number) if name.endswith("_label") else table[name] for name in COLUMNS}
    given = numbered["given_label"]
    chosen = np.asarray(pred_probs, dtype=np.float64)
    if chosen.shape != (len(given), len(classes)):
        raise InputError(f"pred_probs must be of shape {[len(given), len(classes)]}; got {list(chosen.shape)}.")
    return ForCleanlab(given, chosen, _pandas().DataFrame(numbered), matrix.T.copy(), classes)


def from_cleanlab(
    label_issues: Any, classes: Sequence[Any] | Array, sample_ids: Sequence[Any] | Array | None = None
) -> dict[str, Array]:
    """cleanlab's table as ours: the columns of ``label_issues_``, labels as ``classes`` [C] call them.

    ``label_issues`` is the DataFrame of ``CleanLearning.find_label_issues`` or ``get_label_issues``. A label that it
    calls an issue is to be reviewed, with the predicted label as the suggestion; cleanlab does not say how sure that
    is, so ``suggested_confidence`` is NaN there.
    """
    if missing := [name for name in COLUMNS if name not in getattr(label_issues, "columns", ())]:
        raise InputError(
            f"label_issues must be cleanlab's table with the columns {', '.join(COLUMNS)}; got none called "
            f"{missing[0]!r}. It is what CleanLearning.find_label_issues returns."
        )
    names = np.asarray(classes)
    issue = label_issues["is_label_issue"].to_numpy(dtype=bool)
    given, predicted = (_named(label_issues[name].to_numpy(), names, name) for name in COLUMNS[2:])
    ids = np.arange(len(issue)) if sample_ids is None else np.asarray(sample_ids)
    if ids.shape != issue.shape:
        raise InputError(f"sample_ids must name each of the {len(issue)} rows; got shape {ids.shape}.")
    return {
        "sample_id": ids,
        "is_label_issue": issue,
        "label_quality": label_issues["label_quality"].to_numpy(dtype=np.float64),
        "given_label": given,
        "predicted_label": predicted,
        "suggested_label": np.where(issue, predicted, given),
        "suggested_confidence": np.where(issue, np.nan, 1.0),
        "action": np.where(issue, "review", "keep"),
    }


def transition_matrix(noise_matrix: Any) -> Array:
    """cleanlab's ``noise_matrix`` as our transition matrix: P(given = column | true = row), rows sum to one."""
    matrix = np.asarray(noise_matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix.sum(axis=0), 1, atol=1e-6):
        sums = np.round(np.atleast_1d(matrix.sum(axis=0)), 3).tolist()
        raise InputError(
            "noise_matrix must be square with columns that sum to one, as cleanlab has it; "
            f"got shape {list(matrix.shape)} with column sums {sums}."
        )
    return matrix.T.copy()


def _of_run(run: RunFolder) -> tuple[dict[str, Array], Array, Array, Array]:
    classes = np.array(run.classes, dtype=np.str_)
    analysis = run.analysis()
    table = analysis.issues(run.ids, run.classes)
    probs = run.table("probs").full().double().numpy()
    matrix = analysis.transition_matrix.double().numpy()
    return table, probs, matrix, classes


def _concluded(analysis: LabelAnalysis) -> Array:
    """What an analysis concludes of each label, as probabilities [N, C]."""
    found, C = analysis.findings, len(analysis.transition_matrix)
    given, quality = found.given, found.quality.double().clamp(0, 1)
    other = torch.where(found.suggested != given, found.suggested, found.predicted)
    rest = torch.where(other == given, (1 - quality) / (C - 1), 0.0)
    p = rest[:, None].expand(-1, C).clone()
    p.scatter_(1, other[:, None], (1 - quality)[:, None])
    p.scatter_(1, given[:, None], quality[:, None])
    return p.numpy()


def _numbers(labels: Array, number: dict[Any, int]) -> Array:
    return np.array([number[label] for label in labels.tolist()], dtype=np.int64)


def _named(labels: Array, names: Array, column: str) -> Array:
    """Whole numbers as names; labels that are names already stay so."""
    if labels.dtype.kind not in "iu":
        return np.asarray(labels)
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(names):
        raise InputError(f"{column} must count the {len(names)} classes from 0; got {labels.min()} to {labels.max()}.")
    return np.asarray(names[labels])


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ConfigError(
            "cleanlab's tables need pandas; got no such package. Install it: pip install cleanlab."
        ) from None
    return pandas


__all__ = ["ForCleanlab", "from_cleanlab", "to_cleanlab", "transition_matrix"]
