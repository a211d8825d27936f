"""The forms that a person's own data may have on a disk: one file each, found by itself.

A form of files says by which endings it is known, and opens a file: as a `Table`, or as arrays by name. A form of
folders says whether a folder is one. All else (labels, ids, samples that cannot be used, features, pictures to look at,
new items to predict) is the same for all forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Source:
    """A form that data may have."""

    data: str  # the dataset by name that makes use of it, with its options
    use: Callable[[Path], Any]  # opens a file; of a folder, whether it is one
    endings: tuple[str, ...] = ()  # of a file
    last: bool = False  # whether a folder is asked about only if it is none of the others


SOURCES: dict[str, Source] = {}
TABLES, ARRAYS = "table", "npz"  # the datasets that files are read by


def table_source(name: str, *endings: str) -> Callable[[F], F]:
    """Register what opens a file with one of these endings as a `Table`."""
    return _register(name, TABLES, endings)


def array_source(name: str, *endings: str) -> Callable[[F], F]:
    """Register what reads a file with one of these endings as arrays: ``x``, ``y``, and what else is known of them."""
    return _register(name, ARRAYS, endings)


def folder_source(name: str, *, last: bool = False) -> Callable[[F], F]:
    """Register what tells whether a folder is one that the dataset ``name`` reads."""
    return _register(name, name, (), last)


def _register(name: str, data: str, endings: tuple[str, ...], last: bool = False) -> Callable[[F], F]:
    def add(use: F) -> F:
        SOURCES[name] = Source(data, use, endings, last)
        return use

    return add


def source_of(place: Path) -> Source | None:
    """The form that a file or folder has; None if it is none that is known."""
    if not place.is_dir():
        return next((found for found in SOURCES.values() if place.suffix.lower() in found.endings), None)
    folders = sorted((found for found in SOURCES.values() if not found.endings), key=lambda found: found.last)
    return next((found for found in folders if found.use(place)), None)


def endings_of(data: str) -> tuple[str, ...]:
    """The endings of all files that a dataset reads."""
    return tuple(ending for found in SOURCES.values() if found.data == data for ending in found.endings)


def is_table(place: Path | str) -> bool:
    return Path(place).suffix.lower() in endings_of(TABLES)


def is_arrays(place: Path | str) -> bool:
    return Path(place).suffix.lower() in (*endings_of(ARRAYS), ".npy")  # a single array has no labels beside it
