"""Columns of a table as numbers: gaps filled, categories spelled out, texts read; what was learnt is plain data.

The rules are those of scikit-learn's transformers (`SimpleImputer`, `OneHotEncoder`), kept as text and numbers, so
that later rows are treated alike without scikit-learn and without unpickling anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selc.data.extras import sklearn_part
from selc.data.preprocess.encoded_column import EncodedColumn
from selc.data.preprocess.features import FeatureInputs, Features, Numbers, Scale, row_number
from selc.data.preprocess.labels import Where
from selc.data.preprocess.preprocessor import Transform
from selc.data.preprocess.text_column import SMALL_TABLE, Documents, TextColumn, as_documents, is_free_text
from selc.data.preprocess.text_encoder import TextEncoder
from selc.data.sources.csv_table import not_numeric
from selc.data.sources.hints import dropping, flag
from selc.errors import InputError

Texts = np.ndarray[Any, np.dtype[np.str_]]
Column = Numbers | Texts | Documents  # [N]: numbers with NaN for gaps, categories or free texts with "" for gaps
Cells = Mapping[str, Column]

GAPS = ("", "nan", "na", "n/a", "null", "none", "?")  # what stands in a column of numbers where there is none
MOST_LEVELS = 100  # of a column; the rarest beyond that are one
CODES = 20  # different numbers up to which a column with numbers and texts is one of codes, and no spoilt measurement
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( .*)?")


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: what fills its gaps, and whether a flag says that there was one."""

    name: str
    fill: float
    flag: bool


@dataclass(frozen=True)
class CategoryColumn:
    """A column of texts: the levels that have a column each, and those rare ones that share the last."""

    name: str
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coding:
    """How the columns of a table become numbers, [N, D]: numbers, flags of gaps, levels of categories, texts."""

    numbers: tuple[NumberColumn, ...]
    categories: tuple[CategoryColumn, ...] = ()
    texts: tuple[TextColumn | EncodedColumn, ...] = ()

    @classmethod
    def learnt(cls, cells: Cells, encoder: TextEncoder | None = None) -> tuple[Coding, Numbers]:
        """The coding of training rows, and the rows as it has them; texts are read by ``encoder``, else counted."""
        kinds = {name: column.dtype.kind for name, column in cells.items()}
        numbers, categories, texts = ([name for name, kind in kinds.items() if kind == k] for k in "fUO")
        plain = cls(_learn_numbers(cells, numbers), _learn_categories(cells, categories))
        read: list[tuple[TextColumn | EncodedColumn, Numbers]] = []
        for name in texts:
            written = np.asarray(cells[name], dtype=object)
            column = (
                TextColumn.learnt(name, written) if encoder is None else EncodedColumn.learnt(name, written, encoder)
            )
            read.append(column)
        x = np.concatenate([*plain._blocks(cells), *(block for _, block in read)], axis=1)
        return cls(plain.numbers, plain.categories, tuple(column for column, _ in read)), x

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it needs."""
        columns: tuple[NumberColumn | CategoryColumn | TextColumn | EncodedColumn, ...]
        columns = (*self.numbers, *self.categories, *self.texts)
        return tuple(column.name for column in columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it makes."""
        flags = [f"{column.name} is missing" for column in self.numbers if column.flag]
        levels = [f"{column.name}={level}" for column in self.categories for level in _titles(column)]
        parts = [f"{column.name} {k + 1}" for column in self.texts for k in range(column.width)]
        return (*(column.name for column in self.numbers), *flags, *levels, *parts)

    @property
    def measured(self) -> int:
        """How many of the columns that it makes are measurements, to be scaled; the others need none."""
        return len(self.numbers)

    def apply(self, cells: Cells) -> Numbers:
        """Rows as numbers. A level that training did not show counts as a rare one; without such, as none of all."""
        texts = [column.apply(np.asarray(cells[column.name], dtype=object)) for column in self.texts]
        return np.concatenate([*self._blocks(cells), *texts], axis=1)

    def _blocks(self, cells: Cells) -> list[Numbers]:
        """Numbers with their flags, and the levels of each category."""
        columns = [np.asarray(cells[column.name], dtype=np.float64) for column in self.numbers]
        gaps = [np.isnan(values) for values in columns]
        made = [
            np.where(gap, column.fill, values) for column, values, gap in zip(self.numbers, columns, gaps, strict=True)
        ]
        made += [gap.astype(np.float64) for column, gap in zip(self.numbers, gaps, strict=True) if column.flag]
        blocks = [np.stack(made, axis=1)] if made else []
        return blocks + [_one_hot(column, np.asarray(cells[column.name], dtype=np.str_)) for column in self.categories]

    def state(self) -> dict[str, Any]:
        """All of it but `arrays`, as JSON."""
        return {
            "numbers": [{"name": c.name, "fill": c.fill, "flag": c.flag} for c in self.numbers],
            "categories": [{"name": c.name, "levels": list(c.levels), "rare": list(c.rare)} for c in self.categories],
            "texts": [column.state() for column in self.texts],
        }

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The numbers of columns of text, which are many."""
        return {
            f"text{k}.{name}": array for k, column in enumerate(self.texts) for name, array in column.arrays().items()
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Coding:
        texts: list[TextColumn | EncodedColumn] = []
        for k, column in enumerate(state.get("texts", ())):
            kind = EncodedColumn if "sha256" in column else TextColumn
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"text{k}.")}
            texts.append(kind.from_state(column, own))
        return cls(
            tuple(NumberColumn(str(c["name"]), float(c["fill"]), bool(c["flag"])) for c in state["numbers"]),
            tuple(CategoryColumn(str(c["name"]), tuple(c["levels"]), tuple(c["rare"])) for c in state["categories"]),
            tuple(texts),
        )


def learnt_features(
    cells: Cells, encoder: TextEncoder | None = None, where: Where = row_number
) -> tuple[Features, FeatureInputs]:
    """The preprocessor for the columns of a table, and the training rows as it has them."""
    coding, x = Coding.learnt(cells, encoder)
    how = Features(Scale.of(x, coding.measured, coding.names, where), coding.names, coding)
    return how, how.scaled(x, where)


def features_from_state(state: Mapping[str, Any], encoding: Transform | None = None) -> Features:
    """The preprocessor of a run folder."""
    arrays = state["arrays"]
    coding = None if state["coding"] is None else Coding.from_state(state["coding"], arrays)
    return Features(Scale(arrays["mean"], arrays["std"]), tuple(state["columns"]), coding, encoding)


def _titles(column: CategoryColumn) -> list[str]:
    return [level or "(missing)" for level in column.levels] + (["(rare)"] if column.rare else [])


def _one_hot(column: CategoryColumn, cells: Texts) -> Numbers:
    known = np.array([*column.levels, ""], dtype=np.str_)[:-1]  # never of no width, even if all are rare
    out: Numbers = np.zeros((len(cells), len(known) + bool(column.rare)))
    if len(known):
        order = np.argsort(known)
        place = order[np.searchsorted(known, cells, sorter=order).clip(max=len(known) - 1)]
        found = known[place] == cells
    else:
        place, found = np.zeros(len(cells), dtype=np.int64), np.zeros(len(cells), dtype=bool)
    rows = np.arange(len(cells))
    out[rows[found], place[found]] = 1.0
    if column.rare:
        out[rows[~found], -1] = 1.0
    return out


def _learn_numbers(cells: Cells, names: Sequence[str]) -> tuple[NumberColumn, ...]:
    if not names:
        return ()
    x = np.stack([np.asarray(cells[name], dtype=np.float64) for name in names], axis=1)
    empty = np.isnan(x)
    if void := [name for k, name in enumerate(names) if empty[:, k].all()]:
        raise InputError(
            f"column {void[0]!r} must have a value in some row; got none. Leave it out ({dropping(void)})."
        )
    fills = np.nanmedian(x, axis=0)  # as scikit-learn's SimpleImputer with an indicator
    flagged = [bool(np.isnan(column).any()) for column in x.T]
    return tuple(
        NumberColumn(name, float(fill), bool(flag)) for name, fill, flag in zip(names, fills, flagged, strict=True)
    )


def _learn_categories(cells: Cells, names: Sequence[str]) -> tuple[CategoryColumn, ...]:
    if not names:
        return ()
    x = np.stack([np.asarray(cells[name], dtype=object) for name in names], axis=1)
    encoder = sklearn_part("a table with columns of text", "preprocessing").OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=fewest(len(x)),
        max_categories=MOST_LEVELS,
        sparse_output=False,
    )
    encoder.fit(x)
    rare = [() if some is None else tuple(map(str, some)) for some in encoder.infrequent_categories_]
    return tuple(
        CategoryColumn(name, tuple(str(level) for level in every if level not in some), some)
        for name, every, some in zip(names, encoder.categories_, rare, strict=True)
    )


def fewest(rows: int) -> int:
    """The number of rows from which on a level has a column of its own: one in 200, between 2 and 20."""
    return max(2, min(20, rows // 200))


# What a column of text is


def read_column(name: str, cells: Sequence[str], where: Where) -> Column:
    """A column as numbers, category or free text, by its training rows; what is none has a sentence of its own."""
    if is_free_text(cells):
        return as_documents(name, cells, where)
    texts: Texts = np.char.strip(np.asarray(cells, dtype=np.str_))
    numbers, strange = as_numbers(texts)
    if not len(strange):
        return numbers
    values = texts[~is_gap(texts)]
    different = np.unique(values)
    example, place = str(texts[strange[0]]), where(int(strange[0]))
    drop = f"leave it out ({dropping([name])})"
    if are_dates(different.tolist()):
        raise InputError(
            f"column {name!r} must hold numbers or categories; got dates, such as {example!r} {place}. "
            f"Turn it into numbers, such as days since a day or the month, or {drop}."
        )
    if _spoilt(numbers, values, different):
        raise not_numeric([name], example, place)
    rows = len(texts)
    names = 2 * len(different) > rows if rows >= SMALL_TABLE else 2 < rows == len(different)
    if names:
        raise InputError(
            f"column {name!r} must hold numbers or categories, which repeat; got {len(different)} different texts in "
            f"{rows} rows, such as {example[:40]!r} {place}. If it names the samples, say so "
            f"({flag('--id-column', name)}); if it is text to be read, say so ({flag('--text-column', name)}); "
            f"else {drop}."
        )
    return as_category(texts)


def are_dates(values: Sequence[str]) -> bool:
    """Whether all are written as dates, perhaps with a time of day."""
    return all(_DATE.fullmatch(value) for value in values)


def as_category(texts: Texts) -> Texts:
    """Levels; only an empty cell and NaN are a gap here, for words such as NA or none may be levels of their own."""
    return np.where(np.char.lower(texts) == "nan", "", texts)


def as_numbers(texts: Texts) -> tuple[Numbers, np.ndarray[Any, np.dtype[np.int64]]]:
    """Texts as numbers, NaN for gaps; and the rows that hold neither."""
    lower = np.char.lower(texts)
    gap = np.isin(lower, GAPS)
    filled = np.where(gap, "nan", lower)
    if gap.all():
        return np.full(len(texts), np.nan), np.array([], dtype=np.int64)
    if np.isin(lower[~gap], ("true", "false")).all():
        return np.where(gap, np.nan, (lower == "true").astype(np.float64)), np.array([], dtype=np.int64)
    try:
        return filled.astype(np.float64), np.array([], dtype=np.int64)
    except ValueError:
        # Each different text once: few are different where they are categories.
        every, place = np.unique(filled, return_inverse=True)
        values = [_number(text) for text in every.tolist()]
        bad = np.array([value is None for value in values])
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return numbers[place], np.flatnonzero(bad[place])


def is_gap(texts: Texts) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isin(np.char.lower(texts), GAPS)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _spoilt(numbers: Numbers, values: Texts, different: Texts) -> bool:
    """Whether these are measurements in which something else stands: most are numbers, or decimals by comma."""
    commas = [_DECIMAL_COMMA.fullmatch(value) is not None for value in different.tolist()]
    if any(commas) and all(c or _number(v) is not None for c, v in zip(commas, different.tolist(), strict=True)):
        return True
    there = numbers[~np.isnan(numbers)]
    return 2 * len(there) > len(values) and len(np.unique(there)) > CODES
