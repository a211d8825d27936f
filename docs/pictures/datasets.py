"""The pictures of docs/datasets.md: digits with the labels that a training is given, and what balanced epochs take.

    python docs/pictures/datasets.py

It takes a few seconds and needs the packages of selc[sklearn,report].
"""

from __future__ import annotations

from pathlib import Path

import torch

from selc.data import DATASETS
from selc.noise import draw_noise
from selc.report.style import BLACK, BLUE, ORANGE, SMALL, VERMILLION, WIDTH, entitle, panels, save
from selc.seeding import generator
from selc.training.order import Balanced

IMAGES = Path(__file__).parents[1] / "images"
ROWS, COLUMNS = 3, 12


def digits() -> None:
    """Some digits with their given labels; the wrong ones stand out."""
    data = DATASETS["digits"]()
    assert data.true is not None
    given = draw_noise("symmetric", data.labels, 10, 0, {"rate": 0.4}).labels
    (x,) = data.inputs.stream([torch.arange(ROWS * COLUMNS)], None)
    figure, grid = panels(ROWS, COLUMNS, 2.3)
    for row in range(ROWS * COLUMNS):
        axes = grid[row // COLUMNS][row % COLUMNS]
        axes.imshow(x[row, 0].numpy(), cmap="Greys", vmin=0, vmax=16)
        axes.set_axis_off()
        label, true = int(given[row]), int(data.true[row])
        wrong = label != true
        title, colour = (f"{label} (is {true})", VERMILLION) if wrong else (str(label), BLACK)
        axes.set_title(title, fontsize=SMALL, color=colour)
    save(figure, IMAGES / "datasets-digits.png")


def balanced() -> None:
    """Classes of different sizes, what an epoch takes of each, and how often the rows of one class come."""
    from matplotlib.figure import Figure

    sizes = torch.tensor([2200, 1800, 1500, 1300, 1100, 1000, 900, 800, 700, 600, 500, 400, 120, 80])
    labels = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    count, epochs = 2000, 30
    picks = Balanced(labels, count, seed=0)
    taken = torch.bincount(labels[picks.rows(0)], minlength=len(sizes))
    often, anew = torch.zeros(len(labels), dtype=torch.int64), torch.zeros(int(sizes[0]), dtype=torch.int64)
    for epoch in range(epochs):
        often[picks.rows(epoch)] += 1
        anew[torch.randperm(len(anew), generator=generator("anew", epoch))[: int(taken[0])]] += 1

    figure = Figure(figsize=(WIDTH, 2.6), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.tick_params(labelsize=SMALL)
        axes.spines[["top", "right"]].set_visible(False)
    left.bar(range(len(sizes)), sizes.tolist(), color="#DDDDDD", label="in the data")
    left.bar(range(len(sizes)), taken.tolist(), color=BLUE, label="in an epoch")
    left.legend(fontsize=SMALL, frameon=False)
    entitle(left, f"An epoch of {count:,} out of {len(labels):,} rows", "class", "rows")
    times = range(8)
    for shift, seen, colour, label in (
        (-0.2, often[labels == 0], BLUE, "going round"),
        (0.2, anew, ORANGE, "drawn anew"),
    ):
        bars = torch.bincount(seen, minlength=len(times))[: len(times)]
        right.bar([t + shift for t in times], bars.tolist(), width=0.4, color=colour, label=label)
    right.legend(fontsize=SMALL, frameon=False)
    entitle(right, f"A row of class 0 in {epochs} epochs", "times that it comes", "rows")
    save(figure, IMAGES / "datasets-balanced.png")


def main() -> None:
    digits()
    balanced()


if __name__ == "__main__":
    main()
