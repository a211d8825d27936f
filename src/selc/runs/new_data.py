"""New data for a network that is trained: read without labels, made into inputs as the training data were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from selc._io.paths import is_image, is_text
from selc.data.image_cache.cache import cache_folder
from selc.data.preprocess.coding import Coding, features_from_state
from selc.data.preprocess.features import Features
from selc.data.preprocess.imagery import Images
from selc.data.preprocess.plain import Plain
from selc.data.preprocess.preprocessor import Preprocessor
from selc.data.preprocess.text_column import as_documents
from selc.data.sources.base import TABLES, endings_of, is_arrays, is_table
from selc.data.sources.feature_table import load_cells
from selc.data.sources.hub import saved_table, was_saved
from selc.data.sources.listing import Listing
from selc.data.sources.npz import Arrays
from selc.data.sources.recognise import existing
from selc.data.sources.table_columns import IDS, Table, existing_column, image_column, known_column
from selc.data.sources.tables import image_items, open_table
from selc.data.sources.text_folder import read_text
from selc.data.sources.unlabelled import files_listing
from selc.encoders import Encoding
from selc.errors import InputError
from selc.types import Inputs

PICTURES = "a folder of images, an image, a table of their paths, a saved Hugging Face dataset"
ACCEPTED = {
    "table": "a table ({tables}) or a saved Hugging Face dataset with the columns of the training data, or a .txt file "
    "or a folder of such if it had nothing but a text",
    "features": "an .npz file with an array x of features",
    "encoded": f"{PICTURES}, or an .npz file with an array x of features",
    "images": f"{PICTURES}, or an .npz file with an array x of bytes",
    "arrays": "an .npz file with an array x",
}


class Samples(NamedTuple):
    """New samples as inputs."""

    inputs: Inputs
    ids: Sequence[str]
    skipped: Sequence[tuple[str, str]] = ()


class Ids(NamedTuple):
    """The column that names samples: as the user gives it, and as it was in training."""

    given: str = ""
    trained: str = ""


def new_samples(
    state: Mapping[str, Any], data: Path | str, ids: Ids, path_column: str = "", skip_bad: bool = False
) -> Samples:
    """The samples of a path; ``state`` says how data become inputs (see `selc.runs.preprocessing`)."""
    place = existing(str(data), "data")
    if "encoding" in state and not is_arrays(place):
        found = new_samples(_as_images(state["encoding"], place), place, ids, path_column, skip_bad)
        encoding = Encoding.from_state(state["encoding"], state["arrays"], cache=cache_folder())
        return found._replace(inputs=features_from_state(state, encoding).apply(found.inputs))
    how = preprocessor_of(state, skip_bad)
    listing = _listing(place, str(state["kind"]), how, ids, path_column)
    made = how.rows(listing)
    kept = range(len(listing.names)) if made.kept is None else made.kept
    return Samples(
        made.inputs, [listing.names[row] for row in kept], [(listing.names[row], reason) for row, reason in made.bad]
    )


def preprocessor_of(state: Mapping[str, Any], skip_bad: bool = False) -> Preprocessor:
    """What made inputs of the training data, from what a run folder says of it."""
    if state["kind"] in ("table", "features"):
        return features_from_state(state)
    return Images.from_state(state, skip_bad) if state["kind"] == "images" else Plain(tuple(state["shape"] or ()))


def _as_images(encoding: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """How files become the images that the encoder is shown."""
    if "stored" not in encoding:
        raise _other_data("features", place)
    if not (place.is_dir() or is_image(place.name) or _has_columns(place)):
        raise _other_data("encoded", place)
    shape = [encoding["channels"], *encoding["crop"]]
    plain = {"mean": [0.0] * 3, "std": [1.0] * 3}  # the encoder has its own
    return {**encoding, **plain, "kind": "images", "shape": shape, "size": encoding["crop"]}


def _listing(place: Path, kind: str, how: Preprocessor, ids: Ids, path_column: str) -> Listing:
    coding = how.coding if isinstance(how, Features) else None
    column = None if coding is None else _only_text(coding)
    if column and not was_saved(place) and (place.is_dir() or _is_written_text(place, column)):
        files = files_listing(place, is_text, ".txt files")
        written = [read_text(file) for file in files.items]
        return replace(files, items={column: as_documents(column, written, files.where)})
    if coding is not None and _has_columns(place):
        return _rows(_opened(place), coding, ids)
    if kind == "images" and _has_columns(place):
        return _pictures(_opened(place), ids, path_column)
    if kind == "images" and (place.is_dir() or is_image(place.name)):
        return files_listing(place, is_image, "images")
    if coding is None and is_arrays(place):
        return Arrays(place).listing("x", None)
    raise _other_data(kind, place)


def _has_columns(place: Path) -> bool:
    return is_table(place) or was_saved(place)


def _opened(place: Path) -> Table:
    """A table, or a saved dataset of Hugging Face."""
    return saved_table(place) if was_saved(place) else open_table(place, alone=True)


def _other_data(kind: str, place: Path) -> InputError:
    wanted = ACCEPTED[kind].format(tables=", ".join(endings_of(TABLES)))
    return InputError(f"the data of this run must be {wanted}; got {place}.")


def _only_text(coding: Coding) -> str | None:
    """The column of a run that was trained on nothing but one text."""
    return coding.texts[0].name if len(coding.texts) == 1 == len(coding.inputs) else None


def _is_written_text(place: Path, column: str) -> bool:
    """Whether a .txt file is a text by itself: it may also be a table, whose first line then names the column."""
    if not is_text(place.name):
        return False
    try:
        return column not in open_table(place, alone=True).names
    except InputError:  # no table
        return True


def _rows(table: Table, coding: Coding, ids: Ids) -> Listing:
    if missing := [name for name in coding.inputs if name not in table.names]:
        raise InputError(
            f"{table.name} must have the columns of the training data; got no {', '.join(map(repr, missing[:5]))}."
        )
    named = _ids_of(table, ids)
    texts, cells = load_cells(table, [named] if named else [], list(coding.inputs), coding)
    names = texts[named] if named else [str(row) for row in range(len(next(iter(cells.values()))))]
    return Listing("the data", table.name, cells, names, None, table.where)


def _pictures(table: Table, ids: Ids, path_column: str) -> Listing:
    column = image_column(table, path_column)
    if column is None:
        raise InputError(
            f"{table.name} must have a column of images or of their paths; got none that is known by its name. "
            "Give it (--path-column)."
        )
    named = _ids_of(table, ids)
    paths = [] if table.images(column) is not None else [column]
    texts, _ = table.load(list({*([named] if named else []), *paths}), [])
    items, names = image_items(table, column, texts)
    return Listing("the data", table.name, items, texts[named] if named else names, None, table.where)


def _ids_of(table: Table, ids: Ids) -> str | None:
    """The column that names the samples: the given one, that of the training if it is there, else a known one."""
    if ids.given:
        return existing_column(table, ids.given, "id_column")
    return ids.trained if ids.trained in table.names else known_column(table, IDS)
