"""Arrays as they are, and what to make of an array that may be images, features or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from selc.data.inputs.arrays import ArrayInputs
from selc.data.inputs.torch_datasets import DatasetInputs
from selc.data.preprocess.features import Features, Scale, checked_array, finite
from selc.data.preprocess.imagery import Augmenting, Images
from selc.data.preprocess.preprocessor import Made, Preprocessor, Transform
from selc.data.sources.listing import Listing
from selc.types import Inputs

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Plain:
    """A preprocessor that changes nothing: arrays [N, ...] of one shape, in 32 bits, or what a dataset yields."""

    shape: tuple[int, ...] = ()

    @property
    def side(self) -> int | None:
        return min(self.shape[1:]) if len(self.shape) == 3 else None

    def rows(self, listing: Listing, /) -> Made:
        x = checked_array(listing.items, listing.source, self.shape)
        return Made(self.apply(torch.from_numpy(x.astype(np.float32))))

    def apply(self, items: Any) -> Inputs:
        return ArrayInputs(items) if isinstance(items, torch.Tensor) else DatasetInputs(items)

    def state(self) -> dict[str, Any]:
        return {"kind": "arrays"}


def learnt_array(listing: Listing, augment: Augmenting, origin: Transform | None) -> tuple[Preprocessor, Made]:
    """Bytes [N, H, W] or with channels are images, [N, D] are features, all else stays as it is."""
    x = listing.items
    how: Preprocessor
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        how, images = Images.of_bytes(x, augment)
        return how, Made(images)
    if x.ndim == 2:
        numbers = finite(x, listing.source, listing.where)
        how = Features(Scale.of(numbers), tuple(f"{k}" for k in range(x.shape[1])), encoding=origin)
        return how, Made(how.scaled(numbers))
    how = Plain(x.shape[1:])
    return how, how.rows(listing)
