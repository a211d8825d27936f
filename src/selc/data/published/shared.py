"""What the published datasets share: sizes to compare with, a subset to try things on, and inputs made of images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.array_files import read_arrays
from selc._io.files import write_whole
from selc.data.base import FACTS
from selc.data.image_cache.cache import cache_folder
from selc.data.published.archives import Array
from selc.errors import ConfigError, InputError, SelcError
from selc.seeding import generator


def some_rows(count: int, rows: int, name: str) -> Tensor | None:
    """A fixed random choice of ``rows`` out of ``count``, None for all; a smaller one is part of a larger one."""
    if rows == 0:
        return None
    if not 2 <= rows <= count:
        raise ConfigError(f"rows of data {name!r} must be 0 for all, or from 2 to {count}; got {rows}.")
    return torch.randperm(count, generator=generator("rows", name))[:rows].sort().values


def checked(labels: Any, count: int, num_classes: int, where: str) -> Array:
    """Whole numbers below ``num_classes``, one for each of ``count`` images, or an error that names the file."""
    try:
        values = np.asarray(labels).reshape(-1)
    except ValueError:
        raise InputError(f"{where} must hold one label per image; got rows of different length.") from None
    if len(values) != count:
        raise InputError(f"{where} must hold a label for each of {count} images; got {len(values)} labels.")
    if count == 0:
        raise InputError(f"{where} must hold images; got none.")
    if values.dtype.kind not in "iu" or not 0 <= int(values.min()) <= int(values.max()) < num_classes:
        got = f"{values.min()} to {values.max()}" if values.dtype.kind in "iu" else f"values of type {values.dtype}"
        raise InputError(f"{where} must hold labels from 0 to {num_classes - 1}; got {got}.")
    return values.astype(np.int64)


def size_notes(name: str, train: int, test: int) -> list[str]:
    """A sentence if there are fewer or more images than were published."""
    facts = FACTS[name]
    found, published = (train, test), (facts.train, facts.test)
    # Table 7 rounds some sizes to thousands: Clothing1M has 10,526 test images, not 10,000.
    if all(abs(a - b) <= 0.06 * b for a, b in zip(found, published, strict=True)):
        return []
    return [
        f"data {name!r} was published with {published[0]:,} and {published[1]:,} images; {train:,} and {test:,} here."
    ]


def array_digest(*arrays: Array) -> str:
    """A hash of the contents, to notice that the data changed between a run and its continuation."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(str((array.shape, array.dtype.str)).encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def kept(key: str, shape: tuple[int, ...], make: Callable[[], Array]) -> Array:
    """Bytes of ``shape`` from the cache, or made and put there; a cache that cannot be written is done without."""
    folder = cache_folder()
    if folder is None:
        return make()
    path = folder / f"{key}.npy"
    try:
        array = read_arrays(path)[""]
        if array.shape == shape and array.dtype == np.uint8:
            return array
    except (OSError, ValueError, KeyError):
        pass  # not there, or not whole: made again
    array = make()

    def write(to: Path) -> None:
        with open(to, "wb") as file:
            np.save(file, array, allow_pickle=False)

    with suppress(SelcError):
        write_whole(path, write)
    return array


def numbers(values: Sequence[int] | Array) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.int64))
