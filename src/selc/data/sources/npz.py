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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from selc._io.array_files import read_arrays
from selc._io.files import in_short, sha256
from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.cache import json_digest
from selc.data.inputs.arrays import ArrayInputs
from selc.data.inputs.images import ArrayPixels, ImageInputs
from selc.data.preprocess.features import FeatureInputs, Numbers, Scale, gaps
from selc.data.preprocess.labels import bad_labels, checked_classes, encode, notes_on, tidied
from selc.data.sources.image_set import Augmenting, view_of
from selc.data.sources.recognise import existing, suits
from selc.data.sources.remembered import Remembered, remembered
from selc.errors import InputError
from selc.types import EvalSet, Inputs

Array = np.ndarray[Any, np.dtype[Any]]


@dataset("npz", Recipe(net="mlp", plan={"schedule": "constant", "weight_decay": 0.0}))
def npz(*, path: str = "", test: str = "", augment: Augmenting = "crop-flip") -> Bundle:
    """Your arrays, an .npz file: x and y, and test sets as x_test and y_test or in a file of their own."""
    place = existing(path, "path")
    arrays = _Arrays(place)
    x = arrays["x"]
    names = tuple(map(str, arrays["classes"].tolist())) if "classes" in arrays else None
    labels = arrays.labels("y", names, len(x))
    bad_labels(labels, names, "y", _row, skip_bad=False)
    classes = names or checked_classes(labels, place.name)
    numbers = encode(labels, classes)
    origin = remembered(arrays.meta(), arrays.arrays)
    form = _form(x, augment, origin)

    def eval_set(source: _Arrays, x_name: str, y_name: str) -> EvalSet:
        inputs = source[x_name]
        written = source.labels(y_name, names, len(inputs))
        bad_labels(written, classes, y_name, _row, skip_bad=False)
        return EvalSet(form.inputs(inputs, x_name), encode(written, classes))

    tests = {n: eval_set(arrays, f"x_{n}", f"y_{n}") for n in arrays.parts()}
    other = existing(test, "test") if test else None
    if other is not None:
        tests["test"] = eval_set(_Arrays(other), "x", "y")
    true = None
    if "true" in arrays:
        known = arrays.labels("true", names, len(x))
        bad_labels(known, classes, "true", _row, skip_bad=False)
        true = encode(known, classes)
    return Bundle(
        inputs=form.inputs(x, "x"),
        labels=numbers,
        classes=classes,
        shape=form.shape,
        val=tests.pop("val", None),
        tests=tests,
        true=true,
        ids=_ids(arrays.vector("ids", len(x)).tolist(), place) if "ids" in arrays else None,
        notes=[*arrays.about(), *notes_on(numbers, classes)],
        recipe=suits(len(x), form.side),
        pictures=origin.pictures(_ids_or_rows(arrays, len(x))) if origin is not None else None,
        digest=json_digest(sha256(place), sha256(other) if other else ""),
    )


def _ids_or_rows(arrays: _Arrays, count: int) -> list[str]:
    return list(map(str, arrays.vector("ids", count).tolist() if "ids" in arrays else range(count)))


def _ids(values: Sequence[Any], place: Path) -> list[str]:
    names = [str(value) for value in values]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"ids must tell samples apart; got {name!r} {times} times in {place}.")
    return names


def _row(row: int) -> str:
    return f"in row {row}"


class _Arrays:
    """The arrays of a file; none that would have to be unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.arrays: dict[str, Array] = {name or "x": array for name, array in read_arrays(path).items()}
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} must be an .npz file with arrays of numbers and text; got: {in_short(error)}. "
                "Write it with numpy.savez(file, x=..., y=...); lists of objects are not read."
            ) from None

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def __getitem__(self, name: str) -> Array:
        if name not in self.arrays:
            there = ", ".join(sorted(self.arrays)) or "nothing"
            raise InputError(
                f"{self.path} must hold the array {name!r}; got {there}. It needs x, and y with its labels."
            )
        if self.arrays[name].ndim == 0:
            raise InputError(f"{name} of {self.path} must have a value for each row; got a single value.")
        return self.arrays[name]

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


@dataclass(frozen=True)
class _Form:
    """How arrays become inputs, decided by that of the training set."""

    shape: tuple[int, ...]  # of one input
    side: int | None  # of an image
    inputs: Callable[[Array, str], Inputs]  # of an array and its name


def _form(x: Array, augment: Augmenting, origin: Remembered | None = None) -> _Form:
    if x.dtype.kind not in "fiub":
        raise InputError(f"x must be an array of numbers; got values of type {x.dtype}.")
    if x.ndim < 2 or len(x) == 0:
        raise InputError(f"x must be a non-empty array [N, ...], a row for each sample; got shape {x.shape}.")
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        return _images(x, augment)
    if x.ndim == 2:
        columns = [f"{k}" for k in range(x.shape[1])]
        scale = Scale.of(_finite(x, "x"))

        def features(array: Array, name: str) -> Inputs:
            return FeatureInputs(scale.apply(_finite(array, name)), scale, columns, encoding=origin)

        return _Form(x.shape[1:], None, _same_shape(x, features))
    side = min(x.shape[2:]) if x.ndim == 4 else None
    return _Form(x.shape[1:], side, _same_shape(x, lambda a, n: ArrayInputs(torch.from_numpy(a.astype(np.float32)))))


def _same_shape(x: Array, make: Callable[[Array, str], Inputs]) -> Callable[[Array, str], Inputs]:
    def inputs(array: Array, name: str) -> Inputs:
        if array.shape[1:] != x.shape[1:] or array.dtype.kind not in "fiub" or len(array) == 0:
            raise InputError(
                f"{name} must hold rows like those of x, {list(x.shape[1:])} numbers each; got an array "
                f"{list(array.shape)} of type {array.dtype}."
            )
        return make(array, name)

    return inputs


def _finite(x: Array, name: str) -> Numbers:
    numbers = x.astype(np.float64)
    gaps(numbers, [f"{k}" for k in range(x.shape[1])], name, _row, skip_bad=False)
    return numbers


def _images(x: Array, augment: Augmenting) -> _Form:
    order = channel_order(x.shape)

    def pixels(array: Array) -> ArrayPixels:
        images = torch.from_numpy(array)
        if order == "none":
            return ArrayPixels(images.unsqueeze(1))
        return ArrayPixels(images if order == "first" else images.permute(0, 3, 1, 2))

    first = pixels(x)
    shape = tuple(first.array.shape[1:])
    view = view_of(first, (shape[1], shape[2]), augment)
    return _Form(shape, min(shape[1:]), _same_shape(x, lambda array, name: ImageInputs(pixels(array), view)))


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
