"""Arrays in an .npz file: `x` and `y`, and whatever else is known of them.

x [N, ...]          uint8 [N, K, H, W], [N, H, W, K] or [N, H, W] are images; [N, D] are features; else as they are
y [N]               numbers or names of classes
classes [C]         their names; y then counts from 0, or is names
ids [N], true [N]   a name for each sample; the true labels, only to score a run
x_NAME, y_NAME      a test set; that of the name `val` is the validation set
meta                a JSON text about where all of it comes from: with ``encoding`` and ``data``, pictures can be shown
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from selc._io.array_files import read_arrays
from selc._io.files import in_short, sha256
from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.cache import json_digest
from selc.data.preprocess.features import checked_array
from selc.data.preprocess.imagery import Augmenting
from selc.data.preprocess.labels import bad_labels, encode, tidied
from selc.data.preprocess.plain import learnt_array
from selc.data.sources.base import array_source, source_of
from selc.data.sources.bundling import bundle_of
from selc.data.sources.image_folder import in_order
from selc.data.sources.listing import Listing
from selc.data.sources.recognise import existing
from selc.data.sources.remembered import remembered
from selc.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]


@dataset("npz", Recipe(net="mlp", plan={"schedule": "constant", "weight_decay": 0.0}))
def npz(*, path: str = "", test: str = "", augment: Augmenting = "crop-flip") -> Bundle:
    """Your arrays, an .npz file: x and y, and test sets as x_test and y_test or in a file of their own."""
    place = existing(path, "path")
    arrays = Arrays(place)
    names = tuple(map(str, arrays["classes"].tolist())) if "classes" in arrays else None
    own = arrays.listing("x", "y", names)
    origin = remembered(arrays.meta(), arrays.arrays)
    others = {n: arrays.listing(f"x_{n}", f"y_{n}", names) for n in arrays.parts()}
    other = existing(test, "test") if test else None
    if other is not None:
        others["test"] = Arrays(other).listing("x", "y", names)
    found = bundle_of(
        replace(own, pictures=None if origin is None else origin.pictures(own.names)),
        in_order(others),
        lambda listing: learnt_array(listing, augment, origin),
        digest=json_digest(sha256(place), sha256(other) if other else ""),
        notes=arrays.about(),
    )
    true = None
    if "true" in arrays:
        known = arrays.labels("true", names, len(own.names))
        bad_labels(known, found.classes, "true", _row, skip_bad=False)
        true = encode(known, found.classes)
    return replace(found, true=true, ids=_unlike(own.names, place) if "ids" in arrays else None)


def _unlike(names: Sequence[str], place: Path) -> Sequence[str]:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"ids must tell samples apart; got {name!r} {times} times in {place}.")
    return names


def _row(row: int) -> str:
    return f"in row {row}"


@array_source("npz", ".npz")
def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file, or an .npy file with x alone."""
    try:
        return {name or "x": array for name, array in read_arrays(path).items()}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} must be an .npz file with arrays of numbers and text; got: {in_short(error)}. "
            "Write it with numpy.savez(file, x=..., y=...); lists of objects are not read."
        ) from None


class Arrays:
    """The arrays of a file; none that would have to be unpickled."""

    def __init__(self, path: Path) -> None:
        found = source_of(path)
        self.path, self.arrays = path, dict((found.use if found else read_npz)(path))

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            there = ", ".join(sorted(self.arrays)) or "nothing"
            raise InputError(
                f"{self.path} must hold the array {name!r}; got {there}. It needs x, and y with its labels."
            )
        array: Array = self.arrays[name]
        if array.ndim == 0:
            raise InputError(f"{name} of {self.path} must have a value for each row; got a single value.")
        return array

    def parts(self) -> list[str]:
        """The names of the test sets."""
        return sorted(name[2:] for name in self.arrays if name.startswith("x_"))

    def vector(self, name: str, count: int) -> Array:
        values = self[name]
        if values.shape != (count,):
            raise InputError(
                f"{name} of {self.path} must have one value for each of the {count} rows; got shape {values.shape}."
            )
        try:
            return np.char.decode(values) if values.dtype.kind == "S" else values
        except UnicodeDecodeError:
            raise InputError(f"{name} of {self.path} must be text in UTF-8; got other bytes.") from None

    def listing(self, x: str, y: str | None, classes: tuple[str, ...] | None = None) -> Listing:
        """The samples of an array, with their labels if these have a name."""
        array = checked_array(self[x], x)
        labels = None if y is None else self.labels(y, classes, len(array))
        ids = self.vector("ids", len(array)).tolist() if x == "x" and "ids" in self else range(len(array))
        return Listing(y or x, x, array, list(map(str, ids)), labels, _row, classes=classes)

    def labels(self, name: str, classes: tuple[str, ...] | None, count: int) -> list[str]:
        """Labels by name; whole numbers count ``classes`` where there are any."""
        values = self.vector(name, count)
        if classes is not None and values.dtype.kind in "iu":
            return [classes[k] if 0 <= k < len(classes) else str(k) for k in values.tolist()]
        return tidied(values.tolist())

    def meta(self) -> dict[str, Any]:
        """What the file says of itself."""
        try:
            meta = json.loads(str(self.arrays["meta"]))
        except (KeyError, ValueError, RecursionError):
            return {}
        return meta if isinstance(meta, dict) else {}

    def about(self) -> list[str]:
        """What the file says of itself, as a note."""
        meta = self.meta()
        known = {key: meta[key] for key in ("backbone", "source") if isinstance(meta.get(key), str)}
        return [f"{self.path.name}: " + ", ".join(f"{key} {value}" for key, value in known.items())] if known else []
