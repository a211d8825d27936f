"""Log loss."""

from __future__ import annotations

from torch import Tensor

from selc.training.metrics.base import metric


@metric("log_loss", "log loss", best=0.0, share=False)
def log_loss(losses: Tensor) -> float:
    """Mean of -log of the probability of the label, in nats: being sure of a wrong class costs most.

    A row costs 87.3 at most, which is -log of the smallest number of float32.
    """
    return float(losses.double().mean())
