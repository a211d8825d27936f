"""The results of methods.py as a page: accuracy, labels put right and wrong labels found by every method, and time."""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from machine import processors
from selc._io.files import write_text

RESULTS = Path(__file__).parent / "results" / "methods.jsonl"
WORDS = RESULTS.with_suffix(".txt")  # what the table says, in words: written by hand, as numbers are not
Line = dict[str, Any]
Table = dict[str, dict[tuple[str, str], list[Line]]]  # method -> cell -> lines, one per seed


def page(lines: list[Line], words: str) -> str:
    table: Table = defaultdict(lambda: defaultdict(list))
    for line in lines:
        table[line["method"]][line["data"], line["noise"]].append(line)
    cells = list(dict.fromkeys((line["data"], line["noise"]) for line in lines))
    commits = sorted({str(line.get("commit")) for line in lines})
    seeds = sorted({line["seed"] for line in lines})
    text = [
        "# Methods",
        "",
        f"Rendered from {len(lines)} trainings in `methods.jsonl` (commits {', '.join(commits)}; "
        f"{processors(lines)[:-1].lower()}; seeds "
        f"{', '.join(map(str, seeds))}). MLP 512-512, SGD 0.02 and momentum 0.9, constant rate, batch 128; digits 60 "
        "epochs, features (10,000 rows) 30; last epoch; symmetric noise may draw the true class. Published defaults of "
        "each method, times as shares of its paper's epochs; nothing was tuned on the test data; noise rates are "
        "estimated. Spread is the standard deviation over seeds; methods are in the order of their mean accuracy.",
        "",
        words.strip(),
        "",
    ]
    order = sorted(table, key=lambda name: -mean_over_cells(table[name], cells, "accuracy"))
    text += part("Test accuracy, % (last epoch)", table, order, cells, "accuracy")
    text += part("Training labels that are right after, %", table, order, cells, "right_after")
    text += part("Wrong labels found, AUROC in %", table, order, cells, "auroc")
    text += part("Wrong labels found, average precision in %", table, order, cells, "ap")
    text += ["## Time relative to CE", "", "| method | " + " | ".join(map(title, cells)) + " | mean |"]
    text += ["|---" * (len(cells) + 2) + "|"]
    for name in order:
        ratios = [ratio(table, name, cell) for cell in cells]
        known = [value for value in ratios if value is not None]
        row = [f"{value:.1f}" if value is not None else "-" for value in ratios]
        text.append(f"| {name} | {' | '.join(row)} | {statistics.mean(known):.1f} |" if known else f"| {name} | - |")
    return "\n".join(text) + "\n"


def part(head: str, table: Table, order: list[str], cells: list[tuple[str, str]], field: str) -> list[str]:
    text = [f"## {head}", "", "| | method | " + " | ".join(map(title, cells)) + " | mean |"]
    text += ["|---" * (len(cells) + 3) + "|"]
    ranked = sorted(order, key=lambda name: -mean_over_cells(table[name], cells, field))
    for rank, name in enumerate(ranked, 1):
        row = [spread([line[field] for line in table[name][cell]]) for cell in cells]
        bold = f"**{name}**" if name in ("selc", "selc+") else name
        text.append(f"| {rank} | {bold} | {' | '.join(row)} | {100 * mean_over_cells(table[name], cells, field):.1f} |")
    return [*text, ""]


def mean_over_cells(of: dict[tuple[str, str], list[Line]], cells: list[tuple[str, str]], field: str) -> float:
    """A cell that was not run counts as nothing, so that an unfinished method does not lead."""
    return statistics.mean(statistics.mean(line[field] for line in of[cell]) if of[cell] else 0.0 for cell in cells)


def spread(values: list[float]) -> str:
    if not values:
        return "-"
    around = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{around}"


def ratio(table: Table, name: str, cell: tuple[str, str]) -> float | None:
    ours, plain = table[name][cell], table["ce"][cell]
    if not ours or not plain:
        return None
    return statistics.mean(float(e["seconds"]) for e in ours) / statistics.mean(float(e["seconds"]) for e in plain)


def title(cell: tuple[str, str]) -> str:
    return f"{cell[0]}, {cell[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    lines = [json.loads(text) for text in arguments.results.read_text().splitlines()]
    words = WORDS.read_text() if WORDS.exists() else ""
    write_text(arguments.results.with_suffix(".md"), page(lines, words))


if __name__ == "__main__":
    main()
