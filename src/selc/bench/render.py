"""Tables from results: ours, mean and spread over seeds, beside the published numbers. No number is edited by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selc.bench.formats import as_html, as_latex, as_markdown
from selc.bench.results import Line, read_lines
from selc.bench.runner import value_of
from selc.bench.sheet import Entry, Page, Picture, Sheet
from selc.bench.table import Cell, Table
from selc.errors import ConfigError
from selc.files import write_text

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


def write_pages(tables: Sequence[Table], scale: str, results: Path, out: Path, variant: str = "text") -> list[Path]:
    """Write the tables as Markdown, HTML (self-contained) and LaTeX; return the files."""
    lines = read_lines(results)
    if not lines:
        raise ConfigError(
            f"--results must hold results to render; got {results}, which has none. Run `selc bench` first."
        )
    page = page_of([table for table in tables if scale in table.scales], scale, lines, variant, out)
    words = results.with_name(f"{results.stem}-{scale}.txt")
    if words.exists():
        page = replace(page, words=words.read_text().strip())
    stem = f"tables-{scale}" if variant == "text" else f"tables-{scale}-{variant}"
    written = []
    for ending, writer in (("md", as_markdown), ("html", as_html), ("tex", as_latex)):
        path = out / f"{stem}.{ending}"
        write_text(path, writer(page))
        written.append(path)
    return written


def page_of(tables: Sequence[Table], scale: str, lines: dict[str, Line], variant: str, out: Path | None = None) -> Page:
    """Everything that the results say about the tables, before it takes a form."""
    sheets: list[Sheet] = []
    pictures: list[Picture] = []
    for table in tables:
        if table.kind == "figure":
            files = sorted(out.glob(f"{table.name}*-{scale}.png")) if out is not None else []
            caption = f"{titled(table)}. {table.caption} {_scale_text(table, scale)}"
            pictures += [Picture(caption, file) for file in files]
            continue
        cells = table.cells(scale, variant)
        sheets.append(main_sheet(table, scale, cells, lines))
        sheets += more_sheets(table, scale, cells, lines)
    used = [lines[key] for key in _keys(tables, scale, variant) if key in lines]
    commits = sorted({str(line.get("commit")) for line in used})
    versions = sorted({f"selc {line.get('selc')}, torch {line.get('torch')}" for line in used})
    about = (
        f"Rendered by `selc bench render --scale {scale}` from {len(used)} trainings"
        + (f" (variant {variant})" if variant != "text" else "")
        + f"; commits {', '.join(commits) or 'none'}; {'; '.join(versions) or 'no versions'}."
    )
    return Page(f"Tables of the paper at scale {scale!r}", about, tuple(sheets), tuple(pictures))


def titled(table: Table) -> str:
    """With its number in the paper, if it has one: "Table 1: ..."."""
    number = table.name.removeprefix("table").removeprefix("figure")
    return f"{table.kind.capitalize()} {number}: {table.title}" if number.isdigit() else table.title


def _scale_text(table: Table, scale: str) -> str:
    return f"Scale {scale}: {table.scales[scale].what.rstrip('.')}."


def _keys(tables: Sequence[Table], scale: str, variant: str) -> list[str]:
    cells = [cell for table in tables for cell in table.cells(scale, variant) if not cell.skip]
    return list(dict.fromkeys(cell.key() for cell in cells))


def main_sheet(table: Table, scale: str, cells: Sequence[Cell], lines: dict[str, Line]) -> Sheet:
    """Test accuracy, ours and the paper's."""
    paper = "ours / paper; " if any(cell.published is not None for cell in cells) else ""
    caption = f"{table.caption} {_scale_text(table, scale)} In %, {paper}{_seeds_text(cells)}; the best is bold."
    other = {
        c: f"the paper's numbers are for {table.of(c)}" for c in {cell.column for cell in cells} if table.of(c) != c
    }
    return sheet_of(titled(table), caption, cells, lines, value_of, published=True, heads=other if paper else None)


def more_sheets(table: Table, scale: str, cells: Sequence[Cell], lines: dict[str, Line]) -> list[Sheet]:
    """What the same trainings also say, which the paper does not print."""
    plain = {_place(c): lines[c.key()]["seconds"] for c in cells if _is_plain(c) and not c.skip and c.key() in lines}

    def time(cell: Cell, line: Line) -> float | None:
        return line["seconds"] / plain[_place(cell)] / 100 if _place(cell) in plain else None  # it is no per cent

    def found(name: str) -> Measure:
        return lambda cell, line: line.get("found", {}).get(name)

    wanted: dict[str, tuple[Measure, int, bool]] = {
        "labels of the training set that are right after it, %": (lambda cell, line: line.get("right_after"), 1, True),
    }
    if not table.name.startswith("table"):  # it is none of the paper's: with what label cleaning is compared by
        for name, title in (("auroc", "AUROC"), ("ap", "average precision"), ("f1", "F1")):
            wanted[f"wrong labels found, {title} in %"] = (found(name), 1, True)
    wanted["time of the training relative to cross entropy"] = (time, 1, False)
    own = [cell for cell in cells if cell.test == cells[0].test and cell.measure == cells[0].measure]
    sheets = []
    for title, (measure, digits, best) in wanted.items():
        caption = f"{title[0].upper()}{title[1:]}. Scale {scale}, {_seeds_text(own)}."
        sheet = sheet_of(
            f"{titled(table)}: {title}", caption, own, lines, measure, digits=digits, best=best, small=True
        )
        if any(entry.ours for row in sheet.entries for entry in row):
            sheets.append(sheet)
    return sheets


def sheet_of(
    title: str,
    caption: str,
    cells: Sequence[Cell],
    lines: dict[str, Line],
    measure: Measure,
    *,
    digits: int = 2,
    published: bool = False,
    heads: Mapping[str, str] | None = None,
    best: bool = True,
    small: bool = False,
) -> Sheet:
    """Rows and columns in the order of the cells; what was not run says why."""
    rows, columns = (tuple(dict.fromkeys(names)) for names in ((c.row for c in cells), (c.column for c in cells)))
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.row, cell.column), []).append(cell)
    numbers = {where: _number(group, lines, measure) for where, group in groups.items()}
    remarks = _Remarks()
    # A remark that holds for a whole column stands at its head, not at each number.
    shared = {column: _shared({c.note for c in cells if c.column == column}) for column in columns}
    header = tuple(
        (column, ",".join(filter(None, (remarks.mark(shared[column]), remarks.mark((heads or {}).get(column, ""))))))
        for column in columns
    )
    tops = {column: _top([numbers.get((row, column)) for row in rows], digits) if best else None for column in columns}
    printed = {c: _top_published([groups[r, c][0] for r in rows if (r, c) in groups]) for c in columns}

    def entry(row: str, column: str) -> Entry:
        group = groups.get((row, column))
        if group is None:
            return Entry()
        first, number = group[0], numbers[row, column]
        paper, paper_best = "", False
        if published and first.published is not None:
            paper = number_text(first.published, first.published_spread)
            paper_best = first.published == printed[column]
        marks = [] if shared[column] else [remarks.mark(first.note)]
        if number is None:
            reason = next((cell.skip for cell in group if cell.skip), "") or "not run yet"
            return Entry("", "not run", False, paper, paper_best, _sorted([*marks, remarks.mark(reason)]))
        if number.count < len(group):
            marks.append(remarks.mark(f"{number.count} of {len(group)} seeds"))
        is_best = tops[column] is not None and number.text(digits) == tops[column]
        return Entry(number.text(digits), "", is_best, paper, paper_best, _sorted(marks))

    entries = tuple(tuple(entry(row, column) for column in columns) for row in rows)
    return Sheet(title, caption, header, rows, entries, remarks.texts(), small)


def _number(group: Sequence[Cell], lines: dict[str, Line], measure: Measure) -> Number | None:
    found = [measure(cell, lines[cell.key()]) for cell in group if not cell.skip and cell.key() in lines]
    return Number.of([100 * value for value in found if value is not None])


def _top(numbers: Iterable[Number | None], digits: int) -> str | None:
    """The largest mean, as it is printed: what looks equal is equally bold."""
    known = [number for number in numbers if number is not None]
    top = max(known, key=lambda number: number.mean, default=None)
    return None if top is None or len(known) < 2 else top.text(digits)


def _top_published(cells: Iterable[Cell]) -> float | None:
    known = [cell.published for cell in cells if cell.published is not None]
    return max(known) if len(known) > 1 else None


def _shared(notes: set[str]) -> str:
    return next(iter(notes)) if len(notes) == 1 else ""


def _sorted(marks: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({mark for mark in marks if mark}))


def _seeds_text(cells: Sequence[Cell]) -> str:
    counts: dict[tuple[str, str], int] = {}
    for cell in cells:
        counts[cell.row, cell.column] = counts.get((cell.row, cell.column), 0) + 1
    numbers = sorted(set(counts.values()))
    if numbers == [1]:
        return "one seed"
    if len(numbers) == 1:
        return f"mean ± standard deviation over {numbers[0]} seeds"
    return f"mean ± standard deviation over {numbers[0]} to {numbers[-1]} seeds (without ±: one seed)"


def _is_plain(cell: Cell) -> bool:
    return bool(cell.settings.get("method", {}).get("name") == "ce")


def _place(cell: Cell) -> tuple[str, int]:
    return cell.column, cell.seed


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
