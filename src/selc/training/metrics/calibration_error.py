"""Expected calibration error (Naeini et al., AAAI 2015; Guo et al., ICML 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.training.metrics.base import metric

BINS = 15  # as in the second paper, and since then nearly everywhere


@metric("calibration_error", "calibration error", best=0.0)
def calibration_error(confidences: Tensor, predictions: Tensor, labels: Tensor) -> float:
    """How far the confidence is from the accuracy (ECE): 0 if, of what is predicted with 70 %, 70 % is right.

    Rows fall by confidence into 15 bins of equal width, ((b - 1) / 15, b / 15]. Over the bins B, with M rows in all::

        ECE = sum_B |B| / M * |accuracy(B) - mean confidence(B)|
    """
    surplus = (predictions == labels).double() - confidences.double()
    bins = (confidences.double() * BINS).ceil().long().clamp(1, BINS) - 1
    return float(torch.bincount(bins, surplus, minlength=BINS).abs().sum() / len(labels))
