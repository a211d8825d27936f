"""Listed images and their labels as a dataset: decoded, without what is bad, with one size and one set of classes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from selc.data.base import Bundle
from selc.data.image_cache.cache import cache_folder, json_digest
from selc.data.image_cache.decode import Decoded, image_pixels, mean_and_std, shown
from selc.data.image_cache.pool import File
from selc.data.image_cache.worker import Resize, size_of
from selc.data.inputs.augment import View
from selc.data.inputs.images import ImageInputs, Pixels
from selc.data.preprocess.labels import Where, bad_labels, checked_classes, encode, notes_on
from selc.data.sources.originals import original_pictures
from selc.data.sources.recognise import SMALL_IMAGE, suits
from selc.errors import ConfigError
from selc.types import EvalSet

LARGEST = 224  # pixels a side that are taken without being asked
SQUARE = 1.25  # longer by shorter side up to which an image is stretched to a square
SLOWLY = "train slowly without a GPU"  # what a note says that only matters to a network that is shown the images
LOOKED_AT = 1_000  # images whose size is read to choose one for all
RECORDED = 50  # names of samples left out that a note lists

Resizing = Literal["auto", "stretch", "shorter"]
Augmenting = Literal["crop-flip", "crop", "none"]
Items = Sequence[File]


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
class Listing:
    """Images and their labels, before any of them was read."""

    what: str  # as messages call it: "the data", "test"
    source: str  # where all of it comes from
    items: Items
    names: Sequence[str]
    labels: Sequence[str]
    where: Where
    digest: str = ""  # of bytes that are not in files
    notes: Sequence[str] = ()
    classes: tuple[str, ...] | None = None  # where the data brings them
    numbered: bool = False  # whether names are but the numbers of rows
    groups: Tensor | None = None  # rows that belong together
    time: Tensor | None = None  # when each row was taken


class Chosen(Sequence[File]):
    """Some of the items, read only when asked for."""

    def __init__(self, items: Items, rows: Sequence[int]) -> None:
        self.items, self.rows = items, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self.items[place] for place in self.rows[row]]
        return self.items[self.rows[row]]


@dataclass(frozen=True)
class _Read:
    """A listing of which every image was read."""

    pixels: Pixels
    found: Decoded
    labels: Tensor
    ids: list[str]
    classes: tuple[str, ...]
    skipped: list[tuple[str, str]]  # (name, why)
    notes: list[str]
    rows: Tensor  # of the listing that are left

    def among(self, values: Tensor | None) -> Tensor | None:
        return None if values is None else values[self.rows]


def image_bundle(
    train: Listing, tests: Mapping[str, Listing], val: Listing | None, how: Reading, notes: Sequence[str] = ()
) -> Bundle:
    """Images as a dataset; ``val`` and ``tests`` are resized and normalised like the training images."""
    side, resize = size_for(train.items, how)
    first = _read(train, train.classes, side, resize, how)
    others = {name: _read(listing, first.classes, side, resize, how) for name, listing in tests.items()}
    held = _read(val, first.classes, side, resize, how) if val is not None else None
    view = view_of(first.pixels, (side, side), how.augment)
    everything = [first, *others.values(), *([held] if held else [])]
    skipped = [sample for each in everything for sample in each.skipped]
    return Bundle(
        inputs=ImageInputs(first.pixels, view, resize=resize),
        labels=first.labels,
        classes=first.classes,
        shape=(3, side, side),
        tests={name: EvalSet(ImageInputs(read.pixels, view), read.labels) for name, read in others.items()},
        val=EvalSet(ImageInputs(held.pixels, view), held.labels) if held else None,
        ids=first.ids,
        notes=[
            *notes,
            *(note for listing in (train, *tests.values(), *([val] if val else [])) for note in listing.notes),
            *_size_notes(first.found, side, resize),
            *first.notes,
            *notes_on(first.labels, first.classes),
            *skipped_note(skipped),
        ],
        skipped=skipped,
        recipe=suits(len(first.labels), side),
        digest=json_digest(first.classes, [(each.found.digest, each.ids, each.labels.tolist()) for each in everything]),
        pictures=original_pictures(Chosen(train.items, first.rows.tolist()), first.ids),
        numbered=train.numbered,
        groups=first.among(train.groups),
        time=first.among(train.time),
    )


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


def _read(listing: Listing, classes: tuple[str, ...] | None, side: int, resize: Resize, how: Reading) -> _Read:
    bad = bad_labels(listing.labels, classes, listing.what, listing.where, how.skip_bad)
    rows = [row for row in range(len(listing.labels)) if row not in bad]
    names = [listing.names[row] for row in rows]
    pixels, found = image_pixels(
        Chosen(listing.items, rows) if bad else listing.items,
        (side, side),
        resize=resize,
        cache=cache_folder(how.cache),
        workers=how.workers,
        names=names,
        digest=json_digest(listing.digest, rows) if listing.digest else "",
        source=listing.source,
        skip_bad=how.skip_bad,
        limit=int(how.cache_gb * 1e9),
    )
    skipped = [(shown(listing.names[row]), reason) for row, reason in sorted(bad.items())]
    skipped += [(shown(names[row]), reason) for row, reason in found.bad]
    kept = range(len(rows)) if found.kept is None else found.kept.tolist()
    labels = [listing.labels[rows[row]] for row in kept]
    classes = classes or checked_classes(labels, listing.what)
    notes = contradictions(found.alike, names, [listing.labels[row] for row in rows])
    ids = [shown(names[row]) for row in kept]
    left = torch.tensor([rows[row] for row in kept])
    return _Read(pixels, found, encode(labels, classes), ids, classes, skipped, notes, left)


def contradictions(alike: Sequence[Sequence[int]], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """A note on files that hold the very same bytes under different labels."""
    torn = [rows for rows in alike if len({labels[row] for row in rows}) > 1]
    if not torn:
        return []
    first = torn[0][0]
    other = next(row for row in torn[0] if labels[row] != labels[first])
    return [
        f"{sum(map(len, torn))} images are the same file as another one with a different label, such as "
        f"{shown(names[first])} ({labels[first]}) and {shown(names[other])} ({labels[other]}): at most one can be right"
    ]


def skipped_note(skipped: Sequence[tuple[str, str]]) -> list[str]:
    """The record of what was left out."""
    if not skipped:
        return []
    listed = ", ".join(f"{name} ({reason})" for name, reason in skipped[:RECORDED])
    more = f" and {len(skipped) - RECORDED} more" if len(skipped) > RECORDED else ""
    return [f"{len(skipped)} bad {'sample was' if len(skipped) == 1 else 'samples were'} left out: {listed}{more}"]


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
