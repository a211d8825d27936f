"""What the suite shows: ranks, accuracy, right labels, finding and cost of each method, on each half of its columns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from selc._io.files import write_text
from selc.bench.rank_picture import rank_picture
from selc.bench.ranks import critical_difference, friedman, ranks_of
from selc.bench.results import Line
from selc.bench.table import Table

CE, CHANGED = "Cross Entropy", "with "
Found = dict[tuple[str, str], list[Line]]  # by row and column, a line for each seed
Read = Callable[[Line], float | None]


@dataclass(frozen=True)
class Half:
    """Columns that are compared together."""

    name: str
    title: str
    columns: tuple[str, ...]


def write_suite(suite: Table, scale: str, lines: dict[str, Line], out: Path) -> list[Path]:
    """Write the page and its pictures; return the files. What has no result yet is counted."""
    cells = suite.cells(scale)
    found: Found = {}
    for cell in cells:
        if cell.key() in lines:
            found.setdefault((cell.row, cell.column), []).append(lines[cell.key()])
    unseen = set(suite.unseen)
    rows_of = {column: {cell.row for cell in cells if cell.column == column} for column in suite.columns}
    large = tuple(c for c in suite.columns if 2 * len(rows_of[c]) < len(suite.rows))  # too large for most rows
    columns = [c for c in suite.columns if c not in large]
    halves = [
        Half("seen", "Columns that choices could see", tuple(c for c in columns if c not in unseen)),
        Half("unseen", "Columns that nothing was chosen by", tuple(c for c in columns if c in unseen)),
        Half("all", "All columns", tuple(columns)),
    ]
    here = {cell.row for cell in cells}
    rows = [row for row in suite.rows if row in here]
    others = [row for row in dict.fromkeys(cell.row for cell in cells) if CHANGED not in row]
    alike = {key: first for key, of in found.items() if (first := [line for line in of if line["seed"] == 0])}
    parts = [(half.name, half.title, found, rows, half.columns) for half in halves]
    # The screen has one seed, so that all are compared by it.
    parts += [(f"screen-{half.name}", f"{half.title}: every method", alike, others, half.columns) for half in halves]
    if large:
        parts.append(("large", "Larger data", found, [row for row in rows if row in rows_of[large[0]]], large))
    done, what = sum(cell.key() in lines for cell in cells), suite.scales[scale].what
    page = [
        f"# {suite.title}",
        "",
        f"Rendered by `selc bench render suite --scale {scale}` from {done} of {len(cells)} trainings "
        f"({_commits(found)}). {what[:1].upper()}{what[1:]}. Means are over the columns in which every "
        "row of the table has a number; cost is the median over them of the time relative to cross entropy.",
    ]
    written = []
    for name, title, of, chosen, shown in parts:
        text, picture = _compared(of, chosen, shown, f"suite-{scale}-{name}.svg")
        page += ["", f"## {title}", "", *text]
        if picture:
            written.append(out / f"suite-{scale}-{name}.svg")
            write_text(written[-1], picture)
    page += ["", "## Sensitivity", "", *_sensitivity(found, [row for row in here if CHANGED in row], suite.columns)]
    path = out / f"suite-{scale}.md"
    write_text(path, "\n".join(page) + "\n")
    return [path, *written]


def _compared(found: Found, rows: Sequence[str], columns: Sequence[str], file: str) -> tuple[list[str], str]:
    """The table of some rows on the columns that all of them have, and their picture, "" where there is none."""
    ran = [row for row in rows if any((row, column) in found for column in columns)]
    most = max((sum((row, c) in found for c in columns) for row in ran), default=0)
    shared = [c for c in columns if sum((row, c) in found for row in ran) * 2 > len(ran)] if most else []
    whole = [row for row in ran if all((row, c) in found for c in shared)]
    if len(whole) < 2 or not shared:
        return ["Nothing to compare yet: no two rows have a number in the same columns."], ""
    scores = [[_mean(found[row, column], _accuracy) or 0.0 for row in whole] for column in shared]
    ranks = ranks_of(scores)
    mean = ranks.mean(axis=0)
    order = sorted(range(len(whole)), key=lambda place: mean[place])
    text = [
        f"{len(whole)} methods, {len(shared)} column{'' if len(shared) == 1 else 's'}: {', '.join(shared)}.",
        *([f"Left out, as they lack some: {', '.join(missing)}."] if (missing := _without(rows, whole)) else []),
        "",
        "| method | mean rank | accuracy, last epoch | labels right after | AP of finding | time, relative to CE |",
        "|---|---|---|---|---|---|",
    ]
    for place in order:
        row = whole[place]
        lines = [found[row, column] for column in shared]
        shown = [_per_cent(_over(lines, read)) for read in (_accuracy, _right)]
        area = _over(lines, _area)
        text.append(
            f"| {row} | {mean[place]:.2f} | {' | '.join(shown)} | {'' if area is None else f'{area:.3f}'} "
            f"| {_cost(found, row, shared)} |"
        )
    if len(shared) < 2:
        return [*text, "", "One column says nothing of a difference beyond it."], ""
    chi, p = friedman(ranks)
    difference = critical_difference(len(whole), len(shared))
    words = (
        f"Friedman's test: chi square {chi:.1f} with {len(whole) - 1} degrees of freedom, p = {p:.2g}. "
        f"By Nemenyi's test mean ranks differ that are more than {difference:.2f} apart (5 %)."
    )
    picture = rank_picture([whole[place] for place in order], [float(mean[k]) for k in order], difference, words)
    return [*text, "", words, "", f"![{words}]({file})"], picture


def _sensitivity(found: Found, rows: Iterable[str], columns: Sequence[str]) -> list[str]:
    """What a constant other than the default changes, on the columns of its row."""
    text = []
    for row in sorted(rows):
        base, _, change = row.partition(f" {CHANGED}")
        shared = [c for c in columns if (row, c) in found and (base, c) in found]
        if not shared:
            continue
        gains = []
        for read in (_accuracy, _right):
            pairs = [(_mean(found[row, c], read), _mean(_alike(found[base, c], found[row, c]), read)) for c in shared]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            gains.append(f"{100 * statistics.mean(a - b for a, b in known):+.1f}" if known else "")
        text.append(f"| {base} | {change} | {' | '.join(gains)} | {len(shared)} |")
    if not text:
        return ["No training with another constant has a result yet."]
    head = ["| method | constant | accuracy, points | labels right after, points | columns |", "|---|---|---|---|---|"]
    return ["Differences from the default, which ran in the same columns with the same seeds.", "", *head, *text]


def _alike(lines: Iterable[Line], others: Iterable[Line]) -> list[Line]:
    """Those with the seeds that others have, too."""
    seeds = {line["seed"] for line in others}
    return [line for line in lines if line["seed"] in seeds]


def _accuracy(line: Line) -> float | None:
    named = line["last_accuracy"]
    first: dict[str, float] = named.get("test") or next(iter(named.values()), {})
    return first.get("top1")


def _right(line: Line) -> float | None:
    return line.get("right_after")


def _area(line: Line) -> float | None:
    found: dict[str, float] = line.get("found", {})
    return found.get("ap")


def _mean(lines: Iterable[Line], read: Read) -> float | None:
    values = [value for value in map(read, lines) if value is not None]
    return statistics.mean(values) if values else None


def _over(columns: Sequence[Sequence[Line]], read: Read) -> float | None:
    """The mean over columns of the mean over seeds; None if no column has it."""
    values = [value for lines in columns if (value := _mean(lines, read)) is not None]
    return statistics.mean(values) if values else None


def _cost(found: Found, row: str, columns: Sequence[str]) -> str:
    pairs = [(found[row, c], found[CE, c]) for c in columns if (CE, c) in found]
    ratios = [statistics.mean(a["seconds"] for a in x) / statistics.mean(b["seconds"] for b in y) for x, y in pairs]
    return f"{statistics.median(ratios):.1f}" if ratios else ""


def _without(rows: Sequence[str], whole: Sequence[str]) -> list[str]:
    return [row for row in rows if row not in whole]


def _per_cent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _commits(found: Found) -> str:
    commits = sorted({str(line.get("commit", "unknown")) for lines in found.values() for line in lines})
    return f"commit {', '.join(commits)}" if commits else "nothing is run yet"
