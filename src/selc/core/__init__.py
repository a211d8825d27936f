"""The paper in a few files that need nothing but torch."""

from selc.core.indexed import IndexedDataset
from selc.core.loss import SELCLoss, soft_cross_entropy
from selc.core.mixture import Mixture, fit_mixture, normalise, two_means
from selc.core.store import Store

__all__ = [
    "IndexedDataset",
    "Mixture",
    "SELCLoss",
    "Store",
    "fit_mixture",
    "normalise",
    "soft_cross_entropy",
    "two_means",
]
