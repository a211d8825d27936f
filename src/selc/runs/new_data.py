"""New data for a network that is trained: read without labels, made into inputs as the training data were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from selc._io.array_files import read_arrays
from selc._io.files import in_short
from selc._io.paths import is_image, is_text
from selc.data import ArrayInputs, ArrayPixels, ImageInputs, View
from selc.data.image_cache.cache import cache_folder
from selc.data.image_cache.decode import image_pixels
from selc.data.preprocess.coding import Coding
from selc.data.preprocess.features import Scale, gaps
from selc.data.preprocess.text_column import as_documents
from selc.data.sources.feature_table import load_cells
from selc.data.sources.image_set import Items
from selc.data.sources.npz import channel_order
from selc.data.sources.recognise import TABLES, existing
from selc.data.sources.table_columns import IDS, Table, existing_column, image_column, known_column
from selc.data.sources.tables import open_table, table_files
from selc.data.sources.text_folder import read_text
from selc.data.sources.unlabelled import files_below
from selc.encoders import Encoding
from selc.errors import InputError
from selc.types import Inputs

Array = np.ndarray[Any, np.dtype[Any]]
ACCEPTED = {
    "table": f"a table ({', '.join(TABLES)}) with the columns of the training data, or a folder of .txt files if "
    "a text was all it had",
    "features": "an .npz file with an array x of features",
    "encoded": "a folder of images, an image, a table of their paths, or an .npz file with an array x of features",
    "images": "a folder of images, an image, a table of their paths, or an .npz file with an array x of bytes",
    "arrays": "an .npz file with an array x",
}


class Samples(NamedTuple):
    """New samples as inputs."""

    inputs: Inputs
    ids: list[str]
    skipped: Sequence[tuple[str, str]] = ()


class Ids(NamedTuple):
    """The column that names samples: as the user gives it, and as it was in training."""

    given: str = ""
    trained: str = ""


def new_samples(
    state: Mapping[str, Any], data: Path | str, ids: Ids, path_column: str = "", skip_bad: bool = False
) -> Samples:
    """The samples of a path; ``state`` says how data become inputs (see `selc.runs.preprocessing`)."""
    place, kind = existing(str(data), "data"), str(state["kind"])
    if "encoding" in state and place.suffix.lower() not in (".npz", ".npy"):
        return _of_photographs(
            state, new_samples(_as_images(state["encoding"], place), place, ids, path_column, skip_bad)
        )
    is_table = place.is_file() and place.suffix.lower() in TABLES
    if kind == "table" and is_table:
        return _of_table(state, open_table(place, alone=True), ids)
    if kind == "table" and place.is_dir() and (column := _only_text(state)):
        return _of_text_files(state, place, column)
    if kind == "images" and is_table:
        return _of_image_table(state, open_table(place), ids, path_column, skip_bad)
    if kind == "images" and (place.is_dir() or is_image(place.name)):
        names = files_below(place, is_image, "images") if place.is_dir() else [place.name]
        root = place if place.is_dir() else place.parent
        return _of_files(state, [f"{root}/{name}" for name in names], names, str(place), skip_bad)
    if kind != "table" and place.suffix.lower() in (".npz", ".npy"):
        return _of_arrays(state, place)
    raise InputError(f"the data of this run must be {ACCEPTED[kind]}; got {place}.")


# Photographs for an encoder


def _as_images(encoding: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """How files become the images that the encoder is shown."""
    if "stored" not in encoding:
        raise InputError(f"the data of this run must be {ACCEPTED['features']}; got {place}.")
    if not (place.is_dir() or is_image(place.name) or place.suffix.lower() in TABLES):
        raise InputError(f"the data of this run must be {ACCEPTED['encoded']}; got {place}.")
    shape = [encoding["channels"], *encoding["crop"]]
    plain = {"mean": [0.0] * 3, "std": [1.0] * 3}  # the encoder has its own
    return {**encoding, **plain, "kind": "images", "shape": shape, "size": encoding["crop"]}


def _of_photographs(state: Mapping[str, Any], found: Samples) -> Samples:
    encoding = Encoding.from_state(state["encoding"], state["arrays"], cache=cache_folder())
    return Samples(ArrayInputs(_scale(state).apply(encoding.apply(found.inputs))), found.ids, found.skipped)


# Tables of features


def _of_table(state: Mapping[str, Any], table: Table, ids: Ids) -> Samples:
    coding = Coding.from_state(state["coding"], state["arrays"])
    if missing := [name for name in coding.inputs if name not in table.names]:
        raise InputError(
            f"{table.name} must have the columns of the training data; got no {', '.join(map(repr, missing[:5]))}."
        )
    named = _ids_of(table, ids)
    texts, cells = load_cells(table, [named] if named else [], list(coding.inputs), coding)
    x = _scale(state).apply(coding.apply(cells), coding.names, table.where)
    return Samples(ArrayInputs(x), texts[named] if named else _numbered(len(x)))


def _scale(state: Mapping[str, Any]) -> Scale:
    return Scale(state["arrays"]["mean"], state["arrays"]["std"])


def _only_text(state: Mapping[str, Any]) -> str | None:
    """The column of a run that was trained on nothing but one text."""
    coding = state["coding"]
    texts, others = coding.get("texts", ()), (*coding["numbers"], *coding["categories"])
    return str(texts[0]["name"]) if len(texts) == 1 and not others else None


def _of_text_files(state: Mapping[str, Any], root: Path, column: str) -> Samples:
    names = files_below(root, is_text, ".txt files")
    texts = as_documents(column, [read_text(root / name) for name in names], lambda row: f"in {names[row]}")
    coding = Coding.from_state(state["coding"], state["arrays"])
    x = _scale(state).apply(coding.apply({column: texts}), coding.names)
    return Samples(ArrayInputs(x), names)


def _ids_of(table: Table, ids: Ids) -> str | None:
    """The column that names the samples: the given one, that of the training if it is there, else a known one."""
    if ids.given:
        return existing_column(table, ids.given, "id_column")
    return ids.trained if ids.trained in table.names else known_column(table, IDS)


def _numbered(count: int) -> list[str]:
    return [str(row) for row in range(count)]


# Images


def _of_image_table(state: Mapping[str, Any], table: Table, ids: Ids, path_column: str, skip_bad: bool) -> Samples:
    column = image_column(table, path_column)
    if column is None:
        raise InputError(
            f"{table.name} must have a column of images or of their paths; got none that is known by its name. "
            "Give it (--path-column)."
        )
    named = _ids_of(table, ids)
    inline = table.images(column)
    texts, _ = table.load(list({name for name in (named, None if inline is not None else column) if name}), [])
    if inline is not None:
        items: Items = inline
        names = _numbered(len(inline))
    else:
        items, names = table_files(table, texts[column])
    return _of_files(state, items, texts[named] if named else names, table.name, skip_bad)


def _of_files(state: Mapping[str, Any], items: Items, names: Sequence[str], source: str, skip_bad: bool) -> Samples:
    if state["shape"][0] != 3:
        raise InputError(
            f"the data of this run must be images with {state['shape'][0]} channels in an .npz file; got {source}."
        )
    height, width = state["stored"]
    pixels, found = image_pixels(
        items, (height, width), resize=state["resize"], cache=None, names=names, skip_bad=skip_bad
    )
    left_out = {row for row, _ in found.bad}
    ids = [name for row, name in enumerate(names) if row not in left_out]
    return Samples(ImageInputs(pixels, _view(state)), ids, [(names[row], reason) for row, reason in found.bad])


def _view(state: Mapping[str, Any]) -> View:
    height, width = state["size"]
    return View((height, width), tuple(state["mean"]), tuple(state["std"]))


# Arrays


def _of_arrays(state: Mapping[str, Any], path: Path) -> Samples:
    arrays = _read_arrays(path)
    if "x" not in arrays:
        raise InputError(f"{path} must hold an array x, a row per sample; got {', '.join(arrays) or 'nothing'}.")
    x = arrays["x"]
    if x.dtype.kind not in "fiub" or x.ndim < 2 or len(x) == 0:
        raise InputError(f"x must be a non-empty array [N, ...] of numbers; got {list(x.shape)} of type {x.dtype}.")
    ids = [str(i) for i in np.atleast_1d(arrays["ids"]).tolist()] if "ids" in arrays else _numbered(len(x))
    if len(ids) != len(x):
        raise InputError(f"ids must have one value for each of the {len(x)} rows of x; got {len(ids)}.")
    if state["kind"] == "images":
        return Samples(ImageInputs(ArrayPixels(_pixels(x, state)), _view(state)), ids)
    if state["shape"] is not None and list(x.shape[1:]) != list(state["shape"]):
        raise InputError(
            f"x must hold inputs of shape {list(state['shape'])} as in the training; got {list(x.shape[1:])}."
        )
    if state["kind"] == "arrays":
        return Samples(ArrayInputs(torch.from_numpy(x.astype(np.float32))), ids)
    numbers = x.astype(np.float64)
    gaps(numbers, _numbered(x.shape[1]), "x", lambda row: f"in row {row}", skip_bad=False)
    return Samples(ArrayInputs(_scale(state).apply(numbers)), ids)


def _pixels(x: Array, state: Mapping[str, Any]) -> torch.Tensor:
    """Bytes [N, K, H, W] of the size that was stored in training."""
    wanted = [state["shape"][0], *state["stored"]]
    images = torch.from_numpy(x)
    if x.dtype == np.uint8 and x.ndim in (3, 4):
        order = channel_order(x.shape)
        images = images.unsqueeze(1) if order == "none" else images if order == "first" else images.permute(0, 3, 1, 2)
        if list(images.shape[1:]) == wanted:
            return images
    raise InputError(f"x must hold images of bytes {wanted} as in the training; got {list(x.shape)} of type {x.dtype}.")


def _read_arrays(path: Path) -> dict[str, Array]:
    try:
        return {name or "x": array for name, array in read_arrays(path).items()}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} must be an .npz file with arrays of numbers and text; got: {in_short(error)}."
        ) from None
