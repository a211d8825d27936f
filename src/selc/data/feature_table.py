"""A table of features as a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from selc.data.base import Bundle
from selc.data.cache import digest_of
from selc.data.features import FeatureInputs, Numbers, Scale, gaps
from selc.data.image_set import skipped_note
from selc.data.labels import bad_labels, checked_classes, encode, notes_on, tidied
from selc.data.own import suits
from selc.data.table_columns import (
    IDS,
    Columns,
    Table,
    existing_column,
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

    x: Numbers
    labels: list[str]
    ids: list[str]
    repeats: bool  # whether the column of ids does not tell samples apart, so that they are row numbers
    skipped: list[tuple[str, str]]


def feature_bundle(train: Table, others: Mapping[str, Table], label: str, columns: Columns, skip_bad: bool) -> Bundle:
    """Columns of numbers, scaled by the training rows; ``others`` are the test sets, and ``val``."""
    ids = existing_column(train, columns.id, "id_column") if columns.id else known_column(train, IDS)
    features = [name for name in train.names if name not in (label, ids, *columns.drop)]
    if not features:
        raise InputError(f"{train.name} must have columns of features beside {label!r}; got {listed(train.names)}.")
    known = train.classes(label)
    first = _rows(train, "the data", label, ids, features, known, skip_bad)
    notes = []
    if first.repeats:
        if columns.id:
            raise repeating(train, columns.id)
        notes.append(f"column {ids!r} is no feature by its name, and repeats: samples are called by their rows")
    classes = known or checked_classes(first.labels, train.name)
    scale = Scale.of(first.x)
    rows = {
        what: _rows(other, what, label_column_of(other, label), None, features, classes, skip_bad)
        for what, other in others.items()
    }
    sets = {
        what: EvalSet(FeatureInputs(scale.apply(part.x), scale, features), encode(part.labels, classes))
        for what, part in rows.items()
    }
    labels = encode(first.labels, classes)
    skipped = [sample for part in (first, *rows.values()) for sample in part.skipped]
    return Bundle(
        inputs=FeatureInputs(scale.apply(first.x), scale, features),
        labels=labels,
        classes=classes,
        shape=(len(features),),
        tests={what: part for what, part in sets.items() if what != "val"},
        val=sets.get("val"),
        ids=first.ids,
        notes=[*notes, *notes_on(labels, classes), *skipped_note(skipped)],
        skipped=skipped,
        recipe=suits(len(labels)),
        digest=digest_of([part.digest() for part in (train, *others.values())]),
    )


def _rows(
    table: Table,
    what: str,
    label: str,
    ids: str | None,
    features: Sequence[str],
    classes: tuple[str, ...] | None,
    skip_bad: bool,
) -> _Rows:
    """Read a table; leave out what is bad, or say so."""
    if missing := [name for name in features if name not in table.names]:
        raise InputError(f"{what} must have the columns of the data; got no {', '.join(map(repr, missing[:5]))}.")
    texts, x = table.load([label] if ids is None else [label, ids], features)
    labels = tidied(texts[label])
    if own := table.classes(label):
        labels = named(labels, own)
    bad = gaps(x, features, what, table.where, skip_bad)
    bad |= bad_labels(labels, classes, what, table.where, skip_bad)
    kept = [row for row in range(len(labels)) if row not in bad]
    if not kept:
        raise InputError(f"{what} must have a row that can be used; got none in {table.name}.")
    repeats = ids is not None and len(set(texts[ids])) < len(labels)
    names = texts[ids] if ids is not None and not repeats else [str(row) for row in range(len(labels))]
    return _Rows(
        x[kept] if bad else x,
        [labels[row] for row in kept],
        [names[row] for row in kept],
        repeats,
        [(names[row], f"{reason}, {table.where(row)}") for row, reason in sorted(bad.items())],
    )
