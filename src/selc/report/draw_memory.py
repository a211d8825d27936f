"""What the network makes of clean and of mislabelled samples, epoch by epoch (the paper's Figure 1, c to f)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selc.errors import InputError
from selc.report.style import BLACK, BLUE, SMALL, VERMILLION, entitle, panels, shortened, true_labels
from selc.runs import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# For each kind of sample: the curve, its name at the end of the line, its colour and its line.
_LINES = {
    "clean": [("clean_right", "right", BLUE, "-"), ("clean_wrong", "wrong", BLACK, ":")],
    "mislabelled": [
        ("mislabelled_right", "true class", BLUE, "-"),
        ("memorised", "memorised", VERMILLION, "--"),
        ("neither", "neither", BLACK, ":"),
    ],
}
_GAP = 0.1  # between the names of two lines, as a share of the axis
_SHORT, _LONGEST = 12, 40  # letters of a run's name: within the line of a title, on a line of its own
_FEW = 20  # epochs; so few are also marked by dots, since a single one makes no line


def memorisation_curves(predictions: Tensor, given: Tensor, true: Tensor) -> dict[str, Tensor]:
    """Shares of the clean and of the mislabelled samples by what was predicted, [E] each.

    clean_right + clean_wrong = 1 and mislabelled_right + memorised + neither = 1; memorised means that the
    prediction is the given, wrong label. ``predictions`` [E, N] of -1 were not recorded and do not count; where
    nothing is left to count, the share is NaN.
    """
    if not (predictions.ndim == 2 and predictions.shape[1:] == given.shape == true.shape):
        shapes = ", ".join(str(list(t.shape)) for t in (predictions, given, true))
        raise InputError(f"predictions, given and true must have the shapes [E, N], [N] and [N]; got {shapes}.")
    seen, clean = predictions >= 0, given == true
    right, as_given = predictions == true, predictions == given

    def share(part: Tensor, of: Tensor) -> Tensor:
        return (part & of & seen).sum(1).double() / (of & seen).sum(1)

    return {
        "clean_right": share(right, clean),
        "clean_wrong": share(~right, clean),
        "mislabelled_right": share(right, ~clean),
        "memorised": share(as_given, ~clean),
        "neither": share(~right & ~as_given, ~clean),
    }


def memorisation(runs: Mapping[str, RunFolder]) -> Figure:
    """A row for each run, under its name: the predictions of its first stage on clean and on mislabelled samples."""
    if not runs:
        raise InputError("runs must name at least one run folder; got none.")
    figure, grid = panels(len(runs), 2, 0.35 + 1.85 * len(runs))
    longest = 0
    for (name, run), row in zip(runs.items(), grid, strict=True):
        given, true = run.given, true_labels(run, "a figure of memorisation")
        predictions = run.records().predictions
        longest = max(longest, len(predictions))
        curves = memorisation_curves(predictions, given, true)
        seen = (predictions >= 0).any(0)
        clean = given == true
        heading = f"{shortened(name, _LONGEST)}:" + (" " if len(name) <= _SHORT else "\n")
        for axes, kind, of in zip(row, _LINES, (clean, ~clean), strict=True):
            count = int((seen & of).sum())
            entitle(
                axes,
                f"{heading}{kind} samples (n = {count:,})",
                "epoch" if row is grid[-1] else "",
                "share of samples" if axes is row[0] else "",
            )
            if count:
                _draw(axes, curves, kind)
            else:
                why = f"no {kind} samples" if bool(seen.any()) else "no predictions were recorded"
                axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", fontsize=SMALL)
    corner = grid[0][0]  # the axes are shared
    corner.set(ylim=(-0.03, 1.03), yticks=[0, 0.25, 0.5, 0.75, 1])
    corner.margins(x=0.02)
    if longest > 1:
        corner.locator_params(axis="x", integer=True)
    else:
        corner.set_xticks([1])
    return figure


def _draw(axes: Axes, curves: Mapping[str, Tensor], kind: str) -> None:
    """Draw the lines of a panel, with their names at their ends."""
    lines = _LINES[kind]
    epochs = torch.arange(len(curves[lines[0][0]])) + 1  # as a person counts them
    marker = "o" if len(epochs) <= _FEW else ""
    for key, label, colour, style in lines:
        axes.plot(epochs, curves[key], style, color=colour, marker=marker, markersize=3, label=label, clip_on=False)
    known = torch.isfinite(curves[lines[0][0]]).nonzero()[-1, 0]
    heights = spread([float(curves[key][known]) for key, *_ in lines], _GAP)
    for (_, label, colour, _), height in zip(lines, heights, strict=True):
        axes.annotate(
            label,
            (float(epochs[known]), height),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=SMALL,
            annotation_clip=False,
        )


def spread(heights: list[float], gap: float) -> list[float]:
    """The nearest places in [0, 1], in the same order, that are at least ``gap`` apart."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    places = [heights[i] for i in order]
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + gap)
    ceiling = 1.0
    for k in reversed(range(len(places))):
        places[k] = min(places[k], ceiling)
        ceiling = places[k] - gap
    return [place for _, place in sorted(zip(order, places, strict=True))]
