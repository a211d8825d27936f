"""When wrong labels begin to be learnt by heart: how well labels are predicted that the network was not trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from selc.classifiers import is_classifier_name
from selc.errors import InputError
from selc.report.style import BLUE, GREEN, SMALL, VERMILLION, entitle, panels
from selc.runs import RunFolder
from selc.turning import Evidence, Reason

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW = 20  # looks; so few are also marked by dots, since a single one makes no line


def held_out(run: RunFolder) -> Figure:
    """The share of held-out labels that plain cross entropy predicts, over the epochs; its best is marked.

    The band is one standard error of the difference to the best. The end of the curve is what plain cross entropy would
    have come to; an upright line is where SELC starts in its place.
    """
    decision, evidence = run.decision(), run.evidence()
    if decision is None or evidence is None:
        raise InputError(
            f"a figure of the turning point needs samples that were held out to decide by; got {run.path}, which has "
            "none (yet). The method selc holds some out, if its start is left to it and there are enough of them."
        )
    fitted = is_classifier_name(run.config.net.name)
    if fitted and evidence.looks == 1:
        raise InputError(f"a figure over iterations needs boosting; got {run.config.net.name}, which has none.")
    epochs = evidence.looks if fitted else run.config.train.epochs
    by, over = (
        ("boosting", "iterations that were looked at") if fitted else ("plain cross entropy", "epochs of training")
    )
    figure, [[axes]] = panels(1, 1, 2.7)
    _draw(axes, evidence)
    heard = not fitted or decision.reason is Reason.FALL  # else only the end is
    if decision.start is not None and decision.start < epochs and heard:
        begins = "labels are judged from here" if fitted else "SELC starts"
        axes.axvline(decision.start, color=GREEN, linestyle="--", linewidth=1.2, label=begins, zorder=1)
    _name_the_end(axes, evidence, epochs, by)
    title = f"How {by} does on {len(evidence.labels):,} labels that it was not trained on"
    entitle(axes, title, over, "share predicted as given")
    if evidence.looks > 1:
        axes.locator_params(axis="x", integer=True)
    figure.legend(loc="outside upper center", ncols=4, fontsize=SMALL, frameon=False)
    return figure


def _draw(axes: Axes, evidence: Evidence) -> None:
    """The curve with its band, and its best point."""
    epochs = torch.tensor([evidence.clock(look) for look in range(evidence.looks)])
    curve, best = evidence.curve, int(evidence.curve.argmax())
    error = torch.tensor([evidence.behind(look, best)[1] for look in range(evidence.looks)])
    marker = "o" if evidence.looks <= _FEW else ""
    axes.plot(epochs, curve, "-", color=BLUE, marker=marker, markersize=3, label="held-out labels that are predicted")
    band = (curve - error, curve + error)
    axes.fill_between(epochs, *band, color=BLUE, alpha=0.2, linewidth=0, label="one standard error from the best")
    axes.plot(epochs[best : best + 1], curve[best : best + 1], "D", color=VERMILLION, markersize=6, label="the best")


def _name_the_end(axes: Axes, evidence: Evidence, epochs: int, by: str) -> None:
    """Say what the last point is: the end of a whole training, or where enough was seen."""
    last = evidence.looks - 1
    axes.annotate(
        f"{by} ends".replace("cross ", "cross\n") if evidence.clock(last) >= epochs else "stopped here",
        (evidence.clock(last), float(evidence.curve[last])),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        color=BLUE,
        fontsize=SMALL,
        annotation_clip=False,
    )
