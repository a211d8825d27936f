"""Tables from results: ours, mean and spread over seeds, beside the published numbers. No number is edited by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from selc._io.files import write_text
from selc.bench.grid import Measure, Number, grouped, number_of, sheet_of
from selc.bench.markup import as_html, as_latex, as_markdown
from selc.bench.published_order import order_text
from selc.bench.results import DEFAULT, Line, read_lines
from selc.bench.runner import value_of
from selc.bench.sheet import NOTHING, Entry, Page, Picture, Sheet
from selc.bench.suite_page import write_suite
from selc.bench.table import Cell, Table
from selc.errors import ConfigError


def write_pages(tables: Sequence[Table], scale: str, results: Path, out: Path, variant: str = "text") -> list[Path]:
    """Write the tables as Markdown, HTML (self-contained) and LaTeX; return the files.

    Without results they hold the published numbers and say what is not run; a file that was named must be there.
    """
    if results != DEFAULT and not results.exists():
        raise ConfigError(
            f"--results must be a file that `selc bench` has written; got {results}, which is not there. "
            "Leave it out for the published numbers alone."
        )
    lines = read_lines(results)
    suites = [path for table in tables if table.kind == "suite" for path in write_suite(table, scale, lines, out)]
    tables = [table for table in tables if table.kind != "suite"]
    if suites and not tables:
        return suites
    page = page_of([table for table in tables if scale in table.scales], scale, lines, variant, out)
    words = results.with_name(f"{results.stem}-{scale}.txt")
    if words.exists():
        page = replace(page, words=words.read_text().strip())
    written = []
    for ending, writer in (("md", as_markdown), ("html", as_html), ("tex", as_latex)):
        path = out / f"tables-{scale}{ending_of(variant)}.{ending}"
        write_text(path, writer(page))
        written.append(path)
    return [*written, *suites]


def page_of(tables: Sequence[Table], scale: str, lines: dict[str, Line], variant: str, out: Path | None = None) -> Page:
    """Everything that the results say about the tables, before it takes a form."""
    sheets: list[Sheet] = []
    pictures: list[Picture] = []
    for table in tables:
        if table.kind == "figure":
            files = sorted(out.glob(f"{table.name}*-{scale}{ending_of(variant)}.png")) if out is not None else []
            if files:
                caption = f"{table.caption} {_scale_text(table, scale, variant)}"
                pictures.append(Picture(titled(table), caption, tuple(files)))
            continue
        cells = table.cells(scale, variant)
        sheets.append(main_sheet(table, scale, cells, lines, variant))
        sheets += more_sheets(table, scale, cells, lines)
    used = _used([cell for table in tables for cell in table.cells(scale, variant)], lines)
    versions = sorted({_made_with(line) for line in used})
    command = f"selc bench render --scale {scale}" + (f" --variant {variant}" if variant != "text" else "")
    about = f"Rendered by `{command}` from {len(used)} trainings; {_commits(used)}; {'; '.join(versions)}."
    if not used:
        run = f"selc bench all --scale {scale}" + ("" if scale == "cpu" else " --gpus 0")
        about = f"Rendered by `{command}`. Nothing is run yet: all numbers are published ones. `{run}` trains ours."
    return Page(f"Tables of the paper at scale {scale!r}", about, tuple(sheets), tuple(pictures))


def ending_of(variant: str) -> str:
    """What the names of files have for a variant."""
    return "" if variant == "text" else f"-{variant}"


def titled(table: Table) -> str:
    """With its number in the paper, if it has one: "Table 1: ..."."""
    number = table.name.removeprefix("table").removeprefix("figure")
    return f"{table.kind.capitalize()} {number}: {table.title}" if number.isdigit() else table.title


def _scale_text(table: Table, scale: str, variant: str = "text") -> str:
    code = "" if variant == "text" else ", with what the authors' code does otherwise"
    return f"Scale {scale}: {table.scales[scale].what.removeprefix(f'{scale}: ').rstrip('.')}{code}."


def _used(cells: Iterable[Cell], lines: dict[str, Line]) -> list[Line]:
    """The results that the cells have, each once."""
    keys = dict.fromkeys(cell.key() for cell in cells if not cell.skip and lines)
    return [lines[key] for key in keys if key in lines]


def _made_with(line: Line) -> str:
    capability = line.get("cpu_capability")  # lines of before it was kept lack it
    return f"selc {line.get('selc')}, torch {line.get('torch')}" + (f", {capability}" if capability else "")


def _commits(used: Sequence[Line]) -> str:
    found = sorted({str(line.get("commit") or "unknown") for line in used})
    return f"commit{'s' if len(found) > 1 else ''} {', '.join(found)}" if found else "no commit"


def main_sheet(table: Table, scale: str, cells: Sequence[Cell], lines: dict[str, Line], variant: str = "text") -> Sheet:
    """Test accuracy, ours and the published one, and how far the orders of methods agree."""
    paper = any(table.numbers.values())
    columns = dict.fromkeys(cell.column for cell in cells)
    heads = {c: f"the {table.theirs} numbers are for {table.of(c)}" for c in columns if paper and table.of(c) != c}
    sheet = sheet_of(titled(table), "", cells, lines, value_of, beside=table, heads=heads)
    caption = [table.caption, _scale_text(table, scale, variant)]
    caption.append(f"In %: {f'ours / {table.theirs}; ' if paper else ''}{_seeds_text(cells)}; the best is bold.")
    if paper and scale != "paper":
        caption.append(
            f"The {table.theirs} numbers are of the published scale (all data, larger networks, longer training): "
            "compare orders, not numbers."
        )
    if any(entry == Entry() or entry.instead == NOTHING for row in sheet.entries for entry in row):
        caption.append(f"{NOTHING}: no part of this scale.")
    used = _used(cells, lines)
    caption.append(f"{_commits(used).capitalize()}." if used else "Not run yet." if not _all_skipped(cells) else "")
    return replace(sheet, caption=" ".join(filter(None, caption)), orders=orders_of(table, cells, lines))


def orders_of(table: Table, cells: Sequence[Cell], lines: dict[str, Line]) -> tuple[str, ...]:
    """A line for each column with results."""
    groups = grouped(cells)
    texts = []
    for column in dict.fromkeys(cell.column for cell in cells):
        found = {row: number_of(group, lines, value_of) for (row, c), group in groups.items() if c == column}
        ours = {row: number.mean for row, number in found.items() if number}
        theirs = {row: number.mean for row in ours if (number := table.published(row, column))}
        texts.append(order_text(column, ours, theirs))
    return tuple(filter(None, texts))


def more_sheets(table: Table, scale: str, cells: Sequence[Cell], lines: dict[str, Line]) -> list[Sheet]:
    """What the same trainings also say, which the paper does not print; rows and columns without any are left out."""
    if not lines:
        return []
    plain = {_place(c): lines[c.key()]["seconds"] for c in cells if _is_plain(c) and not c.skip and c.key() in lines}

    def time(cell: Cell, line: Line) -> float | None:
        return line["seconds"] / plain[_place(cell)] / 100 if _place(cell) in plain else None  # it is no per cent

    def found(name: str) -> Measure:
        return lambda cell, line: line.get("found", {}).get(name)

    right = "labels of the training set that are right, before and after, %"
    wanted: dict[str, tuple[Measure, int, bool]] = {right: (lambda cell, line: line.get("right_after"), 1, True)}
    if not table.name.startswith("table"):  # it is none of the paper's: with what label cleaning is compared by
        for name, title in (("auroc", "AUROC"), ("ap", "average precision"), ("f1", "F1")):
            wanted[f"wrong labels found, {title} in %"] = (found(name), 1, True)
    wanted["time of the training relative to cross entropy"] = (time, 1, False)
    own = [cell for cell in cells if cell.test == cells[0].test and cell.measure == cells[0].measure]
    sheets = []
    for title, (measure, digits, best) in wanted.items():
        there = [cell for cell in own if number_of([cell], lines, measure)]
        rows, columns = {cell.row for cell in there}, {cell.column for cell in there}
        shown = [cell for cell in own if cell.row in rows and cell.column in columns]
        if not shown:
            continue
        caption = f"{title[0].upper()}{title[1:]}. Scale {scale}, {_seeds_text(shown)}; {NOTHING}: no part of it."
        sheet = sheet_of(
            f"{titled(table)}: {title}", caption, shown, lines, measure, digits=digits, best=best, small=True
        )
        sheets.append(_with_given(sheet, shown, lines, digits) if title == right else sheet)
    return sheets


def _with_given(sheet: Sheet, cells: Sequence[Cell], lines: dict[str, Line], digits: int) -> Sheet:
    """With a first row for the labels before any training, which are the same for all methods."""
    entries = []
    for column, _ in sheet.columns:
        seeds = {
            cell.seed: 100 * lines[cell.key()]["right_before"]
            for cell in cells
            if cell.column == column and not cell.skip and "right_before" in lines.get(cell.key(), {})
        }
        number = Number.of(list(seeds.values()))
        entries.append(Entry(number.text(digits)) if number else Entry())
    return replace(sheet, rows=(("given labels (before)", ""), *sheet.rows), entries=(tuple(entries), *sheet.entries))


def _all_skipped(cells: Sequence[Cell]) -> bool:
    return all(cell.skip for cell in cells)


def _seeds_text(cells: Sequence[Cell]) -> str:
    numbers = sorted({len(group) for group in grouped(cells).values()})
    if numbers == [1]:
        return "one seed"
    if len(numbers) == 1:
        return f"mean ± standard deviation over {numbers[0]} seeds"
    return f"mean ± standard deviation over {numbers[0]} to {numbers[-1]} seeds (without ±: one seed)"


def _is_plain(cell: Cell) -> bool:
    return bool(cell.settings.get("method", {}).get("name") == "ce")


def _place(cell: Cell) -> tuple[str, int]:
    return cell.column, cell.seed
