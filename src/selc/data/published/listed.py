"""Published sets whose images lie in files of their own: ANIMAL-10N, Clothing1M, WebVision."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from selc._io.files import in_short
from selc.data.base import Bundle
from selc.data.image_cache.cache import cache_folder
from selc.data.image_cache.decode import image_pixels
from selc.data.inputs.augment import View
from selc.data.inputs.images import ImageInputs
from selc.data.published.archives import Array
from selc.data.published.shared import numbers, size_notes, some_rows
from selc.errors import InputError
from selc.types import EvalSet

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation of its channels


class ImageFiles(NamedTuple):
    """Images by the names of their files in a folder, with their labels."""

    folder: Path
    names: Sequence[str]
    labels: Array


class Reading(NamedTuple):
    """How files are read."""

    cache: str  # where decoded images are kept: auto, off, or a folder
    workers: int  # processes that decode; 0: one for each processor
    skip_bad: bool  # leave out what cannot be read
    cache_gb: float  # up to which decoded images are kept at all


class Middle(View):
    """The middle of each image in training too, as it is."""

    def train(self, pixels: Tensor, draws: Tensor) -> Tensor:
        return self.test(pixels)


class Part(NamedTuple):
    inputs: ImageInputs
    labels: Tensor
    names: list[str]
    digest: str
    notes: tuple[str, ...]


def image_bundle(
    name: str,
    train: ImageFiles,
    tests: Mapping[str, ImageFiles],
    *,
    classes: tuple[str, ...],
    stored: tuple[int, int],
    view: View,
    augment: bool,
    rows: int,
    reading: Reading,
    val: ImageFiles | None = None,
) -> Bundle:
    """The dataset with all its parts; images are kept in the size ``stored`` and seen through ``view``."""
    picked = some_rows(len(train.names), rows, name)
    if picked is not None:
        chosen = picked.tolist()
        train = ImageFiles(train.folder, [train.names[row] for row in chosen], train.labels[chosen])
    if not augment:
        view = Middle(view.size, view.mean, view.std)
    # The small parts first: what is missing should show before a million images were read.
    parts = {part: _read(name, part, files, stored, view, reading) for part, files in tests.items()}
    clean = _read(name, "val", val, stored, view, reading) if val is not None else None
    own = _read(name, "train", train, stored, view, reading)
    notes = [note for part in (own, *parts.values(), *([clean] if clean else [])) for note in part.notes]
    sizes = [] if picked is not None else size_notes(name, len(own.labels), len(next(iter(parts.values())).labels))
    return Bundle(
        inputs=own.inputs,
        labels=own.labels,
        classes=classes,
        shape=(3, *view.size),
        tests={part: EvalSet(found.inputs, found.labels) for part, found in parts.items()},
        val=None if clean is None else EvalSet(clean.inputs, clean.labels),
        ids=own.names,
        notes=[*dict.fromkeys(notes), *sizes],
        digest=own.digest,
    )


def _read(name: str, part: str, files: ImageFiles, stored: tuple[int, int], view: View, reading: Reading) -> Part:
    if outside := next((n for n in files.names if os.path.isabs(n) or ".." in n.replace("\\", "/").split("/")), None):
        raise InputError(f"the {part} list of data {name!r} must name files in {files.folder}; got {outside!r}.")
    paths = [files.folder / file for file in files.names]
    if not paths[0].is_file() and not paths[-1].is_file():
        raise InputError(
            f"the images of data {name!r} must lie in {files.folder}; got none there of the {part} list, "
            f"whose first is {files.names[0]}. Unpack them into that folder."
        )
    pixels, found = image_pixels(
        paths,
        stored,
        resize="shorter",
        cache=cache_folder(reading.cache),
        workers=reading.workers,
        names=[f"{name}: {file}" for file in files.names],
        source=f"{name} {part} {files.folder.resolve()} {len(paths)}",
        skip_bad=reading.skip_bad,
        limit=int(reading.cache_gb * 1e9),
    )
    labels, names, notes = numbers(files.labels), list(files.names), found.notes
    if found.kept is not None:
        labels, names = labels[found.kept], [names[row] for row in found.kept.tolist()]
        notes = (*notes, f"{len(found.bad)} images of the {part} list cannot be read and were left out.")
    return Part(ImageInputs(pixels, view), labels, names, found.digest, notes)


def lines(path: Path) -> list[str]:
    """The lines of a list that are not empty, or an error that names it."""
    try:
        return [line for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()) if line]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} must be a readable list, as it comes with the dataset; got: {in_short(error)}."
        ) from None
