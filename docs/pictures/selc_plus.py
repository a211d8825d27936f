"""The picture of docs/methods/selc-plus.md: how SELC+ works (the paper's Figure 6, drawn anew).

    python docs/pictures/selc_plus.py

It takes a second and needs matplotlib (selc[report]).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selc.report.style import BLACK, BLUE, GREEN, SMALL, TEXT, VERMILLION, panels, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TARGET = Path(__file__).parents[1] / "images" / "selc-plus.png"
HEIGHT = 0.9  # of a box


def main() -> None:
    figure, grid = panels(2, 1, 3.6)
    first, second = (row[0] for row in grid)
    for axes in (first, second):
        axes.set_axis_off()
        axes.set(xlim=(-0.1, 14.1), ylim=(0, 3.2))
    stage_one(first)
    stage_two(second)
    save(figure, TARGET)


def stage_one(axes: Axes) -> None:
    axes.set_title("(a) SELC: train, and correct the labels on the way", fontsize=TEXT, loc="left")
    box(axes, 0.0, 1.9, 2.2, "inputs x", BLACK)
    box(axes, 0.0, 0.2, 2.2, "given labels ŷ", VERMILLION)
    box(axes, 3.6, 1.9, 2.2, "network f(Θ)", BLUE)
    box(axes, 7.0, 1.9, 2.4, "predictions p", BLACK)
    box(axes, 7.0, 0.2, 2.4, "targets t", GREEN)
    box(axes, 11.0, 1.05, 3.0, "loss −tᵀ log p", BLACK)
    arrow(axes, (2.2, 2.35), (3.6, 2.35))
    arrow(axes, (5.8, 2.35), (7.0, 2.35))
    arrow(axes, (2.2, 0.65), (7.0, 0.65), "first: t = ŷ")
    arrow(axes, (8.2, 1.9), (8.2, 1.1))
    axes.text(8.35, 1.5, "t ← α t + (1 − α) p", fontsize=SMALL, va="center")
    arrow(axes, (9.4, 2.35), (11.0, 1.7))
    arrow(axes, (9.4, 0.65), (11.0, 1.3))


def stage_two(axes: Axes) -> None:
    axes.set_title("(b) A fresh network, with mixup, on the corrected labels", fontsize=TEXT, loc="left")
    box(axes, 0.0, 1.9, 2.2, "inputs x", BLACK)
    box(axes, 0.0, 0.2, 2.2, "labels from (a)", GREEN)
    box(axes, 3.6, 1.05, 3.6, "mixup\nl·(x, t)ᵢ + (1 − l)·(x, t)ⱼ", BLACK)
    box(axes, 8.4, 1.05, 2.4, "fresh\nnetwork f(Θ′)", BLUE)
    box(axes, 11.8, 1.05, 2.2, "the model", BLUE)
    arrow(axes, (2.2, 2.35), (3.6, 1.7))
    arrow(axes, (2.2, 0.65), (3.6, 1.3))
    arrow(axes, (7.2, 1.5), (8.4, 1.5))
    arrow(axes, (10.8, 1.5), (11.8, 1.5))


def box(axes: Axes, left: float, bottom: float, width: float, text: str, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.15"
    axes.add_patch(FancyBboxPatch((left, bottom), width, HEIGHT, style, facecolor="white", edgecolor=colour, lw=1.5))
    middle = left + width / 2, bottom + HEIGHT / 2
    axes.text(*middle, text, ha="center", va="center", fontsize=SMALL, color=colour)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "") -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 1})
    if text:
        axes.text((start[0] + end[0]) / 2, start[1] + 0.12, text, ha="center", va="bottom", fontsize=SMALL)


if __name__ == "__main__":
    main()
