"""How the separation of the losses, the accuracy and the correction develop over a training (Figures 1, 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selc.errors import InputError
from selc.report.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SMALL, VERMILLION, entitle, panels, true_labels
from selc.runs import RunFolder
from selc.training.metrics import headline
from selc.turning.mixture import fit_mixture, normalise, two_means
from selc.turning.paper import Metric, of_mixture
from selc.types import accuracies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METRICS: dict[Metric, str] = {"M1": "distance of means", "M2": "divergence", "M3": "distance of centroids"}
POINTS = 50  # epochs of a long training that are fitted for a panel of two inches
_STYLES = [(BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-"), (BLACK, "--")]


def accuracy_of(run: RunFolder) -> list[float] | None:
    """Top-1 accuracy on the first named set over the timeline that led to the result; None if there was no set."""
    history = [e for e in run.history() if not e.get("undone") and not e.get("aside")]
    stage = max((e["stage"] for e in history if "given_loss" in e), default=history[0]["stage"] if history else 0)
    # A later stage goes on with the epochs of an earlier one, or (after a pilot) counts them anew.
    line = {e["epoch"]: e for e in history if e["stage"] <= stage}
    first = [next(iter(accuracies(line[epoch]).values()), None) for epoch in sorted(line)]
    values = [headline(measured) for measured in first if measured is not None]
    return values or None


def metrics(run: RunFolder) -> Figure:
    """The paper's three metrics over the epochs, beside the test accuracy where there was a test set."""
    losses = run.records().losses
    accuracy = accuracy_of(run)
    figure, grid = panels(1, 3, 2.3)
    epochs, found = metrics_of(losses)
    for axes, (metric, what) in zip(grid[0], _METRICS.items(), strict=True):
        scaled = found[metric] / found[metric].max().clamp_min(1e-12)
        axes.plot([epoch + 1 for epoch in epochs], scaled, "-", color=BLUE, label="metric, as a share of its maximum")
        if accuracy is not None:
            axes.plot(*counted(accuracy), "--", color=VERMILLION, label="test accuracy")
        entitle(axes, f"{metric}: {what}", "epoch", "share" if axes is grid[0][0] else "")
    grid[0][0].set_ylim(0, 1.05)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=SMALL, frameon=False)
    return figure


def metrics_of(losses: Tensor, most: int | None = POINTS) -> tuple[list[int], dict[Metric, Tensor]]:
    """The three metrics of recorded losses [E, N] at all epochs, or at ``most`` of them.

    M1 and M2 are read off the same two Gaussians, whose fit is what takes time.
    """
    last = len(losses) - 1
    count = len(losses) if most is None else min(most, len(losses))
    epochs: list[int] = torch.linspace(0, last, count).round().long().tolist()
    found: dict[Metric, list[float]] = {metric: [] for metric in _METRICS}
    for epoch in epochs:
        x = normalise(losses[epoch][~torch.isnan(losses[epoch])])
        low, high = two_means(x)
        for metric, value in zip(_METRICS, (*of_mixture(fit_mixture(x)), high - low), strict=True):
            found[metric].append(value)
    return epochs, {metric: torch.tensor(values) for metric, values in found.items()}


def metrics_by_run(runs: Mapping[str, RunFolder]) -> Figure:
    """The paper's three metrics over the epochs, a line for each run, such as rates of noise; the peaks are marked."""
    _some(runs)
    figure, grid = panels(1, 3, 2.6)
    found = {name: metrics_of(run.records().losses, most=None)[1] for name, run in runs.items()}
    for axes, (metric, what) in zip(grid[0], _METRICS.items(), strict=True):
        for name, (colour, style) in zip(runs, _STYLES * len(runs), strict=False):
            values = found[name][metric]
            scaled = values / values.max().clamp_min(1e-12)
            axes.plot(*counted(scaled), style, color=colour, label=name)
            axes.plot([int(values.argmax()) + 1], [1.0], "v", color=colour, markersize=6, clip_on=False)
        entitle(axes, f"{metric}: {what}", "epoch", "share of its maximum" if axes is grid[0][0] else "")
    grid[0][0].set_ylim(0, 1.05)
    _whole_epochs(grid[0][0])
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def accuracies_by_run(runs: Mapping[str, RunFolder]) -> Figure:
    """Accuracy on the given labels and on the test set over the epochs, a line for each run (Figure 1, a and b)."""
    _some(runs)
    figure, [[train, test]] = panels(1, 2, 2.6)
    for (name, run), (colour, style) in zip(runs.items(), _STYLES * len(runs), strict=False):
        accuracy = accuracy_of(run)
        if accuracy is None:
            raise InputError(f"a figure of accuracy needs a test set; got a run without one: {run.path}.")
        train.plot(*counted(training_accuracy(run.records().predictions, run.given)), style, color=colour, label=name)
        test.plot(*counted(accuracy), style, color=colour, label=name)
    entitle(train, "Training set, given labels", "epoch", "share predicted as labelled")
    entitle(test, "Test set", "epoch", "share predicted right")
    test.tick_params(labelleft=True)
    train.set_ylim(0, 1.03)
    _whole_epochs(train)
    handles, labels = train.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def counted(values: Sequence[float] | Tensor) -> tuple[range, Sequence[float] | Tensor]:
    """Values by the epoch, as a person counts these: from 1."""
    return range(1, len(values) + 1), values


def training_accuracy(predictions: Tensor, given: Tensor) -> Tensor:
    """The share of samples that were predicted as they are labelled, by epoch, of those that were seen."""
    seen = predictions >= 0
    return ((predictions == given) & seen).sum(1).double() / seen.sum(1)


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
        axes.plot(*counted(correction_accuracy(run.records().beliefs, true)), style, color=colour, label=name)
    entitle(axes, "Labels that the method believes in", "epoch", "share that is right")
    _whole_epochs(axes)
    figure.legend(loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def sensitivity(runs: Mapping[str, RunFolder]) -> Figure:
    """Test accuracy over the epochs, a line for each run, such as three values of alpha (Figure 4 b)."""
    _some(runs)
    figure, [[axes]] = panels(1, 1, 2.8)
    for (name, run), (colour, style) in zip(runs.items(), _STYLES * len(runs), strict=False):
        accuracy = accuracy_of(run)
        if accuracy is None:
            raise InputError(f"a figure of accuracy needs a test set; got a run without one: {run.path}.")
        axes.plot(*counted(accuracy), style, color=colour, label=name)
    entitle(axes, "Test accuracy", "epoch", "share predicted right")
    _whole_epochs(axes)
    figure.legend(loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def _whole_epochs(axes: Axes) -> None:
    """There is no epoch between two."""
    if axes.dataLim.width >= 1:
        axes.locator_params(axis="x", integer=True)


def _some(runs: Mapping[str, RunFolder]) -> None:
    if not runs:
        raise InputError("runs must name at least one run folder; got none.")
