"""A rendered table before it takes a form: texts, marks and what is bold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NOTHING = "–"  # it is no part of the scale


@dataclass(frozen=True)
class Entry:
    """One place of a table; all empty: the table has no such place."""

    ours: str = ""
    instead: str = ""  # what stands there if there is no number of ours
    best: bool = False
    paper: str = ""
    paper_best: bool = False
    marks: tuple[str, ...] = ()  # of footnotes


@dataclass(frozen=True)
class Sheet:
    """A table: columns and rows with the marks of their footnotes, entries by row and column, footnotes."""

    title: str
    caption: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str], ...]
    entries: tuple[tuple[Entry, ...], ...]
    footnotes: tuple[tuple[str, str], ...] = ()
    small: bool = False  # it is none of the paper's tables
    orders: tuple[str, ...] = ()  # by column: our order of methods against the published one


@dataclass(frozen=True)
class Picture:
    """A figure that was drawn, in one file or several."""

    title: str
    caption: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Page:
    """All tables of a scale."""

    title: str
    about: str
    sheets: tuple[Sheet, ...]
    pictures: tuple[Picture, ...] = ()
    words: str = ""  # what the numbers say: paragraphs of Markdown, written by hand, as numbers are not
