"""The same analysis for whoever has out-of-sample probabilities from elsewhere: no training, no method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc.analysis.label_analysis import LabelAnalysis, by_evidence
from selc.errors import InputError
from selc.turning.decision import decide
from selc.turning.evidence import Evidence

SUMS = 0.01  # by how much a row may miss a sum of one: half precision and rounded decimals do


def analyse_probabilities(pred_probs: Any, labels: Any) -> LabelAnalysis:
    """How many of the given labels are wrong, which, and what they should be, by probabilities from elsewhere.

    Each row must come from a model that was not trained on it, as in cross-validation. One set of probabilities does
    not show whether wrong labels were learnt by heart, so labels are changed only if the model is not surer than it is
    right, and only as many as are wrong at least.

    Parameters
    ----------
    pred_probs : array-like of shape (N, C)
        Probabilities of the classes; rows sum to one.
    labels : array-like of shape (N,)
        Given labels, whole numbers from 0 to C - 1.

    Returns
    -------
    LabelAnalysis
        Noise rate with its range, findings for each label, corrected labels, transition matrix.

    Raises
    ------
    InputError
        If the arrays are no such probabilities and labels.

    Examples
    --------
    Digits of which every tenth has a wrong label, and a cross-validated classifier:

    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.model_selection import cross_val_predict
    >>> from selc import analyse_probabilities
    >>> x, true = load_digits(return_X_y=True)
    >>> given = np.where(np.arange(len(true)) % 10 == 0, (true + 1) % 10, true)
    >>> model = RandomForestClassifier(40, random_state=0)
    >>> pred_probs = cross_val_predict(model, x, given, cv=3, method="predict_proba")
    >>> analysis = analyse_probabilities(pred_probs, given)
    >>> 0.05 < analysis.noise_rate.low < analysis.noise_rate.high < 0.2
    True
    >>> bool((analysis.corrected.numpy() == true).mean() > 0.92)
    True
    """
    p = checked_probabilities(pred_probs)
    given = _checked_labels(labels, *p.shape)
    confidence, predicted = p.max(dim=1)
    evidence = Evidence(
        labels=given,
        predictions=predicted[None],
        confidences=confidence[None],
        given=p.gather(1, given[:, None]).T,
        num_classes=p.shape[1],
        splits=1,
        rows=torch.arange(len(given)),
    )
    found = by_evidence(evidence, decide(evidence, 1), None, given, believed=predicted, last=predicted)
    return replace(found, decision=None)  # nothing was trained here, so there is no start of SELC to speak of


def checked_probabilities(pred_probs: Any) -> Tensor:
    """The probabilities [N, C] in double precision, or an error that says why they are none."""
    array = np.asarray(pred_probs)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) == 0 or array.dtype.kind not in "fiub":
        raise InputError(
            f"pred_probs must be numbers [N, C], a row for each sample and a column for each of at least two classes; "
            f"got shape {list(array.shape)} of {array.dtype}. Labels of tokens, of pixels and of several classes at "
            "once are not supported."
        )
    p = torch.from_numpy(array.astype(np.float64))
    if not bool(torch.isfinite(p).all()):
        raise InputError("pred_probs must be finite; got NaN or infinite values. Predict every row.")
    low, high = float(p.min()), float(p.max())
    if low < -SUMS or high > 1 + SUMS:
        raise InputError(
            f"pred_probs must be in [0, 1]; got values from {low:.4g} to {high:.4g}. Of logits take the softmax."
        )
    off = (p.sum(dim=1) - 1).abs()
    if float(off.max()) > SUMS:
        row = int(off.argmax())
        raise InputError(
            f"rows of pred_probs must sum to one; got {float(p[row].sum()):.4g} in row {row}. Probabilities of several "
            "classes at once (multi-label) are not supported."
        )
    return p.clamp(0, 1)


def _checked_labels(labels: Any, rows: int, num_classes: int) -> Tensor:
    try:
        array = np.asarray(labels)
    except ValueError:  # lists of several lengths
        raise InputError(
            "labels must be one class for each row of pred_probs; got several for some. Several labels of a sample "
            "(multi-label) are not supported."
        ) from None
    if array.ndim != 1 or len(array) != rows:
        raise InputError(
            f"labels must be one class for each of the {rows} rows of pred_probs; got shape {list(array.shape)}. "
            "Several labels of a sample (multi-label) are not supported."
        )
    if array.dtype.kind in "USO":
        raise InputError(
            f"labels must be numbers of classes, columns of pred_probs; got {str(array[0])!r}. Turn names into places "
            "among the sorted names: np.unique(labels, return_inverse=True)[1]."
        )
    if array.dtype.kind not in "iu":
        raise InputError(
            f"labels must be whole numbers of classes; got {array.dtype}. Measurements (regression) are not supported: "
            "turn them into classes first."
        )
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= num_classes:
        raise InputError(
            f"labels must count the {num_classes} columns of pred_probs from 0; got values from {low} to {high}."
        )
    if low == high:
        raise InputError(f"labels must name at least two classes; got only {low}.")
    return torch.from_numpy(array.astype(np.int64))
