"""A table of features as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from selc.data.base import Bundle
from selc.data.dealing import written_groups, written_times
from selc.data.image_cache.cache import json_digest
from selc.data.preprocess.coding import Cells, Coding, Column, Texts, as_category, as_numbers, read_column
from selc.data.preprocess.column_notes import notes_on_columns
from selc.data.preprocess.features import FeatureInputs, Numbers, Scale
from selc.data.preprocess.labels import Where, bad_labels, checked_classes, encode, notes_on, tidied
from selc.data.preprocess.text_column import as_documents
from selc.data.preprocess.text_encoder import chosen_encoder
from selc.data.sources.csv_table import not_numeric
from selc.data.sources.hints import all_at_once
from selc.data.sources.image_set import skipped_note
from selc.data.sources.recognise import suits
from selc.data.sources.table_columns import (
    IDS,
    Columns,
    Table,
    dealing_columns,
    existing_column,
    first_twice,
    known_column,
    label_column_of,
    listed,
    named,
    repeating,
)
from selc.errors import InputError
from selc.types import EvalSet


class _Rows(NamedTuple):
    """Rows that can be used, and what became of the others."""

    cells: dict[str, Column]
    labels: list[str]
    ids: list[str]
    kept: list[int] | None  # rows of the table; None: all
    repeats: tuple[str, int, int] | None  # an id that is there twice, so that row numbers have to do
    skipped: list[tuple[str, str]]
    texts: dict[str, list[str]]  # columns that are no features

    def place(self, row: int) -> int:
        """The row of the table that a row that can be used comes from."""
        return row if self.kept is None else self.kept[row]

    def where(self, table: Table) -> Where:
        return lambda row: table.where(self.place(row))


def feature_bundle(train: Table, others: Mapping[str, Table], label: str, columns: Columns, skip_bad: bool) -> Bundle:
    """Columns of numbers, categories and text, treated as the training rows say; ``others``: test sets, ``val``."""
    ids = existing_column(train, columns.id, "id_column") if columns.id else known_column(train, IDS)
    dealing = dealing_columns(train, columns)
    others_than = {label, ids, *columns.drop, *dealing}
    features = [name for name in train.names if name not in others_than]
    if not features:
        raise InputError(f"{train.name} must have columns of features beside {label!r}; got {listed(train.names)}.")
    for name in columns.text:
        if existing_column(train, name, "text_column") not in features:
            raise InputError(f"text_column must be a column of features; got {name!r}, which has another use.")
    known = train.classes(label)
    first = _rows(train, "the data", label, ids, features, None, known, skip_bad, dealing, columns.text)
    notes = []
    if first.repeats is not None:
        if columns.id:
            raise repeating(train, columns.id, *first.repeats)
        notes.append(f"column {ids!r} is no feature by its name, and repeats: samples are called by their rows")
    classes = known or checked_classes(first.labels, train.name)
    free = any(column.dtype.kind == "O" for column in first.cells.values())
    encoder = chosen_encoder(columns.text_model) if free else None
    coding, x = Coding.learnt(first.cells, encoder)
    scale = Scale.of(x, coding.measured, coding.names, first.where(train))
    rows = {
        what: _rows(other, what, label_column_of(other, label), None, features, coding, classes, skip_bad)
        for what, other in others.items()
    }
    sets = {
        what: EvalSet(
            _inputs(coding.apply(part.cells), scale, coding, part.where(others[what])), encode(part.labels, classes)
        )
        for what, part in rows.items()
    }
    labels = encode(first.labels, classes)
    skipped = [sample for part in (first, *rows.values()) for sample in part.skipped]
    return Bundle(
        inputs=_inputs(x, scale, coding, first.where(train)),
        labels=labels,
        classes=classes,
        shape=(x.shape[1],),
        tests={what: part for what, part in sets.items() if what != "val"},
        val=sets.get("val"),
        ids=first.ids,
        notes=[
            *notes,
            *_notes(coding, first.cells),
            *notes_on_columns(first.cells, labels, first.where(train)),
            *notes_on(labels, classes),
            *skipped_note(skipped),
        ],
        skipped=skipped,
        recipe=suits(len(labels)),
        digest=json_digest(
            [part.digest() for part in (train, *others.values())] + ([] if encoder is None else [encoder.digest])
        ),
        texts=_texts(train, coding, [n for n in columns.drop if n in train.names], first),
        numbered=ids is None or first.repeats is not None,
        groups=written_groups(first.texts[columns.group], columns.group) if columns.group else None,
        time=written_times(first.texts[columns.time], columns.time, first.where(train)) if columns.time else None,
    )


def _texts(
    table: Table, coding: Coding, dropped: Sequence[str], read: _Rows
) -> Callable[[Sequence[int]], dict[str, list[str]]] | None:
    """Columns of text for a person to look at, read again when they are asked for; also those that are no feature."""
    names = list(dict.fromkeys([c.name for c in coding.texts] + [*dropped] + [c.name for c in coding.categories]))
    if not names:
        return None

    def at(rows: Sequence[int]) -> dict[str, list[str]]:
        columns, _ = table.load(names, [])
        places = [read.place(row) for row in rows]
        return {name: [columns[name][place] for place in places] for name in names}

    return at


def _inputs(x: Numbers, scale: Scale, coding: Coding, where: Where) -> FeatureInputs:
    return FeatureInputs(scale.apply(x, coding.names, where), scale, coding.names, coding)


def _notes(coding: Coding, cells: Cells) -> list[str]:
    """What was made of columns that are no plain numbers."""
    notes = [f"column {column.name!r} is free text: {column.what}" for column in coding.texts]
    notes += notes_on_empty_texts(coding, cells)
    if texts := [column.name for column in coding.categories]:
        notes.append(f"{_columns(texts)} text: each value that repeats often enough is a feature")
    if flagged := [column.name for column in coding.numbers if column.flag]:
        count = sum(int(np.isnan(np.asarray(cells[name], dtype=np.float64)).sum()) for name in flagged)
        notes.append(f"{_columns(flagged)} empty in {count} cells: the median stands there, and a feature says so")
    return notes


def notes_on_empty_texts(coding: Coding, cells: Cells) -> list[str]:
    """How many texts are empty."""
    notes = []
    for column in coding.texts:
        if empty := sum(not text.strip() for text in cells[column.name].tolist()):
            rows = "1 row" if empty == 1 else f"{empty} rows"
            notes.append(f"column {column.name!r} is empty in {rows}: nothing there speaks for any label")
    return notes


def _columns(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    named = ", ".join(map(repr, names[:5])) + more
    return f"column {named} is" if len(names) == 1 else f"columns {named} are"


def load_cells(
    table: Table, texts: Sequence[str], features: Sequence[str], coding: Coding | None, free: Sequence[str] = ()
) -> tuple[dict[str, list[str]], dict[str, Column]]:
    """Columns as text, and features as ``coding`` has them; where there is none yet, as the cells themselves show.

    Columns named in ``free`` are text, whatever they show.
    """
    categories = {column.name for column in coding.categories} if coding else set()
    free = [column.name for column in coding.texts] if coding else free
    if not categories and not free:  # most tables are all numbers: read them as such, and think again if they are not
        try:
            read, x = table.load(texts, features)
        except InputError:
            pass
        else:
            for k, name in enumerate(features):
                _check_finite(x[:, k], name, table)
            return read, {name: x[:, k] for k, name in enumerate(features)}
    read, _ = table.load(list(dict.fromkeys([*texts, *features])), [])
    cells: dict[str, Column] = {}
    wrong: dict[str, str] = {}
    for name in features:
        column: Column
        try:
            if name in free:
                column = as_documents(name, read[name], table.where)
            elif coding is None:
                column = read_column(name, read[name], table.where)
            else:
                column = _like_training(name, read[name], name in categories, table)
            if column.dtype.kind == "f":
                _check_finite(np.asarray(column, dtype=np.float64), name, table)
        except InputError as error:
            wrong[name] = error.for_command
        else:
            cells[name] = column
    if wrong:
        raise InputError(all_at_once(table.name, wrong))
    return {name: read[name] for name in texts}, cells


def _check_finite(column: Numbers, name: str, table: Table) -> None:
    if np.isinf(column).any():
        row = int(np.flatnonzero(np.isinf(column))[0])
        raise InputError(f"numbers must be finite; got {column[row]} in column {name!r} {table.where(row)}.")


def _like_training(name: str, written: Sequence[str], category: bool, table: Table) -> Numbers | Texts:
    texts: Texts = np.char.strip(np.asarray(written, dtype=np.str_))
    if category:
        return as_category(texts)
    numbers, strange = as_numbers(texts)
    if len(strange):
        raise not_numeric([name], str(texts[strange[0]]), table.where(int(strange[0])))
    return numbers


def _rows(
    table: Table,
    what: str,
    label: str,
    ids: str | None,
    features: Sequence[str],
    coding: Coding | None,
    classes: tuple[str, ...] | None,
    skip_bad: bool,
    more: Sequence[str] = (),
    free: Sequence[str] = (),
) -> _Rows:
    """Read a table, ``more`` columns of it as text that is no feature; leave out what is bad, or say so."""
    there = set(table.names)
    if missing := [name for name in features if name not in there]:
        raise InputError(f"{what} must have the columns of the data; got no {', '.join(map(repr, missing[:5]))}.")
    wanted = dict.fromkeys([label, *([] if ids is None else [ids]), *more])
    texts, cells = load_cells(table, list(wanted), features, coding, free)
    labels = tidied(texts[label])
    if own := table.classes(label):
        labels = named(labels, own)
    bad = bad_labels(labels, classes, what, table.where, skip_bad)
    kept = [row for row in range(len(labels)) if row not in bad]
    if not kept:
        raise InputError(f"{what} must have a row that can be used; got none in {table.name}.")
    repeats = first_twice(texts[ids]) if ids is not None else None
    names = texts[ids] if ids is not None and repeats is None else [str(row) for row in range(len(labels))]
    return _Rows(
        {name: column[kept] for name, column in cells.items()} if bad else cells,
        [labels[row] for row in kept],
        [names[row] for row in kept],
        kept if bad else None,
        repeats,
        [(names[row], f"{reason}, {table.where(row)}") for row, reason in sorted(bad.items())],
        {name: [texts[name][row] for row in kept] for name in more},
    )
