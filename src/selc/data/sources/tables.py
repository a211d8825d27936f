"""Tables: a label column, and columns of features, of paths of images, or of images themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from selc._io.paths import Inside
from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.cache import json_digest
from selc.data.preprocess.features import Features
from selc.data.preprocess.imagery import Augmenting, Reading, Resizing
from selc.data.preprocess.labels import tidied
from selc.data.preprocess.text_encoder import chosen_encoder
from selc.data.sources.annotators import AnnotatedTable
from selc.data.sources.base import TABLES, endings_of, is_table, source_of
from selc.data.sources.bundling import bundle_of
from selc.data.sources.csv_table import CsvTable, no_table
from selc.data.sources.feature_table import learnt_table, load_cells
from selc.data.sources.image_set import image_bundle
from selc.data.sources.listing import Items, Listing, Written
from selc.data.sources.recognise import existing
from selc.data.sources.table_columns import (
    IDS,
    Columns,
    Table,
    dealing_columns,
    existing_column,
    image_column,
    known_column,
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
    others = {name: open_table(existing(place, name)) for name, place in (("test", test), ("val", val)) if place}
    dealing = (group_column, time_column)
    columns = Columns(label_column, path_column, id_column, tuple(drop), *dealing, tuple(text_column), text_model)
    if not annotator_column:
        return table_bundle(train, others, columns, how)
    return _annotated(AnnotatedTable(train, columns, annotator_column), others, columns, how)


def _annotated(train: AnnotatedTable, others: Mapping[str, Table], columns: Columns, how: Reading) -> Bundle:
    """A table with labels by several annotators: what most say, and the shares of their votes to train on."""
    bundle = table_bundle(train, others, columns._replace(label=train.label), how)
    if len(bundle.labels) != len(train.votes.said):
        raise InputError(
            f"every sample must be of use where several annotators label them; got {len(train.votes.said)} samples, of "
            f"which --skip-bad leaves {len(bundle.labels)}. Take the others out of {train.name}."
        )
    notes = [*bundle.notes, *train.votes.notes()]
    return replace(bundle, soft=train.votes.soft(bundle.classes), notes=notes)


def open_table(path: Path, alone: bool = False) -> Table:
    """A table by the ending of its name. A single column is a separator that was not recognised, unless ``alone``."""
    if path.is_dir() or not is_table(path):
        raise InputError(f"a table must be a file with the ending {', '.join(endings_of(TABLES))}; got {path}.")
    found = source_of(path)
    assert found is not None
    opened: Table = found.use(path)
    if len(opened.names) == 1 and not alone and isinstance(opened, CsvTable):
        raise no_table(path, f"only the column {opened.names[0]!r}")
    return opened


def table_bundle(train: Table, others: Mapping[str, Table], columns: Columns, how: Reading) -> Bundle:
    """A table as a dataset: of images if a column holds or names some, else of features; ``others``: tests, "val"."""
    label, image = label_column(train, columns.label), image_column(train, columns.path)
    for name in columns.drop:
        existing_column(train, name, "drop")
    for what, other in others.items():
        if image is not None and image not in other.names:
            raise InputError(f"{what} must have the column {image!r} like the data; got {listed(other.names)}.")
    if image is None:
        return feature_bundle(train, others, label, columns, how.skip_bad)
    listings = {
        what: _images(other, what, label_column_of(other, label), image, Columns()) for what, other in others.items()
    }
    return image_bundle(_images(train, "the data", label, image, columns), listings, how)


def feature_bundle(train: Table, others: Mapping[str, Table], label: str, columns: Columns, skip_bad: bool) -> Bundle:
    """Columns of numbers, categories and text, treated as the training rows say."""
    ids = existing_column(train, columns.id, "id_column") if columns.id else known_column(train, IDS)
    others_than = {label, ids, *columns.drop, *dealing_columns(train, columns)}
    features = [name for name in train.names if name not in others_than]
    if not features:
        raise InputError(f"{train.name} must have columns of features beside {label!r}; got {listed(train.names)}.")
    for name in columns.text:
        if existing_column(train, name, "text_column") not in features:
            raise InputError(f"--text-column must be a column of features; got {name!r}, which has another use.")
    rows = _features(train, "the data", label, features, columns._replace(id=ids or ""))
    encoder = chosen_encoder(columns.text_model) if any(c.dtype.kind == "O" for c in rows.items.values()) else None
    notes = []
    if rows.numbered and ids is not None:
        if columns.id:
            raise repeating(train, columns.id)
        notes.append(f"column {ids!r} is no feature by its name, and repeats: samples are called by their rows")
    return bundle_of(
        rows,
        {
            what: partial(_features, other, what, label_column_of(other, label), features)
            for what, other in others.items()
        },
        lambda listing: learnt_table(listing, encoder),
        skip_bad=skip_bad,
        digest=json_digest([t.digest() for t in (train, *others.values())] + ([encoder.digest] if encoder else [])),
        notes=notes,
    )


def _features(table: Table, what: str, label: str, features: Sequence[str], how: Columns | Features) -> Listing:
    """The rows of a table: of the training, whose other columns are known, or as they were read there."""
    columns, coding = (Columns(), how.coding) if isinstance(how, Features) else (how, None)
    if missing := [name for name in features if name not in set(table.names)]:
        raise InputError(f"{what} must have the columns of the data; got no {', '.join(map(repr, missing[:5]))}.")
    ids = [columns.id] if columns.id in table.names else []
    wanted = list(dict.fromkeys([label, *ids, *dealing_columns(table, columns)]))
    texts, cells = load_cells(table, wanted, features, coding, columns.text)
    named = texts[columns.id] if ids else None
    if named is not None and len(set(named)) < len(named):
        named = None
    names = named or [str(row) for row in range(len(texts[label]))]
    return _listing(table, what, label, texts, cells, names, columns, numbered=named is None)


def _images(table: Table, what: str, label: str, image: str, columns: Columns) -> Listing:
    """The images that a table holds or names."""
    inline = table.images(image)
    ids = None if inline is None else known_column(table, IDS)  # files have a name of their own
    if columns.id:
        ids = existing_column(table, columns.id, "id_column")
    used = {label, *([ids] if ids else []), *dealing_columns(table, columns)}
    texts, _ = table.load(list(used | ({image} if inline is None else set())), [])
    items, names = image_items(table, image, texts)
    if ids and len(set(texts[ids])) < len(texts[ids]):
        if columns.id:
            raise repeating(table, ids)
        ids = None
    found = _listing(table, what, label, texts, items, texts[ids] if ids else names, columns)
    notes = [f"of {table.name} only the columns {', '.join(map(repr, sorted({*used, image})))} are used"]
    return replace(
        found,
        digest=table.digest() if inline is not None else "",  # else that of the files
        notes=notes if set(table.names) - {image, *used} else [],
        numbered=inline is not None and not ids,
    )


def image_items(table: Table, image: str, texts: Mapping[str, Sequence[str]]) -> tuple[Items, list[str]]:
    """The images in a column, or the files that it names; and what they are called."""
    inline = table.images(image)
    return table_files(table, texts[image]) if inline is None else (inline, [str(row) for row in range(len(inline))])


def _listing(
    table: Table,
    what: str,
    label: str,
    texts: Mapping[str, list[str]],
    items: Any,
    names: Sequence[str],
    columns: Columns,
    numbered: bool = False,
) -> Listing:
    """Rows of a table, of which some columns were read as ``texts``."""
    labels, classes = tidied(texts[label]), table.classes(label)

    def at(names: Sequence[str], rows: Sequence[int]) -> dict[str, list[str]]:
        columns, _ = table.load(names, [])
        return {name: [columns[name][row] for row in rows] for name in names}

    return Listing(
        what,
        table.name,
        items,
        names,
        named(labels, classes) if classes else labels,
        table.where,
        classes=classes,
        numbered=numbered,
        groups=Written(columns.group, texts[columns.group]) if columns.group else None,
        time=Written(columns.time, texts[columns.time]) if columns.time else None,
        texts=at,
        besides=[name for name in columns.drop if name in table.names],
    )


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
