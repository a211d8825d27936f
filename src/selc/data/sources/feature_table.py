"""The columns of a table as features: read as they are, or as training had them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from selc.data.preprocess.coding import (
    Cells,
    Coding,
    Column,
    Texts,
    as_category,
    as_numbers,
    learnt_features,
    read_column,
)
from selc.data.preprocess.column_notes import notes_on_columns
from selc.data.preprocess.features import Features, Numbers, row_number
from selc.data.preprocess.labels import Where, class_names, encode
from selc.data.preprocess.preprocessor import Made
from selc.data.preprocess.text_column import as_documents
from selc.data.preprocess.text_encoder import TextEncoder
from selc.data.sources.csv_table import not_numeric
from selc.data.sources.hints import all_at_once
from selc.data.sources.listing import Listing
from selc.data.sources.table_columns import Table
from selc.errors import InputError


def learnt_table(listing: Listing, encoder: TextEncoder | None) -> tuple[Features, Made]:
    """The preprocessor for the columns of a table, and the training rows; texts are read by ``encoder``."""
    how, inputs = learnt_features(listing.items, encoder, listing.where)
    assert how.coding is not None
    assert listing.labels is not None
    labels = encode(listing.labels, class_names(listing.labels))
    return how, Made(inputs, notes=notes_on_table(how.coding, listing.items, labels, listing.where))


def notes_on_table(coding: Coding | None, cells: Cells, labels: Tensor, where: Where = row_number) -> list[str]:
    """What was made of columns (None: they are plain numbers), and what ``labels`` [N] beside them make suspicious."""
    return [*(_notes(coding, cells) if coding else ()), *notes_on_columns(cells, labels, where)]


def _notes(coding: Coding, cells: Cells) -> list[str]:
    """What was made of columns that are no plain numbers."""
    notes = [f"column {column.name!r} is free text: {column.what}" for column in coding.texts]
    notes += _on_empty_texts(coding, cells)
    if texts := [column.name for column in coding.categories]:
        notes.append(f"{_columns(texts)} text: each value that repeats often enough is a feature")
    if flagged := [column.name for column in coding.numbers if column.flag]:
        count = sum(int(np.isnan(np.asarray(cells[name], dtype=np.float64)).sum()) for name in flagged)
        holes = "1 cell" if count == 1 else f"{count} cells"
        notes.append(f"{_columns(flagged)} empty in {holes}: the median stands there, and a feature says so")
    return notes


def _on_empty_texts(coding: Coding, cells: Cells) -> list[str]:
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
