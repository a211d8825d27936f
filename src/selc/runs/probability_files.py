"""Probabilities and labels from files, for `selc findings`: which column is which class, and which row which sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from selc._io.array_files import read_arrays
from selc._io.files import in_short
from selc.analysis.probabilities import checked_probabilities
from selc.data.preprocess.labels import bad_labels, checked_classes, class_names, encode, tidied
from selc.data.sources.base import is_table
from selc.data.sources.table_columns import IDS, existing_column, known_column, label_column
from selc.data.sources.tables import open_table
from selc.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]
PROBABILITIES = ("pred_probs", "probs", "probabilities")
LABELS = ("labels", "label", "given_labels", "y")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Given(NamedTuple):
    """What was found in the two files."""

    pred_probs: Tensor  # [N, C]
    labels: Tensor  # [N]
    classes: tuple[str, ...]
    ids: list[str]
    notes: list[str]


class _Labels(NamedTuple):
    texts: list[str]
    ids: list[str] | None
    classes: tuple[str, ...] | None


def read_given(pred_probs: Path, labels: Path, *, column: str = "", id_column: str = "") -> Given:
    """Probabilities from an .npz or .npy file, and labels from a table or such a file, row by row."""
    arrays = _arrays(pred_probs, "--pred-probs")
    p = checked_probabilities(_chosen(arrays, PROBABILITIES, pred_probs, "--pred-probs"))
    found = _of_table(labels, column, id_column) if is_table(labels) else _of_arrays(labels)
    N, C = p.shape
    if len(found.texts) != N:
        raise InputError(
            f"--labels must have a label for each of the {N} rows of --pred-probs; got {len(found.texts)} in {labels}."
        )
    bad_labels(found.texts, None, str(labels), lambda row: f"in row {row}", skip_bad=False)
    _refuse_measurements(found.texts, labels)
    classes, notes = _classes(found, _words(arrays, "classes"), C, labels)
    bad_labels(found.texts, classes, str(labels), lambda row: f"in row {row}", skip_bad=False)
    own = _words(arrays, "ids")
    if own is not None and found.ids is not None and own != found.ids:
        raise InputError(
            f"ids must be the same in both files, row by row; got others in {pred_probs} than in {labels}. Put the "
            "rows into the same order."
        )
    ids = found.ids or own or [str(row) for row in range(N)]
    if len(ids) != N:
        raise InputError(f"ids must name each of the {N} rows; got {len(ids)} in {pred_probs}.")
    return Given(p, encode(found.texts, classes), classes, ids, notes)


def _classes(found: _Labels, named: list[str] | None, columns: int, path: Path) -> tuple[tuple[str, ...], list[str]]:
    """The class of each column of probabilities: as a file says, by number, or by name in order."""
    known = tuple(named) if named is not None else found.classes
    if known is not None:
        if len(set(known)) != columns:
            raise InputError(
                f"classes must name each of the {columns} columns of --pred-probs once; got {len(set(known))} names."
            )
        return known, []
    counted = tuple(map(str, range(columns)))
    if set(found.texts) <= set(counted):
        if len(set(found.texts)) < 2:
            raise InputError(f"labels must name at least two classes; got only {found.texts[0]!r} in {path}.")
        return counted, []
    names = class_names(found.texts)
    if len(names) != columns:
        shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise InputError(
            f"--labels must name the {columns} classes that --pred-probs has columns for; got {len(names)} different "
            f"labels ({shown}) in {path}. Save the names of the columns beside the probabilities, as "
            "numpy.savez(file, pred_probs=..., classes=...). Several labels of a sample (multi-label) are not "
            "supported."
        )
    order = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    return checked_classes(found.texts, str(path)), [
        f"the columns of --pred-probs are taken for {order}, in this order"
    ]


def _refuse_measurements(texts: Sequence[str], path: Path) -> None:
    numbers = all(_NUMBER.fullmatch(text) for text in texts)
    part = next((text for text in texts if not float(text).is_integer()), None) if numbers else None
    if part is not None:
        raise InputError(
            f"labels must be classes; got measurements in {path}, such as {part}. Regression is not supported: turn "
            "them into classes first."
        )


def _of_table(path: Path, column: str, id_column: str) -> _Labels:
    table = open_table(path, alone=True)
    label = table.names[0] if len(table.names) == 1 and not column else label_column(table, column)
    ids = existing_column(table, id_column, "id_column") if id_column else known_column(table, IDS)
    wanted = [label] if ids is None or ids == label else [label, ids]
    texts, _ = table.load(wanted, [])
    return _Labels(tidied(texts[label]), texts[ids] if ids is not None and ids != label else None, table.classes(label))


def _of_arrays(path: Path) -> _Labels:
    arrays = _arrays(path, "--labels")
    labels = _chosen(arrays, LABELS, path, "--labels")
    if labels.ndim != 1:
        raise InputError(
            f"labels must be one class for each row; got an array {list(labels.shape)} in {path}. Several labels of a "
            "sample (multi-label), or several annotators, are not supported here."
        )
    classes, ids = _words(arrays, "classes"), _words(arrays, "ids")
    texts = tidied(labels.tolist())
    if classes is not None and labels.dtype.kind in "iu":
        texts = [classes[k] if 0 <= k < len(classes) else str(k) for k in labels.tolist()]
    return _Labels(texts, ids, None if classes is None else tuple(classes))


def _words(arrays: dict[str, Array], name: str) -> list[str] | None:
    return [str(value) for value in arrays[name].ravel().tolist()] if name in arrays else None


def _arrays(path: Path, option: str) -> dict[str, Array]:
    try:
        return read_arrays(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{option} must be {'a table, or ' if option == '--labels' else ''}an .npz or .npy file of numpy; got "
            f"{path}: {in_short(error)}."
        ) from None


def _chosen(arrays: dict[str, Array], names: Sequence[str], path: Path, option: str) -> Array:
    """The array of a usual name, or the only one."""
    if found := next((name for name in names if name in arrays), None):
        return arrays[found]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    there = ", ".join(sorted(arrays)) or "nothing"
    raise InputError(f"{option} must hold the array {names[0]!r}; got {there} in {path}.")
