"""Columns of a table as numbers: gaps filled, categories spelled out; what was learnt of them is plain data.

The rules are learnt by scikit-learn's transformers (`SimpleImputer`, `OneHotEncoder`) and kept as text and numbers, so
that later rows are treated alike without scikit-learn and without unpickling anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selc.data.csv_table import not_numeric
from selc.data.features import Numbers
from selc.data.labels import Where
from selc.errors import ConfigError, InputError

Texts = np.ndarray[Any, np.dtype[np.str_]]
Cells = Mapping[str, Numbers | Texts]  # a vector [N] per column: numbers with NaN for gaps, or texts with "" for gaps

GAPS = ("", "nan", "na", "n/a", "null", "none", "?")  # what stands in a column of numbers where there is none
MOST_LEVELS = 100  # of a column; the rarest beyond that are one
CODES = 20  # different numbers up to which a column with numbers and texts is one of codes, and no spoilt measurement
SMALL_TABLE = 20  # rows below which a column must differ in every row to be a name and no category
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
    """How the columns of a table become numbers, [N, D]: numbers, then flags of gaps, then levels of categories."""

    numbers: tuple[NumberColumn, ...]
    categories: tuple[CategoryColumn, ...] = ()

    @classmethod
    def learnt(cls, cells: Cells) -> Coding:
        """The coding of training rows."""
        numbers = [name for name, column in cells.items() if column.dtype.kind == "f"]
        texts = [name for name in cells if name not in numbers]
        return cls(_learn_numbers(cells, numbers), _learn_categories(cells, texts))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return (*(column.name for column in self.numbers), *(column.name for column in self.categories))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it makes."""
        flags = [f"{column.name} is missing" for column in self.numbers if column.flag]
        levels = [f"{column.name}={level}" for column in self.categories for level in _titles(column)]
        return (*(column.name for column in self.numbers), *flags, *levels)

    @property
    def measured(self) -> int:
        """How many of the columns that it makes are measurements, to be scaled; the others are 0 or 1."""
        return len(self.numbers)

    def apply(self, cells: Cells) -> Numbers:
        """Rows as numbers. A level that training did not show counts as a rare one; without such, as none of all."""
        columns = [np.asarray(cells[column.name], dtype=np.float64) for column in self.numbers]
        gaps = [np.isnan(values) for values in columns]
        made = [
            np.where(gap, column.fill, values) for column, values, gap in zip(self.numbers, columns, gaps, strict=True)
        ]
        made += [gap.astype(np.float64) for column, gap in zip(self.numbers, gaps, strict=True) if column.flag]
        blocks = [np.stack(made, axis=1)] if made else []
        blocks += [_one_hot(column, np.asarray(cells[column.name], dtype=np.str_)) for column in self.categories]
        return np.concatenate(blocks, axis=1)

    def state(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "numbers": [{"name": c.name, "fill": c.fill, "flag": c.flag} for c in self.numbers],
            "categories": [{"name": c.name, "levels": list(c.levels), "rare": list(c.rare)} for c in self.categories],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Coding:
        return cls(
            tuple(NumberColumn(str(c["name"]), float(c["fill"]), bool(c["flag"])) for c in state["numbers"]),
            tuple(CategoryColumn(str(c["name"]), tuple(c["levels"]), tuple(c["rare"])) for c in state["categories"]),
        )


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
            f"column {void[0]!r} must have a value in some row; got none. Leave it out (data.drop={void[:5]})."
        )
    if not empty.any():  # the same number, and nothing to install
        fills, flagged = np.median(x, axis=0), np.zeros(len(names), dtype=bool)
    else:
        imputer = _sklearn("a table with empty cells", "impute").SimpleImputer(strategy="median", add_indicator=True)
        imputer.fit(x)
        fills = imputer.statistics_
        flagged = np.isin(np.arange(len(names)), imputer.indicator_.features_)
    return tuple(
        NumberColumn(name, float(fill), bool(flag)) for name, fill, flag in zip(names, fills, flagged, strict=True)
    )


def _learn_categories(cells: Cells, names: Sequence[str]) -> tuple[CategoryColumn, ...]:
    if not names:
        return ()
    x = np.stack([np.asarray(cells[name], dtype=object) for name in names], axis=1)
    encoder = _sklearn("a table with columns of text", "preprocessing").OneHotEncoder(
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


def _sklearn(what: str, module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise ConfigError(
            f"{what} needs scikit-learn; got no such package. Install it: pip install 'selc[sklearn]'."
        ) from None


# What a column of text is


def read_column(name: str, cells: Sequence[str], where: Where) -> Numbers | Texts:
    """A column as numbers or as a category, by its training rows; what is neither has a sentence of its own."""
    texts: Texts = np.char.strip(np.asarray(cells, dtype=np.str_))
    numbers, strange = as_numbers(texts)
    if not len(strange):
        return numbers
    values = texts[~is_gap(texts)]
    different = np.unique(values)
    example, place = str(texts[strange[0]]), where(int(strange[0]))
    drop = f"leave it out (data.drop={[name]})"
    if all(_DATE.fullmatch(value) for value in different.tolist()):
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
            f"{rows} rows, such as {example[:40]!r} {place}. If it names the samples, say so (--id-column {name}); "
            f"else {drop}."
        )
    return as_category(texts)


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
