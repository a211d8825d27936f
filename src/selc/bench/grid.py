"""The places of a table: our numbers over seeds, the published ones beside them, and why some are not there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from selc.bench.results import Line
from selc.bench.sheet import NOTHING, Entry, Sheet
from selc.bench.table import Cell, Table

Measure = Callable[[Cell, Line], float | None]  # a share, or None if the line has no such thing


@dataclass(frozen=True)
class Number:
    """What the seeds of an entry give, in per cent."""

    mean: float
    spread: float | None  # standard deviation of a sample; None for a single value
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Number | None:
        if not values:
            return None
        return cls(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def text(self, digits: int) -> str:
        return number_text(self.mean, self.spread, digits)


def number_text(mean: float, spread: float | None, digits: int = 2) -> str:
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def sheet_of(
    title: str,
    caption: str,
    cells: Sequence[Cell],
    lines: dict[str, Line],
    measure: Measure,
    *,
    digits: int = 2,
    beside: Table | None = None,
    heads: Mapping[str, str] | None = None,
    best: bool = True,
    small: bool = False,
) -> Sheet:
    """Rows and columns in the order of the cells; what was not run says why.

    ``beside``: with its published numbers, and with the rows and columns of which there are no others.
    """
    ran_rows, ran_columns = list(dict.fromkeys(c.row for c in cells)), list(dict.fromkeys(c.column for c in cells))
    rows, columns = ran_rows, ran_columns
    if beside is not None:
        rows = _merged(rows, [row for row in beside.rows if row in beside.numbers or row in rows])
        columns = _merged(columns, beside.columns, beside.of)
    groups = grouped(cells)
    numbers = {where: number_of(group, lines, measure) for where, group in groups.items()}
    remarks = _Remarks()
    # A remark that holds for a whole column stands at its head, not at each number.
    shared = {column: _shared({c.note for c in cells if c.column == column}) for column in columns}
    header = tuple(
        (column, ",".join(filter(None, (remarks.mark(shared[column]), remarks.mark((heads or {}).get(column, ""))))))
        for column in columns
    )
    margin = tuple(
        (row, "" if row in ran_rows else remarks.mark("published numbers only, no run of ours")) for row in rows
    )
    tops = {column: _top([numbers.get((row, column)) for row in rows], digits) if best else None for column in columns}

    def entry(row: str, column: str) -> Entry:
        group = groups.get((row, column))
        paper, paper_best = _beside(beside, row, column)
        if group is None:
            alone = row not in ran_rows or column not in ran_columns  # else it only repeats what stands elsewhere
            return Entry("", NOTHING, False, paper, paper_best) if paper and alone else Entry()
        number = numbers[row, column]
        marks = [] if shared[column] else [remarks.mark(group[0].note)]
        if number is None:
            reason = next((cell.skip for cell in group if cell.skip), "") or "not run yet"
            return Entry("", "not run", False, paper, paper_best, _sorted([*marks, remarks.mark(reason)]))
        if number.count < len(group):
            marks.append(remarks.mark(f"{number.count} of {len(group)} seeds"))
        is_best = tops[column] is not None and f"{number.mean:.{digits}f}" == tops[column]
        return Entry(number.text(digits), "", is_best, paper, paper_best, _sorted(marks))

    entries = tuple(tuple(entry(row, column) for column in columns) for row in rows)
    return Sheet(title, caption, header, margin, entries, remarks.texts(), small)


def grouped(cells: Iterable[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """The seeds of each place."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.row, cell.column), []).append(cell)
    return groups


def _merged(ours: Sequence[str], printed: Sequence[str], of: Callable[[str], str] = str) -> list[str]:
    """Ours, and what is printed and neither among them nor stood for by one, each after its neighbour in print."""
    result = list(ours)
    for number, name in enumerate(printed):
        if name in map(of, result):
            continue
        before = [k for k, one in enumerate(result) if of(one) in printed[:number]]
        nearest = max(before, key=lambda k: (printed.index(of(result[k])), k), default=-1)
        result.insert(nearest + 1, name)
    return result


def _beside(table: Table | None, row: str, column: str) -> tuple[str, bool]:
    """What is published, as it is printed, and whether it is the largest of all that are printed in the column."""
    if table is None:
        return "", False
    number = table.published(row, column)
    known = [one.mean for other in table.numbers if (one := table.published(other, column))]
    return table.printed(row, column), number is not None and len(known) > 1 and number.mean == max(known)


def number_of(group: Sequence[Cell], lines: dict[str, Line], measure: Measure) -> Number | None:
    if not lines:
        return None  # and no key need be found
    found = [measure(cell, lines[cell.key()]) for cell in group if not cell.skip and cell.key() in lines]
    return Number.of([100 * value for value in found if value is not None])


def _top(numbers: Iterable[Number | None], digits: int) -> str | None:
    """The largest mean, as it is printed: what looks equal is equally bold."""
    known = [number.mean for number in numbers if number is not None]
    return f"{max(known):.{digits}f}" if len(known) > 1 else None


def _shared(notes: set[str]) -> str:
    return next(iter(notes)) if len(notes) == 1 else ""


def _sorted(marks: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({mark for mark in marks if mark}))


class _Remarks:
    """Footnotes: a letter for each text, in the order in which they come up."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def mark(self, text: str) -> str:
        if not text:
            return ""
        if text not in self.known:
            number = len(self.known)
            self.known[text] = (chr(ord("a") + number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)
        return self.known[text]

    def texts(self) -> tuple[tuple[str, str], ...]:
        return tuple((mark, text) for text, mark in self.known.items())
