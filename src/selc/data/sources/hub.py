"""A dataset of the Hugging Face library, from memory or from the folder that it was saved to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from selc.data.base import Bundle, Recipe, dataset
from selc.data.preprocess.imagery import Augmenting, Reading, Resizing
from selc.data.sources.arrow_table import ArrowTable
from selc.data.sources.base import folder_source
from selc.data.sources.image_folder import PARTS
from selc.data.sources.recognise import existing
from selc.data.sources.table_columns import Columns, Table
from selc.data.sources.tables import table_bundle
from selc.errors import ConfigError, InputError


@dataset("hub", Recipe(net="cnn", plan={"schedule": "cosine"}))
def hub(
    *,
    path: str = "",
    label_column: str = "",
    path_column: str = "",
    id_column: str = "",
    group_column: str = "",
    time_column: str = "",
    text_column: tuple[str, ...] = (),
    text_model: str = "auto",
    drop: tuple[str, ...] = (),
    skip_bad: bool = False,
    size: int = 0,
    resize: Resizing = "auto",
    augment: Augmenting = "crop-flip",
    workers: int = 0,
    cache: str = "auto",
    cache_gb: float = 8.0,
) -> Bundle:
    """Your Hugging Face dataset: the folder that save_to_disk wrote, with or without test and validation parts."""
    loaded = saved_dataset(existing(path, "path"))
    how = Reading(size, resize, augment, skip_bad, workers, cache, cache_gb)
    dealing = (group_column, time_column)
    columns = Columns(label_column, path_column, id_column, tuple(drop), *dealing, tuple(text_column), text_model)
    return hub_bundle(loaded, columns, how)


def saved_dataset(place: Path) -> Any:
    """What lies in a folder of `save_to_disk`: a dataset, or a dictionary of parts."""
    try:
        library = import_module("datasets")
    except ImportError:
        raise ConfigError(
            f"{place} is a saved Hugging Face dataset, which needs the package datasets; got no such package. "
            "Install it (pip install datasets), or save the data as Parquet."
        ) from None
    try:
        return library.load_from_disk(str(place))
    except (OSError, ValueError) as error:
        raise InputError(f"{place} must be a folder that save_to_disk wrote; got: {error}.") from None


@folder_source("hub")
def was_saved(place: Path) -> bool:
    """Whether `save_to_disk` left its marks at the top of a folder."""
    return any((place / mark).is_file() for mark in ("dataset_dict.json", "state.json"))


def hub_bundle(thing: Any, columns: Columns | None = None, how: Reading | None = None) -> Bundle:
    """A dataset, or a dictionary of parts of which one is the training part."""
    parts = _parts(thing) if isinstance(thing, Mapping) else {"train": thing}
    tables: dict[str, Table] = {name: HubTable(part, name) for name, part in parts.items()}
    return table_bundle(tables.pop("train"), tables, columns or Columns(), how or Reading())


def _parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    named = {PARTS.get(name.lower(), name): part for name, part in parts.items()}
    if "train" not in named:
        raise InputError(f"a dictionary of datasets must have a part 'train'; got {', '.join(map(repr, parts))}.")
    return named


def is_training(name: str) -> bool:
    """Whether a part of a dictionary of datasets is trained on."""
    return PARTS.get(name.lower(), name) == "train"


def training_part(thing: Any) -> HubTable:
    """The rows that are trained on, of a dataset or of a dictionary of parts."""
    return HubTable(_parts(thing)["train"] if isinstance(thing, Mapping) else thing, "train")


def saved_table(place: Path) -> HubTable:
    """The rows of a saved dataset that is no dictionary of several parts."""
    loaded = saved_dataset(place)
    parts = dict(loaded) if isinstance(loaded, Mapping) else {place.name: loaded}
    if len(parts) != 1:
        raise InputError(
            f"{place} must hold a single dataset; got the parts {', '.join(parts)}. Give the folder of one of them, "
            f"such as {place / next(iter(parts), 'train')}."
        )
    ((name, part),) = parts.items()
    return HubTable(part, name)


class HubTable(ArrowTable):
    """The rows of a dataset as Arrow hands them out; names of classes come from its features."""

    def __init__(self, part: Any, name: str) -> None:
        if not hasattr(part, "__getitem__"):
            raise InputError(f"a dataset must give rows by number; got the stream {name!r}. Load it without streaming.")
        # In this format images stay as they are stored: bytes, or the path of a file.
        rows = part.with_format("arrow")[:]
        super().__init__(rows, f"the {name} part of the dataset", lambda: content_digest(rows), files=True)
        self.part, self.features = part, part.features

    def classes(self, name: str) -> tuple[str, ...] | None:
        names = getattr(self.features.get(name), "names", None)
        return tuple(map(str, names)) if names else None


def content_digest(table: Any) -> str:
    """A hash of the rows of an Arrow table."""
    import pyarrow

    sink = _Hash()
    with pyarrow.ipc.new_stream(pyarrow.PythonFile(sink, mode="w"), table.schema.remove_metadata()) as stream:
        stream.write_table(table.replace_schema_metadata(None))
    return sink.total.hexdigest()


class _Hash:
    """A file that keeps nothing but the hash of what is written to it."""

    def __init__(self) -> None:
        self.total, self.closed = hashlib.sha256(), False

    def write(self, data: Any) -> int:
        self.total.update(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True
