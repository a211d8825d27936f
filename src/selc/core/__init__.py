"""The paper in a few files that need nothing but torch."""

from selc.core.indexed import IndexedDataset
from selc.core.loss import soft_cross_entropy
from selc.core.mixture import Mixture, fit_mixture, normalise, two_means
from selc.core.selc_loss import SELCLoss
from selc.core.store import Store
from selc.core.watcher import Turn, Watcher

__all__ = [
    "IndexedDataset",
    "Mixture",
    "SELCLoss",
    "Store",
    "Turn",
    "Watcher",
    "fit_mixture",
    "normalise",
    "soft_cross_entropy",
    "two_means",
]
