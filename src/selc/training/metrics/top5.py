"""Top-5 accuracy."""

from __future__ import annotations

from torch import Tensor

from selc.training.metrics.base import metric
from selc.training.metrics.top1 import share_within


@metric("top5", "top-5")
def top5(ranks: Tensor, num_classes: int) -> float | None:
    """Share of the rows whose label is among the five most probable classes, where there are more than five."""
    return share_within(ranks, 5) if num_classes > 5 else None
