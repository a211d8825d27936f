"""The drawings of a report, as SVG: they need no library, so that a report is part of the plain install."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from selc.analysis.words import decision_sentence, percent
from selc.errors import InputError, RunFolderError
from selc.report.draw_losses import BINS, expected_shares, usual_epochs
from selc.report.draw_matrix import confusion_matrix
from selc.report.draw_memory import memorisation_curves
from selc.report.draw_turning import correction_accuracy
from selc.report.reading import Snapshot
from selc.report.style import printable, shortened
from selc.report.svg import Bars, Chart, Line, heat
from selc.training.metrics import headline
from selc.turning import Reason
from selc.turning.mixture import fit_mixture, normalise
from selc.types import accuracies

BELIEVED = "would be relabelled"  # by the method, for now; at the end fewer labels are replaced
PREDICTED = "predicted otherwise than labelled"
SQUARES = 120  # classes; beyond, a matrix of squares is no longer something to look at
SHARE = "share of samples"
JUDGE = "plain cross entropy"
NO_EPOCH = "this needs an epoch that was saved; got none yet. Try again later."


@dataclass(frozen=True)
class Picture:
    """A drawing on the page: one or more SVG with their titles and one legend, or the sentence in its place."""

    panels: tuple[tuple[str, str], ...] = ()
    legend: tuple[tuple[str, str, str], ...] = ()
    remark: str = ""


def draw(run: Snapshot) -> dict[str, Picture]:
    """Every drawing of a run, by name; one that the run cannot show is a sentence instead."""
    pictures = {}
    for name, make in DRAWINGS.items():
        try:
            pictures[name] = make(run)
        except (InputError, RunFolderError) as error:
            pictures[name] = Picture(remark=f"Not drawn: {error}")
    return pictures


def _one(chart: Chart, label: str, title: str = "") -> Picture:
    return Picture(((title, chart.svg(label)),), tuple(chart.legend))


def held_out(run: Snapshot) -> Picture:
    """The judge's picture: the share of held-out labels that plain cross entropy predicts, over the epochs; or that
    boosting predicts, over its iterations."""
    decision, evidence = run.decision(), run.evidence()
    if decision is None or evidence is None:
        raise InputError(
            "this needs samples that were held out to decide by; got none (yet). The method selc holds some out, if "
            "its start is left to it and there are enough of them."
        )
    if run.classifier and evidence.looks == 1:
        raise InputError(f"a figure over iterations needs boosting; got {run.classifier}, which has none.")
    by, over = ("boosting", "iterations that were looked at") if run.classifier else (JUDGE, "epochs of training")
    last = evidence.looks if run.classifier else run.config.train.epochs
    heard = not run.classifier or decision.reason is Reason.FALL  # else labels are judged by the end alone
    epochs = [evidence.clock(look) for look in range(evidence.looks)]
    curve, best = evidence.curve.tolist(), int(evidence.curve.argmax())
    error = [evidence.behind(look, best)[1] for look in range(evidence.looks)]
    band = [(x, y - e, y + e) for x, y, e in zip(epochs, curve, error, strict=True)]
    starts = [decision.start] if decision.start is not None and decision.start < last and heard else []
    chart = Chart(
        over,
        "share predicted as given",
        lines=[Line("held-out labels that are predicted", list(zip(epochs, curve, strict=True)))],
        band=band,
        upright=starts,
        best=(epochs[best], curve[best]),
    )
    said = (
        f"Line of the share of held-out labels that {by} predicts, at {evidence.looks} looks; "
        f"{percent(curve[-1])} at the last one."
    )
    said += "" if run.classifier else f" {decision_sentence(decision.as_dict())}"
    marks = [("one standard error from the best", "blue", "band"), ("the best", "vermillion", "dot")]
    begins = "labels are judged from here" if run.classifier else "correction starts"
    marks += [(begins, "upright", "line")] if starts else []
    return Picture((("", chart.svg(said)),), (*chart.legend, *marks))


def training(run: Snapshot) -> Picture:
    """Accuracy, and the shares of labels that are contradicted and disbelieved, over the epochs of the result."""
    line = _with_epochs(run).timeline
    curves: dict[str, list[tuple[float, float]]] = {}
    for place, entry in enumerate(line, 1):
        for key, label in (("disagree", PREDICTED), ("would_relabel", BELIEVED)):
            if key in entry:
                curves.setdefault(label, []).append((place, entry[key]))
        for name, value in accuracies(entry).items():
            curves.setdefault(f"accuracy on {shortened(name, 20)}", []).append((place, headline(value)))
    fixed = {PREDICTED: 5, BELIEVED: 0}
    others = iter([1, 2, 3, 4] * (1 + len(curves)))
    lines = [Line(label, points, fixed.get(label, -1)) for label, points in curves.items()]
    lines = [Line(each.name, each.points, next(others)) if each.style < 0 else each for each in lines]
    stages = [k + 0.5 for k in range(1, len(line)) if line[k]["stage"] != line[k - 1]["stage"]]
    last = [f"{each.name} {percent(each.points[-1][1])}" for each in lines]
    said = f"Lines over {len(line)} epochs; at the last one: {', '.join(last) or 'nothing was measured'}."
    over = "epoch" if len(run.trainings) == 1 else "epochs of the stages, one after the other"
    return _one(Chart(over, SHARE, lines, upright=stages, y_range=(0, 1)), said)


def losses(run: Snapshot) -> Picture:
    """The losses on the given labels at up to three epochs, with the two Gaussians that are fitted to them."""
    recorded = _with_epochs(run).records().losses
    epochs = usual_epochs(run, torch.isnan(recorded).logical_not().any(1).nonzero().flatten().tolist())
    if not epochs:
        raise InputError("this needs recorded losses; got none. A method that mixes its inputs records no losses.")
    true = run.true
    kinds = {"all samples": torch.ones_like(run.given, dtype=torch.bool)}
    if true is not None:
        kinds = {"clean": run.given == true, "mislabelled": run.given != true}
    panels, legend = [], []
    left = [k / BINS for k in range(BINS)]
    at = [left[k] + 0.5 / BINS for k in range(BINS)]
    for epoch in epochs:
        known = ~recorded[epoch].isnan()
        x = normalise(recorded[epoch][known])
        base, bars = torch.zeros(BINS, dtype=torch.float64), []
        for style, (kind, rows) in zip((0, 4), kinds.items(), strict=False):
            top = base + torch.histc(x[rows[known]].double(), BINS, 0, 1) / len(x)
            bars.append(Bars(kind, left, base.tolist(), top.tolist(), 1 / BINS, style))
            base = top
        fitted = expected_shares(fit_mixture(x), torch.tensor(at, dtype=torch.float64), 1 / BINS).tolist()
        lines = [
            Line(f"group of {what} losses", list(zip(at, shares, strict=True)), style)
            for what, shares, style in zip(("small", "large"), fitted, (2, 1), strict=True)
        ]
        usual = float(base.sort(descending=True).values[2])
        end = min(float(base.max()), max(2 * usual, 0.05)) * 1.05  # a bar that towers over all others is cut
        chart = Chart("loss, scaled to 0 to 1", SHARE, lines, bars, y_range=(0, end), whole=False, size=(300, 220))
        cut = f", the tallest bar ({float(base.max()):.2f}) is cut" if float(base.max()) > end else ""
        said = f"Histogram of the training losses after epoch {epoch + 1} with the two fitted groups{cut}."
        panels.append((f"after epoch {epoch + 1}{cut}", chart.svg(said)))
        legend = chart.legend
    return Picture(tuple(panels), tuple(legend))


def memorised(run: Snapshot) -> Picture:
    """What the network makes of clean and of mislabelled samples: by the true labels, or as the run judges."""
    true = _with_epochs(run).true
    true = run.judged().true if true is None else true
    assert true is not None  # there are epochs
    predictions = run.records().predictions
    curves = memorisation_curves(predictions, run.given, true)
    seen, clean = (predictions >= 0).any(0), run.given == true
    shown = {
        "clean": {"clean_right": ("predicted right", 0), "clean_wrong": ("predicted otherwise", 5)},
        "mislabelled": {
            "mislabelled_right": ("predicted right", 0),
            "memorised": ("memorised: predicted as given", 1),
            "neither": ("predicted otherwise", 5),
        },
    }
    panels, legend = [], []
    for (kind, keys), of in zip(shown.items(), (clean, ~clean), strict=True):
        count = int((seen & of).sum())
        lines = [
            Line(name, list(enumerate(curves[key].tolist(), 1)), style) for key, (name, style) in keys.items() if count
        ]
        chart = Chart("epoch", SHARE, lines, y_range=(0, 1), size=(400, 230))
        last = ", ".join(f"{line.name} {percent(line.points[-1][1])}" for line in lines if line.points[-1][1] >= 0)
        said = f"Lines over {len(predictions)} epochs for {count:,} {kind} samples; at the last one: {last or 'none'}."
        panels.append((f"{count:,} {kind} samples", chart.svg(said)))
        legend = chart.legend
    return Picture(tuple(panels), tuple(legend))


def suggestions(run: Snapshot) -> Picture:
    """Which label is suggested for the samples of each given label, as squares."""
    found = run.verdicts  # a classifier has them without any epoch
    if found is None:
        raise RunFolderError(NO_EPOCH)
    C = len(run.classes)
    if C > SQUARES:
        raise InputError(f"a matrix to look at has at most {SQUARES} classes; got {C:,}. The largest exchanges follow.")
    matrix = confusion_matrix(found.given, found.suggested, C).tolist()
    names = [printable(shortened(name, 40)) for name in run.classes]
    said = f"Matrix of {C} given labels by suggested labels; the largest exchanges are in the table below."
    return Picture((("", heat(matrix, names, "given label", "suggested label", said)),))


def correction(run: Snapshot) -> Picture:
    """The share of the labels that the method believes in which is right, where the truth is known."""
    true, seen = run.true, _with_epochs(run).recorded
    assert seen is not None
    if true is None or not bool((seen.beliefs >= 0).any()):
        raise InputError(
            "this needs the true labels, and a method that keeps the labels it believes in; got a run without."
        )
    values = correction_accuracy(seen.beliefs, true).tolist()
    chart = Chart(
        "epoch", "share that is right", [Line("labels that the method believes in", list(enumerate(values, 1)))]
    )
    return _one(chart, "Line over the epochs: the share of the labels that the method believes which is right.")


DRAWINGS: dict[str, Callable[[Snapshot], Picture]] = {
    "turning-point": held_out,
    "training": training,
    "losses": losses,
    "memorisation": memorised,
    "given-and-suggested": suggestions,
    "correction": correction,
}


def _with_epochs(run: Snapshot) -> Snapshot:
    if run.recorded is None:
        raise RunFolderError(NO_EPOCH)
    return run
