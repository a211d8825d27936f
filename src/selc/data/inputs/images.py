"""Images as bytes: kept as they are, cut out and normalised batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from selc.data.image_cache.worker import Resize
from selc.data.inputs.augment import View


class Pixels(Protocol):
    """Where pixels come from: an array, a memory-mapped cache, files that are decoded on the way."""

    def __len__(self) -> int: ...

    def stream(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """The pixels of each batch of rows, uint8 [B, K, H, W]."""

    def to(self, device: torch.device) -> Pixels: ...


class ArrayPixels:
    """Bytes [N, K, H, W] in memory, or in a memory-mapped file of which only what is asked for is read."""

    def __init__(self, array: Tensor | np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self.array = array
        self.device = array.device if isinstance(array, Tensor) else torch.device("cpu")

    def __len__(self) -> int:
        return len(self.array)

    def stream(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        for rows in batches:
            if isinstance(self.array, Tensor):
                yield self.array.index_select(0, rows)
            else:
                yield torch.from_numpy(self.array[rows.cpu().numpy()]).to(self.device, non_blocking=True)

    def to(self, device: torch.device) -> ArrayPixels:
        moved = ArrayPixels(self.array.to(device) if isinstance(self.array, Tensor) else self.array)
        moved.device = device
        return moved


class ImageInputs:
    """Images as inputs of a network; the draws of their augmentation are keyed by row."""

    def __init__(
        self, pixels: Pixels, view: View, device: torch.device | None = None, resize: Resize = "stretch"
    ) -> None:
        self.pixels, self.view, self.device = pixels, view, device or torch.device("cpu")
        self.resize: Resize = resize  # how files were brought to the size of the pixels, for later ones

    def __len__(self) -> int:
        return len(self.pixels)

    def stream(self, batches: Sequence[Tensor], seed: int | None) -> Iterator[Tensor]:
        if seed is None:
            for pixels in self.pixels.stream(batches):
                yield self.view.test(pixels)
            return
        # One draw for the whole epoch, addressed by row: it does not depend on who asks for the row.
        draws = torch.rand(len(self), 3, generator=torch.Generator().manual_seed(seed)).to(self.device)
        for rows, pixels in zip(batches, self.pixels.stream(batches), strict=True):
            yield self.view.train(pixels, draws.index_select(0, rows))

    def to(self, device: torch.device) -> ImageInputs:
        return ImageInputs(self.pixels.to(device), self.view, device, self.resize)
