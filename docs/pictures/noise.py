"""The picture of docs/noise.md: transition matrices of six kinds of noise on the labels of the digits.

    python docs/pictures/noise.py

It takes a few seconds and needs the packages of selc[sklearn,report].
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from selc.data import DATASETS, RECIPES
from selc.nets import create
from selc.noise import draw_noise
from selc.report.style import SMALL, entitle, panels, save
from selc.runs.config import resolve_plan
from selc.runs.teacher import supply_for

TARGET = Path(__file__).parents[1] / "images" / "noise-matrices.png"
TEACHER_EPOCHS = 5  # a network that is not yet sure of everything, as the authors of PMD have it
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("symmetric, 40 %", "symmetric", {"rate": 0.4}),
    ("pair, 40 %", "pair", {"rate": 0.4}),
    ("asymmetric-cifar10, 40 %", "asymmetric-cifar10", {"rate": 0.4}),
    ("seal, 40 %", "seal", {"rate": 0.4}),
    ("pmd type 1, 35 %", "pmd", {"rate": 0.35}),
    ("part, 40 %", "part", {"rate": 0.4}),
]


def main() -> None:
    digits = DATASETS["digits"]()
    plan = resolve_plan({"epochs": TEACHER_EPOCHS, "threads": 1}, RECIPES["digits"])

    def net(outputs: int) -> nn.Module:
        return create("mlp", outputs, digits.shape)

    supply = supply_for(digits, net, plan)
    figure, grid = panels(2, 3, 5.4, layout="compressed")
    for number, (title, name, options) in enumerate(KINDS):
        noise = draw_noise(name, digits.labels, 10, 0, options, supply)
        axes = grid[number // 3][number % 3]
        image = axes.imshow(noise.matrix.numpy(), cmap="Blues", vmin=0, vmax=1)
        axes.spines[["top", "right"]].set_visible(True)
        axes.set_xticks(range(10))
        axes.set_yticks(range(10))
        below, beside = "given class" if number >= 3 else "", "true class" if number % 3 == 0 else ""
        entitle(axes, f"{title}\n{noise.rate:.1%} of the labels changed", below, beside)
        axes.title.set_fontsize(SMALL)
        for i, row in enumerate(noise.matrix.tolist()):
            for j, share in enumerate(row):
                if share >= 0.005:
                    text = f"{share:.2f}".removeprefix("0") if share < 1 else "1"
                    axes.text(
                        j, i, text, ha="center", va="center", fontsize=5.5, color="white" if share > 0.5 else "black"
                    )
    bar = figure.colorbar(image, ax=[axes for row in grid for axes in row], shrink=0.7, aspect=30, pad=0.02)
    bar.set_label("share of the true class", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    save(figure, TARGET)


if __name__ == "__main__":
    main()
