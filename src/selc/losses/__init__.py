"""The losses of the paper, for this library and for loops of one's own; they need nothing but torch."""

from selc.losses.cross_entropy import soft_cross_entropy
from selc.losses.indexed import IndexedDataset
from selc.losses.selc_loss import SELCLoss
from selc.losses.watcher import Turn, Watcher

__all__ = ["IndexedDataset", "SELCLoss", "Turn", "Watcher", "soft_cross_entropy"]
