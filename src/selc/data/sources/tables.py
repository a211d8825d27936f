"""Tables: a label column, and columns of features, of paths of images, or of images themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from selc._io.paths import Inside
from selc.data.base import Bundle, Recipe, dataset
from selc.data.dealing import written_groups, written_times
from selc.data.preprocess.labels import tidied
from selc.data.sources.annotators import AnnotatedTable
from selc.data.sources.arrow_table import parquet_table
from selc.data.sources.csv_table import CsvTable
from selc.data.sources.feature_table import feature_bundle
from selc.data.sources.image_set import Augmenting, Items, Listing, Reading, Resizing, image_bundle
from selc.data.sources.recognise import TABLES, existing
from selc.data.sources.table_columns import (
    Columns,
    Table,
    dealing_columns,
    existing_column,
    first_twice,
    image_column,
    label_column,
    label_column_of,
    listed,
    named,
    repeating,
)
from selc.errors import InputError


@dataset("table", Recipe(net="mlp", plan={"schedule": "constant", "weight_decay": 0.0}))
def table(
    *,
    path: str = "",
    label_column: str = "",
    path_column: str = "",
    id_column: str = "",
    group_column: str = "",
    time_column: str = "",
    text_column: tuple[str, ...] = (),
    annotator_column: tuple[str, ...] = (),
    text_model: str = "auto",
    drop: tuple[str, ...] = (),
    test: str = "",
    val: str = "",
    skip_bad: bool = False,
    size: int = 0,
    resize: Resizing = "auto",
    augment: Augmenting = "crop-flip",
    workers: int = 0,
    cache: str = "auto",
    cache_gb: float = 8.0,
) -> Bundle:
    """Your table, CSV or Parquet: labels beside numbers, categories, texts, paths of images or images themselves."""
    how = Reading(size, resize, augment, skip_bad, workers, cache, cache_gb)
    train = open_table(existing(path, "path"))
    tests = {"test": open_table(existing(test, "test"))} if test else {}
    held = open_table(existing(val, "val")) if val else None
    dealing = (group_column, time_column)
    columns = Columns(label_column, path_column, id_column, tuple(drop), *dealing, tuple(text_column), text_model)
    if not annotator_column:
        return table_bundle(train, tests, held, columns, how)
    return _annotated(AnnotatedTable(train, columns, annotator_column), tests, held, columns, how)


def _annotated(
    train: AnnotatedTable, tests: Mapping[str, Table], held: Table | None, columns: Columns, how: Reading
) -> Bundle:
    """A table with labels by several annotators: what most say, and the shares of their votes to train on."""
    bundle = table_bundle(train, tests, held, columns._replace(label=train.label), how)
    if len(bundle.labels) != len(train.votes.said):
        raise InputError(
            f"every sample must be of use where several annotators label them; got {len(train.votes.said)} samples, of "
            f"which --skip-bad leaves {len(bundle.labels)}. Take the others out of {train.name}."
        )
    notes = [*bundle.notes, *train.votes.notes()]
    return replace(bundle, soft=train.votes.soft(bundle.classes), notes=notes)


def open_table(path: Path, alone: bool = False) -> Table:
    """A table by the ending of its name; ``alone``: a single column will do."""
    if path.is_dir() or path.suffix.lower() not in TABLES:
        raise InputError(f"a table must be a file with the ending {', '.join(TABLES)}; got {path}.")
    return parquet_table(path) if path.suffix.lower() in (".parquet", ".pq") else CsvTable(path, alone)


def table_bundle(train: Table, tests: Mapping[str, Table], val: Table | None, columns: Columns, how: Reading) -> Bundle:
    """A table as a dataset: of images if a column holds or names some, else of features."""
    label, image = label_column(train, columns.label), image_column(train, columns.path)
    for name in columns.drop:
        existing_column(train, name, "drop")
    others = {**tests, **({"val": val} if val is not None else {})}
    for what, other in others.items():
        if image is not None and image not in other.names:
            raise InputError(f"{what} must have the column {image!r} like the data; got {listed(other.names)}.")
    if image is None:
        return feature_bundle(train, others, label, columns, how.skip_bad)
    listings = {
        what: _listing(other, what, label_column_of(other, label), image, Columns()) for what, other in others.items()
    }
    held = listings.pop("val", None)
    return image_bundle(_listing(train, "the data", label, image, columns), listings, held, how)


def _listing(table: Table, what: str, label: str, image: str, columns: Columns) -> Listing:
    """The images that a table holds or names."""
    inline, id_column = table.images(image), columns.id
    ids = existing_column(table, id_column, "id_column") if id_column else label
    dealing = dealing_columns(table, columns)
    texts, _ = table.load(list({label, ids, *dealing} | ({image} if inline is None else set())), [])
    labels, classes = tidied(texts[label]), table.classes(label)
    items: Items
    if inline is not None:
        items, names, digest = inline, [str(row) for row in range(len(labels))], table.digest()
    else:
        items, names = table_files(table, texts[image])
        digest = ""  # that of the files
    if id_column:
        names = texts[id_column]
        if twice := first_twice(names):
            raise repeating(table, id_column, *twice)
    unused = set(table.names) - {label, image, ids, *dealing}
    notes = [f"of {table.name} only the columns {label!r} and {image!r} are used"] if unused else []
    groups = written_groups(texts[columns.group], columns.group) if columns.group else None
    time = written_times(texts[columns.time], columns.time, table.where) if columns.time else None
    labels = named(labels, classes) if classes else labels
    numbered = inline is not None and not id_column
    return Listing(what, table.name, items, names, labels, table.where, digest, notes, classes, numbered, groups, time)


def table_files(table: Table, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that a table names, and their paths from its folder."""
    folder = Path(table.name).parent
    inside = Inside(folder)
    files = [inside.locate(path.strip(), table.where(row)) for row, path in enumerate(paths)]
    first: dict[str, int] = {}
    for row, file in enumerate(files):
        if first.setdefault(file, row) != row:
            twice = len(files) - len(set(files))
            raise InputError(
                f"each path must be listed once; got {twice} more than once, first {paths[row]!r} "
                f"{table.where(first[file])} and {table.where(row)}. Keep one line for each."
            )
    start = len(os.path.join(inside.real, ""))
    return files, [file[start:].replace(os.sep, "/") for file in files]
