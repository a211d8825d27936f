"""What a program has in memory as a source: arrays, DataFrames, lists of texts, map-style datasets; and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc.data.base import Bundle, Recipe
from selc.data.inputs.torch_datasets import labels_of
from selc.data.preprocess.coding import Cells, learnt_features
from selc.data.preprocess.features import Features
from selc.data.preprocess.labels import bad_labels, class_names, encode, is_missing, notes_on, tidied
from selc.data.preprocess.plain import Plain
from selc.data.preprocess.text_encoder import chosen_encoder
from selc.data.sources.annotators import Votes, votes_by_column
from selc.data.sources.feature_table import notes_on_table
from selc.data.sources.frames import (
    cells_of,
    frame_numbers,
    is_frame,
    is_texts,
    named_cells,
    new_cells,
    split_frame,
)
from selc.data.sources.recognise import suits
from selc.errors import InputError
from selc.types import EvalSet, Inputs

_SEVERAL = (
    " Several labels of a sample (multi-label, tokens) are not supported; those of several annotators are, with "
    "annotators=True."
)


def object_bundle(x: Any, labels: Any, others: Mapping[str, Any], text_model: str) -> Bundle:
    """Objects with their labels; ``others``, test sets and "val", are treated like the training items.

    ``classes`` are empty where labels are numbers: these count from 0 as they are.
    """
    items, written = _items(x, labels)
    how, inputs = _learnt(items, text_model)
    numbers, classes = _numbered(written)

    def eval_set(name: str, given: Any) -> EvalSet:
        column = labels if isinstance(labels, str) else None
        rows, answers = given if isinstance(given, tuple) else (given, column)
        part, answers = _items(rows, answers, how)
        return EvalSet(how.apply(part), _numbered(answers, classes, name)[0])

    sets = {name: eval_set(name, given) for name, given in others.items()}
    coding = how.coding if isinstance(how, Features) and is_texts(x) else None
    return Bundle(
        inputs=inputs,
        labels=numbers,
        classes=classes,
        shape=how.shape,
        tests={name: part for name, part in sets.items() if name != "val"},
        val=sets.get("val"),
        notes=_notes(_cells(x, labels, items), how, numbers.cpu(), classes) if _fit(numbers, inputs) else [],
        recipe=suits(len(numbers)) if coding else Recipe(),
    )


def _fit(labels: Tensor, inputs: Inputs) -> bool:
    """Whether there is a label for each item; what is to be said of others is said where they are refused."""
    return labels.shape == (len(inputs),) and bool((labels >= 0).all())


def _cells(x: Any, labels: Any, items: Any) -> Cells | None:
    """Columns that have names, also those of a DataFrame that is nothing but numbers."""
    if isinstance(items, Mapping) or not is_frame(x):
        return items if isinstance(items, Mapping) else None
    beside = labels is None or isinstance(labels, str)
    return named_cells(x, split_frame(x, labels)[1] if beside else None)


def _notes(cells: Cells | None, how: Features | Plain, labels: Tensor, classes: tuple[str, ...]) -> list[str]:
    """What is worth knowing of columns and of classes, which are numbers where they have no names."""
    coding = how.coding if isinstance(how, Features) else None
    named = classes or tuple(map(str, range(int(labels.max()) + 1)))
    return [*(() if cells is None else notes_on_table(coding, cells, labels)), *notes_on(labels, named)]


def _items(x: Any, labels: Any, how: Features | Plain | None = None) -> tuple[Any, Any]:
    """What a preprocessor takes, and the labels as they were written; other sets are read as ``how`` says."""
    coding = how.coding if isinstance(how, Features) else None
    if isinstance(x, torch.utils.data.Dataset):
        if not hasattr(x, "__len__"):
            raise InputError("a dataset must give rows by number; got one that can only be walked through.")
        return x, labels_of(x) if labels is None else labels
    names = list(x.columns) if is_frame(x) else []
    if is_frame(x) and (labels is None or isinstance(labels, str)):
        labels, names = split_frame(x, labels)
    cells = cells_of(x, names) if how is None else None if coding is None else new_cells(x, coding, "a test set")
    if labels is None:
        raise InputError(f"labels must be given, one per sample; got none beside x, which is {type(x).__name__}.")
    if cells is not None:
        return cells, labels
    if is_frame(x):
        return torch.from_numpy(frame_numbers(x, names).astype(np.float32)), labels
    try:
        return torch.as_tensor(x, dtype=torch.float32), labels
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(x).__name__
        raise InputError(f"x must be an array of numbers or a torch dataset; got {kind}: {error}.") from None


def _learnt(items: Any, text_model: str) -> tuple[Features | Plain, Inputs]:
    if isinstance(items, Mapping):
        free = any(column.dtype.kind == "O" for column in items.values())
        return learnt_features(items, chosen_encoder(text_model) if free else None)
    inputs = Plain().apply(items)
    return Plain(tuple(next(iter(inputs.stream([torch.tensor([0])], None))).shape[1:])), inputs


def _numbered(labels: Any, classes: tuple[str, ...] | None = None, what: str = "") -> tuple[Tensor, tuple[str, ...]]:
    """Numbers of classes, and the names of these where labels are names.

    ``classes`` are those of the training set, for other sets: what is numbered there is numbered here.
    """
    values = labels if isinstance(labels, Tensor) else _array(labels)
    _refuse_gaps(values, what or "the data")
    if isinstance(values, Tensor) or not _are_names(values):
        if classes:
            raise InputError(f"the labels of {what} must be names like those of the data; got numbers.")
        return _whole(values), ()
    if classes == ():
        raise InputError(f"the labels of {what} must be numbers like those of the data; got names.")
    if values.ndim != 1 or not values.size:
        raise InputError(f"labels must be a non-empty vector [N]; got shape {values.shape}.{_SEVERAL}")
    written = tidied(values.tolist())
    bad_labels(written, classes, what or "the data", lambda row: f"in row {row}", skip_bad=False)
    known = classes or class_names(written)
    return encode(written, known), known


def _refuse_gaps(labels: Tensor | np.ndarray[Any, Any], what: str) -> None:
    """Refuse labels of which some are not there: NaN, None, or what pandas writes for it."""
    if isinstance(labels, Tensor):
        gaps = labels.isnan().cpu().numpy()  # whole numbers have none
    elif labels.dtype.kind == "f":
        gaps = np.isnan(labels)
    elif labels.dtype.kind in "OUT":
        gaps = np.array([is_missing(text) for text in tidied(labels.flat)], dtype=bool).reshape(labels.shape)
    else:
        return
    if gaps.any():
        raise InputError(
            f"every row of {what} must have a label; got {int(gaps.sum())} of {len(labels)} without, first in row "
            f"{int(np.argwhere(gaps)[0][0])}. Fill it in, or leave such rows out."
        )


def _whole(labels: Tensor | np.ndarray[Any, Any]) -> Tensor:
    """Labels that are numbers as int64: true and false are 1 and 0, and 1.0 is 1."""
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind not in "biuf":
            kind = type(labels.flat[0]).__name__ if labels.dtype.kind == "O" and labels.size else str(labels.dtype)
            raise InputError(f"labels must be integers or names, one per sample; got values of type {kind}.")
        labels = torch.from_numpy(labels)
    if labels.is_floating_point():
        broken = ((labels != labels.floor()) | (labels.abs() >= 2**31)).nonzero()
        if len(broken):
            first = tuple(broken[0].tolist())
            raise InputError(
                f"labels must be integers or names; got {labels[first].item():g} in row {first[0] if first else 0}. "
                "Measurements are no classes: turn them into such first."
            )
    if labels.is_complex():
        raise InputError(f"labels must be integers or names, one per sample; got values of type {labels.dtype}.")
    return labels.long()


def _array(labels: Any) -> np.ndarray[Any, Any]:
    try:
        values = np.array(labels)  # a copy: what pandas hands out may not be written to, which torch warns about
        if values.dtype.kind == "O" and values.size:
            if all(isinstance(value, int) for value in values.flat):
                return values.astype(np.int64)
            if all(isinstance(value, int | float | np.number) for value in values.flat):
                return values.astype(np.float64)
        return values
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        kind = type(labels).__name__
        raise InputError(f"labels must be integers or names, one per sample; got {kind}: {error}.{_SEVERAL}") from None


def _are_names(values: np.ndarray[Any, Any]) -> bool:
    kind = values.dtype.kind
    return kind in "UST" or (kind == "O" and any(isinstance(value, str) for value in values.flat))


def votes_of(labels: Any) -> Votes:
    """Labels by several annotators, [N, A]; a DataFrame names them."""
    values = labels.to_numpy() if is_frame(labels) else np.asarray(labels)
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError(
            f"labels by several annotators must be [N, A], a column for each of two or more; got shape "
            f"{list(values.shape)}."
        )
    names = labels.columns if is_frame(labels) else range(1, values.shape[1] + 1)
    return votes_by_column({str(name): values[:, k].tolist() for k, name in enumerate(names)})


def as_numbers(labels: list[str]) -> list[int] | list[str]:
    """Labels that are numbers of classes as such, as if they had been given alone."""
    return [int(label) for label in labels] if all(label.isdecimal() for label in labels) else labels
