"""How the losses of the training samples are spread, with two Gaussians fitted to them (the paper's Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from selc.errors import InputError
from selc.report.style import BLACK, BLUE, GREEN, ORANGE, SMALL, TEXT, VERMILLION, entitle, panels
from selc.runs import RunFolder
from selc.turning.mixture import Mixture, fit_mixture, normalise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 50
_POINTS = 401  # of a curve
_STEP = 0.05  # a cut y axis ends at a multiple
_MARGIN = 0.02  # of the x axis, so that the first bar stands clear


def loss_histograms(run: RunFolder, epochs: Sequence[int] | None = None) -> Figure:
    """The min-max normalised losses on the given labels at some ``epochs`` of the first stage, a panel for each.

    Without ``epochs``: the first one, the last one of plain CE (or, if the method has none, the one after a third
    of the run), and the last one. Where true labels are known, clean and mislabelled samples are told apart.
    """
    losses = run.records().losses
    recorded = torch.isnan(losses).logical_not().any(1).nonzero().flatten().tolist()
    chosen = usual_epochs(run, recorded) if epochs is None else list(epochs)
    if not chosen or any(epoch not in recorded for epoch in chosen):
        known = f"{recorded[0]} to {recorded[-1]}" if recorded else "none"
        raise InputError(
            f"epochs must be epochs whose losses were recorded ({known} in {run.path}); got {chosen}. "
            "A method that mixes its inputs records no losses."
        )
    true = run.true
    kinds = {"all samples": torch.ones_like(run.given, dtype=torch.bool)}
    if true is not None:
        kinds = {"clean": run.given == true, "mislabelled": run.given != true}
    figure, (row,) = panels(1, len(chosen), 2.7)
    narrow = len(chosen) > 3
    stacks = [_draw(axes, losses[epoch], epoch, kinds, narrow) for axes, epoch in zip(row, chosen, strict=True)]
    cut = _limit(row, stacks)
    label = "share of samples per bin"
    row[0].set_ylabel(f"{label}\n(axis cut at {cut:.2f})" if cut else label, fontsize=TEXT)
    figure.supxlabel(f"loss on the given label, min–max normalised (bins of {1 / BINS:g})", fontsize=TEXT)
    parts, names = row[0].get_legend_handles_labels()
    order = [*range(3, len(parts)), 0, 1, 2]  # the bars first, then the lines
    figure.legend(
        [parts[k] for k in order],
        [names[k] for k in order],
        loc="outside upper center",
        ncols=5,
        fontsize=SMALL,
        frameon=False,
    )
    return figure


def usual_epochs(run: RunFolder, recorded: list[int]) -> list[int]:
    if not recorded:
        return []
    first, last = recorded[0], recorded[-1]
    decision = run.decision()
    start = run.config.method.options.get("start") if decision is None else decision.start
    middle = int(start) - 1 if isinstance(start, int | float) else -1  # with a fraction: the last whole epoch
    if not first < middle < last:
        middle = recorded[len(recorded) // 3]
    return sorted({first, middle, last} & set(recorded))


def _draw(axes: Axes, losses: Tensor, epoch: int, kinds: dict[str, Tensor], narrow: bool) -> Tensor:
    """Draw the panel of an epoch; return the heights of its bars, [bins]."""
    known = ~losses.isnan()
    x = normalise(losses[known])
    mixture = fit_mixture(x)
    base = torch.zeros(BINS, dtype=torch.float64)
    left = torch.arange(BINS) / BINS
    for (kind, rows), colour in zip(kinds.items(), (BLUE, ORANGE), strict=False):
        share = torch.histc(x[rows[known]].double(), BINS, 0, 1) / len(x)
        axes.bar(left, share, 1 / BINS, base, align="edge", color=colour, alpha=0.75, linewidth=0, label=kind)
        base = base + share
    at = torch.linspace(0.5 / BINS, 1 - 0.5 / BINS, _POINTS, dtype=torch.float64)  # between the middles of the bins
    low, high = expected_shares(mixture, at, 1 / BINS)
    axes.plot(at, low, "--", color=GREEN, label="Gaussian 1 (mean μ₁)", zorder=4)
    axes.plot(at, high, "-.", color=VERMILLION, label="Gaussian 2 (mean μ₂)", zorder=4)
    axes.plot(at, low + high, "-", color=BLACK, linewidth=1, label="their sum", zorder=3)
    apart = abs(mixture.mean[0] - mixture.mean[1])
    entitle(axes, f"Epoch {epoch + 1}\n{'M1' if narrow else 'M1 = |μ₁ − μ₂|'} = {apart:.2f}")
    axes.set_xlim(-_MARGIN, 1 + _MARGIN)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    return base


def expected_shares(mixture: Mixture, x: Tensor, width: float) -> Tensor:
    """The share of samples that each component puts into a bin of ``width`` around ``x``, [2, ...].

    Not the density: a component narrower than a bin would stand as high as it is narrow, far above its bar.
    """
    parts = zip(mixture.weight, mixture.mean, mixture.std, strict=True)
    ndtr = torch.special.ndtr
    return torch.stack([w * (ndtr((x + width / 2 - m) / s) - ndtr((x - width / 2 - m) / s)) for w, m, s in parts])


def _limit(row: Sequence[Axes], stacks: Sequence[Tensor]) -> float | None:
    """Fit the shared y axis to the bars. A few that tower over all others are cut, and the cut is told."""
    tallest = max(float(stack.max()) for stack in stacks)
    usual = max(float(stack.sort(descending=True).values[2]) for stack in stacks)
    end = max(1, math.ceil(2 * usual / _STEP)) * _STEP
    if tallest <= end:
        row[0].set_ylim(bottom=0)
        return None
    row[0].set_ylim(0, end)
    for axes, stack in zip(row, stacks, strict=True):
        if float(stack.max()) > end:
            k = int(stack.argmax())
            near = k < BINS / 2
            axes.annotate(
                f"tallest bar: {float(stack.max()):.2f}",
                ((k + near) / BINS, end),
                xytext=(6 if near else -6, -2),
                textcoords="offset points",
                ha="left" if near else "right",
                va="top",
                fontsize=SMALL,
            )
    return end
