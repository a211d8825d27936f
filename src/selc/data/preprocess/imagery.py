"""Images as pixels: decoded, brought to one size, normalised by the training images."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from selc.data.image_cache.cache import cache_folder
from selc.data.image_cache.decode import Decoded, image_pixels, mean_and_std, shown
from selc.data.image_cache.worker import Resize, size_of
from selc.data.inputs.augment import View
from selc.data.inputs.images import ArrayPixels, ImageInputs, Pixels
from selc.data.preprocess.preprocessor import Made
from selc.data.sources.listing import Items, Listing
from selc.data.sources.recognise import SMALL_IMAGE
from selc.errors import ConfigError, InputError

Array = np.ndarray[Any, np.dtype[Any]]
LARGEST = 224  # pixels a side that are taken without being asked
SQUARE = 1.25  # longer by shorter side up to which an image is stretched to a square
SLOWLY = "train slowly without a GPU"  # what a note says that only matters to a network that is shown the images
LOOKED_AT = 1_000  # images whose size is read to choose one for all

Resizing = Literal["auto", "stretch", "shorter"]
Augmenting = Literal["crop-flip", "crop", "none"]


@dataclass(frozen=True)
class Reading:
    """How images are read."""

    size: int = 0  # pixels a side; 0: the median of the images
    resize: Resizing = "auto"
    augment: Augmenting = "crop-flip"
    skip_bad: bool = False
    workers: int = 0
    cache: str = "auto"
    cache_gb: float = 8.0

    def __post_init__(self) -> None:
        if self.size < 0 or 0 < self.size < 4:
            raise ConfigError(f"size must be at least 4 pixels, or 0 for the median of the images; got {self.size}.")
        if self.workers < 0:
            raise ConfigError(f"workers must be 0 (one for each processor) or more; got {self.workers}.")
        if self.cache_gb < 0:
            raise ConfigError(f"cache_gb must be 0 or more; got {self.cache_gb:g}.")


@dataclass(frozen=True)
class Images:
    """A preprocessor: files of images, or their bytes, as pixels of one size that are normalised batch by batch."""

    view: View
    channels: int
    stored: tuple[int, int]  # before the window of the view is cut out
    resize: Resize = "stretch"
    reading: Reading = Reading(cache="off")
    published: bool = False  # whether size and colours are those of a set that is known by name, and nobody's choice

    @classmethod
    def learnt(cls, listing: Listing, side: int, resize: Resize, how: Reading) -> tuple[Images, Made]:
        """The preprocessor for training images, and these."""
        pixels, found = _decoded(listing, (side, side), resize, how)
        images = cls(view_of(pixels, (side, side), how.augment), 3, (side, side), resize, how)
        return images, images._made(pixels, found, listing)

    @classmethod
    def of_bytes(cls, array: Array, augment: Augmenting) -> tuple[Images, ImageInputs]:
        pixels = byte_pixels(array)
        channels, *size = pixels.array.shape[1:]
        view = view_of(pixels, (size[0], size[1]), augment)
        return cls(view, channels, (size[0], size[1])), ImageInputs(pixels, view)

    @classmethod
    def of(cls, inputs: ImageInputs) -> Images:
        """What makes such inputs."""
        _, channels, *stored = next(iter(inputs.pixels.stream([torch.tensor([0])]))).shape
        return cls(inputs.view, channels, (stored[0], stored[1]), inputs.resize)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], skip_bad: bool = False) -> Images:
        """The preprocessor of a run folder."""
        (height, width), stored = state["size"], tuple(state["stored"])
        view = View((height, width), tuple(state["mean"]), tuple(state["std"]))
        return cls(view, state["shape"][0], stored, state["resize"], Reading(cache="off", skip_bad=skip_bad))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.channels, *self.view.size)

    @property
    def side(self) -> int | None:
        return min(self.view.size)

    def rows(self, listing: Listing, /) -> Made:
        if isinstance(listing.items, np.ndarray):
            return Made(ImageInputs(self._like(listing.items, listing.source), self.view, resize=self.resize))
        if self.channels != 3:
            raise InputError(
                f"the data of this run must be images with {self.channels} channels in an .npz file; got "
                f"{listing.source}."
            )
        return self._made(*_decoded(listing, self.stored, self.resize, self.reading), listing)

    def state(self) -> dict[str, Any]:
        return {
            "kind": "images",
            "stored": list(self.stored),
            "resize": self.resize,
            "size": list(self.view.size),
            "mean": list(self.view.mean),
            "std": list(self.view.std),
        }

    def _made(self, pixels: Pixels, found: Decoded, listing: Listing) -> Made:
        kept = None if found.kept is None else found.kept.tolist()
        sizes = found.notes if self.published else _size_notes(found, self.stored[0], self.resize)
        notes = [*sizes, *_contradictions(found.alike, listing)]
        return Made(ImageInputs(pixels, self.view, resize=self.resize), kept, found.bad, notes, found.digest)

    def _like(self, array: Array, name: str) -> ArrayPixels:
        """Bytes as images of the size that was stored in training."""
        wanted = [self.channels, *self.stored]
        if array.dtype == np.uint8 and array.ndim in (3, 4):
            pixels = byte_pixels(array)
            if list(pixels.array.shape[1:]) == wanted:
                return pixels
        raise InputError(
            f"{name} must hold images of bytes {wanted} as in the training; got {list(array.shape)} of type "
            f"{array.dtype}."
        )


def byte_pixels(array: Array) -> ArrayPixels:
    """Images [N, K, H, W] of bytes, wherever the array has its channels."""
    order, images = channel_order(array.shape), torch.from_numpy(array)
    if order == "none":
        return ArrayPixels(images.unsqueeze(1))
    return ArrayPixels(images if order == "first" else images.permute(0, 3, 1, 2))


def channel_order(shape: tuple[int, ...]) -> Literal["first", "last", "none"]:
    """Where images [N, ...] of bytes have their 1 or 3 channels."""
    if len(shape) == 3:
        return "none"
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first == last:
        raise InputError(
            "images of bytes must be [N, channels, height, width] or [N, height, width, channels], and clearly so "
            f"by 1 or 3 channels; got {list(shape)}. Write them as floats in the first order."
        )
    return "first" if first else "last"


def view_of(pixels: Pixels, size: tuple[int, int], augment: Augmenting) -> View:
    """Normalised by the mean and deviation of the training images, with the crops and flips that are asked for."""
    mean, std = mean_and_std(pixels)
    padding = 0 if augment == "none" else max(1, min(size) // 8)  # 4 at 32 pixels, as is usual there
    return View(size, mean, std, padding, augment == "crop-flip")


def size_for(items: Items, how: Reading) -> tuple[int, Resize]:
    """One size for all, and how each image is brought to it, from the heads of some of the images."""
    step = max(1, -(-len(items) // LOOKED_AT))
    heads = (size_of(item if isinstance(item, bytes) else str(item)) for item in items[::step])
    sizes = [size for size in heads if size is not None and min(size) > 0] or [(32, 32)]
    shape = statistics.median(max(size) / min(size) for size in sizes)
    resize: Resize = how.resize if how.resize != "auto" else "stretch" if shape <= SQUARE else "shorter"
    if how.size:
        return how.size, resize
    shorter = [min(size) for size in sizes]
    side = int(statistics.median_low(shorter))
    if len(set(shorter)) > 1:
        side = 8 * round(side / 8)  # where most are resized anyway, a number that halves well
    return max(8, min(LARGEST, side)), resize


def _decoded(listing: Listing, size: tuple[int, int], resize: Resize, how: Reading) -> tuple[Pixels, Decoded]:
    return image_pixels(
        listing.items,
        size,
        resize=resize,
        cache=cache_folder(how.cache),
        workers=how.workers,
        names=listing.names,
        digest=listing.digest,
        source=listing.source,
        skip_bad=how.skip_bad,
        limit=int(how.cache_gb * 1e9),
    )


def _contradictions(alike: Sequence[Sequence[int]], listing: Listing) -> list[str]:
    """A note on files that hold the very same bytes under different labels."""
    names, labels = listing.names, listing.labels
    torn = [rows for rows in alike if labels is not None and len({labels[row] for row in rows}) > 1]
    if labels is None or not torn:
        return []
    first = torn[0][0]
    other = next(row for row in torn[0] if labels[row] != labels[first])
    return [
        f"{sum(map(len, torn))} images are the same file as another one with a different label, such as "
        f"{shown(names[first])} ({labels[first]}) and {shown(names[other])} ({labels[other]}): at most one can be right"
    ]


def _size_notes(found: Decoded, side: int, resize: Resize) -> list[str]:
    notes = list(found.notes)
    if found.smallest != found.largest:
        (a, b), (c, d) = found.smallest, found.largest
        how = "stretched" if resize == "stretch" else "their shorter side, then the middle"
        notes.append(f"images have mixed sizes, {a} x {b} to {c} x {d}; all are brought to {side} x {side} ({how})")
    elif found.smallest != (side, side):
        notes.append(f"images of {found.smallest[0]} x {found.smallest[1]} are brought to {side} x {side}")
    if side > SMALL_IMAGE and not torch.cuda.is_available():
        notes.append(
            f"images of {side} pixels {SLOWLY}: make them smaller (--set data.size=64), or train on features of them "
            "(--encoder)"
        )
    return notes
