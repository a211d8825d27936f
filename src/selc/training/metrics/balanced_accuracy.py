"""Balanced accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.training.metrics.base import metric


@metric("balanced_accuracy", "balanced accuracy")
def balanced_accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Mean over the classes of the share of their rows that is predicted right: a rare class counts as a frequent one.

    The classes are those that the labels of the set name.
    """
    count = torch.bincount(labels)
    right = torch.bincount(labels[predictions == labels], minlength=len(count))
    named = count > 0
    return float((right[named] / count[named].double()).mean())
