"""Macro F1."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.training.metrics.base import metric


@metric("macro_f1", "macro F1")
def macro_f1(predictions: Tensor, labels: Tensor, num_classes: int) -> float:
    """Mean over the classes of F1, the harmonic mean of precision and recall.

    F1 of a class is ``2 hits / (labels + predictions)`` of it; the classes are those that either of them names.
    """
    hit = labels[predictions == labels]
    hits, labelled, predicted = (torch.bincount(rows, minlength=num_classes + 1) for rows in (hit, labels, predictions))
    count = (labelled + predicted).double()
    named = count > 0
    return float((2 * hits[named] / count[named]).mean())
