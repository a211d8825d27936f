"""The pictures of docs/turning-point.md: one run on digits, and the proof in benchmarks/results/turning_point.jsonl.

    python docs/pictures/turning_point.py

It takes a few seconds and needs the packages of selc[sklearn,report].
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from selc.report.style import BLACK, BLUE, ORANGE, SMALL, VERMILLION, entitle, panels, save
from selc.report.turning import metrics
from selc.run import Config, execute

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "benchmarks" / "results" / "turning_point.jsonl"
SHOWN = {"digits": "digits, by learning rate and noise", "features": "features of CIFAR-10", "elsewhere": "other data"}
MARKS = {"ce": ("x", BLACK, "CE"), "paper": ("v", ORANGE, "paper's constants"), "fixed": ("_", BLUE, "hindsight")}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "data": "digits",
            "noise": {"name": "symmetric", "rate": 0.4},
            "method": {"name": "ce"},
            "train": {"lr": 0.01},
        }
        run = execute(Config.resolve(settings), Path(folder) / "run")
        save(metrics(run), DOCS / "images" / "turning-metrics.png")
    proof()


def proof() -> None:
    """Accuracy in every cell, sorted by CE: what is above the crosses was won."""
    lines = [json.loads(text) for text in RESULTS.read_text().splitlines()]
    cells: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        cells[line["data"], line["lr"], line["noise"]][line["method"]].append(line)
    figure, grid = panels(3, 1, 6.5)
    for axes, (name, title) in zip((row[0] for row in grid), SHOWN.items(), strict=True):
        mine = [cell for key, cell in cells.items() if group(key[0]) == name and cell["auto"] and cell["ce"]]
        mine.sort(key=lambda cell: mean(line["score"] for line in cell["ce"]))
        for method, (mark, colour, label) in MARKS.items():
            points = [(x, value) for x, cell in enumerate(mine) if (value := score(cell, method)) is not None]
            axes.plot([x for x, _ in points], [y for _, y in points], mark, color=colour, label=label, markersize=5)
        automatic = [score(cell, "auto") or 0.0 for cell in mine]
        axes.plot(automatic, "o", color=VERMILLION, label="automatic", markersize=4)
        entitle(axes, title, "cells, by the accuracy of CE" if name == "elsewhere" else "", "test accuracy")
        axes.set_ylim(0.15, 1.02)
        axes.set_yticks([0.2, 0.4, 0.6, 0.8, 1.0])
        axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    save(figure, DOCS / "images" / "turning-proof.png")


def group(data: str) -> str:
    return data.removesuffix("-all") if data.removesuffix("-all") in SHOWN else "elsewhere"


def score(cell: dict[str, list[dict[str, Any]]], method: str) -> float | None:
    """The mean over seeds; of fixed pairs the best one on the other half of the test rows, of each seed."""
    lines = cell[method]
    if method == "fixed":
        seeds = defaultdict(list)
        for line in lines:
            seeds[line["seed"]].append(line)
        lines = [max(pairs, key=lambda line: float(line["choose"])) for pairs in seeds.values() if len(pairs) >= 9]
    return mean(line["score"] for line in lines) if lines else None


if __name__ == "__main__":
    main()
