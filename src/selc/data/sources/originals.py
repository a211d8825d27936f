"""Samples as a person sees them: the photograph itself, as large as asked for, whatever the network was shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from selc.data.image_cache import worker
from selc.data.image_cache.decode import shown
from selc.data.image_cache.pool import File
from selc.data.inputs.images import ImageInputs
from selc.errors import InputError
from selc.types import Inputs

Pictures = Callable[[Sequence[int], int], list[Tensor]]  # rows, longest side -> bytes [K, H, W] each


def original_pictures(items: Sequence[File], names: Sequence[str]) -> Pictures:
    """Pictures of files, or of the bytes of such, in their own proportions; ``names`` are for messages."""

    def at(rows: Sequence[int], largest: int) -> list[Tensor]:
        return [picture(items[row], largest, shown(names[row])) for row in rows]

    return at


def picture(item: File, largest: int, name: str) -> Tensor:
    """One image upright, uint8 [3, H, W], made smaller if its longer side is more than ``largest`` pixels."""
    place: str | bytes = item if isinstance(item, bytes) else str(item)
    size = worker.size_of(place)
    try:
        if size is None or min(size) < 1:
            raise worker.BadImageError("it cannot be read")
        scale = min(1.0, largest / max(size))
        wanted = tuple(max(1, round(side * scale)) for side in size)
        data = place if isinstance(place, bytes) else worker.read(place)
        pixels, _ = worker.decode(data, wanted, "stretch")
    except Exception as error:  # whatever a broken file provokes in a decoder
        raise InputError(f"{name} must still be the image of the run; got: {worker.why(error)}.") from None
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)  # what a decoder hands out may not be written to


def stored_pictures(inputs: Inputs) -> Pictures | None:
    """Pictures of inputs that are images themselves; None for others."""
    if isinstance(inputs, ImageInputs):
        return lambda rows, largest: list(next(iter(inputs.pixels.stream([torch.tensor(list(rows))]))).cpu())
    first = next(iter(inputs.stream([torch.tensor([0])], None)))
    if first.dim() != 4 or first.shape[1] not in (1, 3) or min(first.shape[2:]) < 4:
        return None

    def at(rows: Sequence[int], largest: int) -> list[Tensor]:
        x = next(iter(inputs.stream([torch.tensor(list(rows))], None))).float().cpu()
        low, high = float(x.min()), float(x.max())
        return list(((x - low) * (255 / max(high - low, 1e-12))).round().clamp(0, 255).byte())

    return at


def small_enough(pictures: Sequence[Tensor], side: int) -> bool:
    return max((max(picture.shape[1:]) for picture in pictures), default=0) <= side
