"""Which classes the given labels and the corrected labels take for which (the paper's Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selc.report.style import SMALL, TEXT, entitle, panels, shortened, true_labels
from selc.runs import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NUMBERS = 12  # classes; beyond, numbers do not fit into the cells
_NAMES = 30  # classes; beyond, their names do not fit beside the matrix
_LONGEST = 14  # letters of a name
_LINE = 34  # letters below a matrix; if the names take more, they stand upright


def confusion_matrix(true: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The share of ``labels`` [N] by class (columns) among the samples of each true class (rows), [C, C].

    A row sums to one; the row of a class without samples is zero.
    """
    counts = torch.bincount(true.long() * num_classes + labels.long(), minlength=num_classes**2)
    counts = counts.view(num_classes, num_classes).double()
    return counts / counts.sum(1, keepdim=True).clamp_min(1)  # not 0/0 where a class has no samples


def confusion(run: RunFolder) -> Figure:
    """The given labels and the corrected labels of a finished run, each against the true classes."""
    true, classes = true_labels(run, "a confusion matrix"), run.classes
    columns = {"given": run.given, "corrected": run.corrected()}
    names = [shortened(name, _LONGEST) for name in classes] if len(classes) <= _NAMES else []
    unit = "" if names else " (number)"
    longest = max(map(len, names), default=0)
    upright = (longest + 1) * len(names) > _LINE
    figure, grid = panels(1, 2, 3.4 + 0.035 * longest * upright, layout="compressed")
    for axes, (name, labels) in zip(grid[0], columns.items(), strict=True):
        matrix = confusion_matrix(true, labels, len(classes))
        right = float((labels == true).double().mean())
        image = axes.imshow(matrix.numpy(), cmap="Blues", vmin=0, vmax=1)
        rows = f"true class{unit}" if name == "given" else ""
        entitle(axes, f"{name.capitalize()} labels: {right:.1%} right", f"{name} label{unit}", rows)
        axes.spines[["top", "right"]].set_visible(True)
        if len(classes) <= _NUMBERS:
            _write_numbers(axes, matrix)
        if names:
            _name_classes(axes, names, upright)
    bar = figure.colorbar(image, ax=grid[0], shrink=0.8, aspect=25, pad=0.02)
    bar.set_label("share of the true class", fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL)
    return figure


def _write_numbers(axes: Axes, matrix: Tensor) -> None:
    size = SMALL if len(matrix) <= 8 else 6.5
    for i, row in enumerate(matrix.tolist()):
        for j, share in enumerate(row):
            text = f"{share:.2f}".removeprefix("0") if share else "0"
            colour = "white" if share > 0.7 else "black"
            axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=size)


def _name_classes(axes: Axes, names: Sequence[str], upright: bool) -> None:
    size = SMALL if len(names) <= _NUMBERS else 6.5 if len(names) <= 20 else 5.5
    axes.set_xticks(range(len(names)), names, rotation=90 if upright else 0, fontsize=size, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=size, parse_math=False)
    axes.tick_params(length=2)
