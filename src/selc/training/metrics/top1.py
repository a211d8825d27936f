"""Top-1 accuracy."""

from __future__ import annotations

from torch import Tensor

from selc.training.metrics.base import HEADLINE, metric


@metric(HEADLINE, "top-1")
def top1(ranks: Tensor) -> float:
    """Share of the rows whose label is the most probable class."""
    return share_within(ranks, 1)


def share_within(ranks: Tensor, places: int) -> float:
    """Share of the rows whose label is among the first ``places``; in float32, as results have always been written."""
    return float((ranks < places).sum().float() / len(ranks))
