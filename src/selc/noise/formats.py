"""The formats in which labels lie about: .npy, .npz, CSV, JSON, and what torch.save writes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.array_files import read_arrays
from selc._io.files import in_short
from selc._io.unpickled import read_torch
from selc.errors import ConfigError, InputError

# Where the labels are, if the user does not say and exactly one of these is there.
USUAL = ("labels", "label", "given", "given_label", "noisy_label", "noisy_labels")
ABOUT = "about"  # the array of an .npz that says where its labels come from, as JSON

Read = tuple[Any, dict[str, Any]]  # values, and what the file itself says about them

_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
_LARGEST = 2**53  # up to which a float holds every whole number


def read_integers(path: Path, *, column: str = "", key: str = "") -> tuple[Tensor, dict[str, Any]]:
    """A vector of integers from a file, and what the file says about them."""
    kind = path.suffix.lower()
    readers = {".npy": _numpy, ".npz": _numpy, ".csv": _csv, ".json": _json, ".pt": _pt}
    if kind not in readers:
        raise ConfigError(f"a file of labels must end in {', '.join(readers)}; got {path.name!r}.")
    if kind == ".csv" and key:
        raise ConfigError(f"key does not apply to a CSV; got {key!r} for {path}. Use column.")
    if kind != ".csv" and column:
        raise ConfigError(f"column applies to a CSV only; got {column!r} for {path}. Use key.")
    try:
        values, about = readers[kind](path, column or key)
    except OSError as error:
        raise InputError(f"{path} must be a readable file of labels; got: {error.strerror or error}.") from None
    return _integers(values, path), about


def _numpy(path: Path, key: str) -> Read:
    try:
        arrays = read_arrays(path)
        about = json.loads(str(arrays[ABOUT])) if ABOUT in arrays else {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a file of numpy with numbers; got: {in_short(error)}.") from None
    if "" in arrays:  # an .npy file
        if key:
            raise ConfigError(f"key does not apply to {path}, which holds one array; got {key!r}.")
        return arrays[""], {}
    return arrays[_pick(path, key, [name for name in arrays if name != ABOUT])], _dictionary(about)


def _json(path: Path, key: str) -> Read:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must be a JSON file; got: {in_short(error)}.") from None
    if not isinstance(content, dict):
        return content, {}
    name = _pick(path, key, [k for k, v in content.items() if isinstance(v, list) and k != "transition_matrix"])
    return content[name], content if "sha256" in content else {}


def _pt(path: Path, key: str) -> Read:
    content = read_torch(path, "Save the labels as .npy instead.")
    if isinstance(content, dict):
        vectors = {name: value for name, value in content.items() if isinstance(name, str) and _has_numbers(value)}
        return vectors[_pick(path, key, list(vectors))], {}
    if not _has_numbers(content):
        raise InputError(f"{path} must hold an array, a tensor or a list of numbers; got a {type(content).__name__}.")
    return content, {}


def _has_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(item, int | float) for item in value)
    return isinstance(value, np.ndarray | Tensor)


def _csv(path: Path, column: str) -> Read:
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark of the byte order first
        first = text.partition("\n")[0]
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=max(",;\t", key=first.count)) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} must be a CSV file in UTF-8; got: {in_short(error)}.") from None
    if not rows:
        return [], {}
    cells = [cell.strip() for cell in rows[0]]
    if column not in cells and column.isdecimal() and int(column) < len(cells):
        place = int(column)
        header = not _NUMBER.fullmatch(cells[place])
    else:
        header = not all(_NUMBER.fullmatch(cell) for cell in cells)
        names = cells if header else [str(n) for n in range(len(cells))]
        place = names.index(_pick(path, column, names))
    body = rows[1:] if header else rows
    short = next((n for n, row in enumerate(body) if len(row) <= place), None)
    if short is not None:
        raise InputError(f"{path} must have the same columns in each row; got only {len(body[short])} in row {short}.")
    return [row[place].strip() for row in body], {}


def _pick(path: Path, name: str, there: list[str]) -> str:
    """The one to read: the one that was asked for, the only one, or the only one of a usual name."""
    if name:
        if name not in there:
            raise InputError(f"{path} must have {name!r}; got {', '.join(there) or 'nothing'}.")
        return name
    for choice in (there, [known for known in USUAL if known in there]):
        if len(choice) == 1:
            return choice[0]
    option = "column" if path.suffix.lower() == ".csv" else "key"
    raise InputError(
        f"{path} must hold one list of labels, or be read with the name of one; got {', '.join(there) or 'none'}. "
        f"Set noise.{option}=NAME."
    )


def _integers(values: Any, path: Path) -> Tensor:
    """A vector of integers, or an error that says what there was instead."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{path} must hold one label per sample; got rows of different length.") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{path} must hold a non-empty list of labels; got shape {list(array.shape)}.")
    if array.dtype.kind == "U":  # of a CSV
        wrong = next((text for text in array.tolist() if not _NUMBER.fullmatch(text)), None)
        if wrong is not None:
            raise InputError(f"{path} must hold class numbers from 0; got {wrong!r}. Number the classes first.")
        array = array.astype(np.float64)
    if array.dtype.kind == "f" and bool(((array == np.floor(array)) & (np.abs(array) < _LARGEST)).all()):
        array = array.astype(np.int64)  # whole numbers, which a table with a gap elsewhere stores like that
    if array.dtype.kind not in "iu":
        raise InputError(f"{path} must hold whole numbers; got {array.dtype}.")
    return torch.from_numpy(array.astype(np.int64))


def _dictionary(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
