"""How the separation of the losses, the accuracy and the correction develop over a training (Figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selc.core.turning import Metric, separations
from selc.errors import InputError
from selc.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SMALL, VERMILLION, entitle, panels, true_labels
from selc.run import RunFolder
from selc.types import accuracies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METRICS: dict[Metric, str] = {"M1": "distance of means", "M2": "divergence", "M3": "distance of centroids"}
_STYLES = [(BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (BLACK, "--")]


def accuracy_of(run: RunFolder) -> list[float] | None:
    """Top-1 accuracy on the first named set over the timeline that led to the result; None if there was no set."""
    history = [e for e in run.history() if not e.get("undone")]
    epochs = len(run.records().losses)
    values = [next(iter(accuracies(e).values()))["top1"] for e in history if accuracies(e)][:epochs]
    return values or None


def metrics(run: RunFolder) -> Figure:
    """The paper's three metrics over the epochs, beside the test accuracy where there was a test set."""
    losses = run.records().losses
    accuracy = accuracy_of(run)
    figure, grid = panels(1, 3, 2.3)
    turns = [e["turning_point"]["peak"] for e in run.history() if "turning_point" in e]
    for axes, (metric, what) in zip(grid[0], _METRICS.items(), strict=True):
        values = torch.tensor(separations(losses, metric))
        scaled = values / values.max().clamp_min(1e-12)
        axes.plot(scaled, "-", color=BLUE, label="metric, as a share of its maximum")
        if accuracy is not None:
            axes.plot(accuracy, "--", color=VERMILLION, label="test accuracy")
        for peak in turns:
            axes.axvline(peak, color=BLACK, linestyle=":", linewidth=1, label="turning point")
        entitle(axes, f"{metric}: {what}", "epoch", "share" if axes is grid[0][0] else "")
    grid[0][0].set_ylim(0, 1.05)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=SMALL, frameon=False)
    return figure


def correction_accuracy(beliefs: Tensor, true: Tensor) -> Tensor:
    """The share of samples whose believed label is the true one, by epoch; NaN where none was kept."""
    right = (beliefs == true).double().mean(dim=1)
    return torch.where((beliefs >= 0).any(dim=1), right, torch.nan)


def correction(runs: Mapping[str, RunFolder]) -> Figure:
    """Correction accuracy over the epochs, a line for each run, such as Options I and II (Figure 4 a)."""
    _some(runs)
    figure, [[axes]] = panels(1, 1, 2.8)
    for (name, run), (colour, style) in zip(runs.items(), _STYLES * len(runs), strict=False):
        true = true_labels(run, "a figure of correction accuracy")
        axes.plot(correction_accuracy(run.records().beliefs, true), style, color=colour, label=name)
    entitle(axes, "Labels that the method believes in", "epoch", "share that is right")
    axes.legend(fontsize=SMALL, frameon=False)
    return figure


def sensitivity(runs: Mapping[str, RunFolder]) -> Figure:
    """Test accuracy over the epochs, a line for each run, such as three values of alpha (Figure 4 b)."""
    _some(runs)
    figure, [[axes]] = panels(1, 1, 2.8)
    for (name, run), (colour, style) in zip(runs.items(), _STYLES * len(runs), strict=False):
        accuracy = accuracy_of(run)
        if accuracy is None:
            raise InputError(f"a figure of accuracy needs a test set; got a run without one: {run.path}.")
        axes.plot(accuracy, style, color=colour, label=name)
    entitle(axes, "Test accuracy", "epoch", "share predicted right")
    axes.legend(fontsize=SMALL, frameon=False)
    return figure


def _some(runs: Mapping[str, RunFolder]) -> None:
    if not runs:
        raise InputError("runs must name at least one run folder; got none.")
