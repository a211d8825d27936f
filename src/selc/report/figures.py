"""The figures of one run: those of the paper that it can show, and those that a user of the labels needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from selc.analysis.findings import RELABEL, Findings
from selc.errors import ConfigError, InputError, RunFolderError
from selc.report.classes import shares, worst_classes
from selc.report.draw_evidence import held_out
from selc.report.draw_losses import loss_histograms
from selc.report.draw_matrix import (
    _LINE,
    _LONGEST,
    _NAMES,
    _NUMBERS,
    _name_classes,
    _write_numbers,
    confusion,
    confusion_matrix,
)
from selc.report.draw_memory import memorisation
from selc.report.draw_turning import correction
from selc.report.drawings import BELIEVED
from selc.report.reading import Snapshot
from selc.report.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SMALL,
    TEXT,
    VERMILLION,
    entitle,
    panels,
    save,
    shortened,
)
from selc.runs import RunFolder
from selc.training.metrics import headline
from selc.types import accuracies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = ("png", "svg", "pdf")
CLASSES = 30  # with the largest share in doubt; more rows are no longer a figure
_STYLES = [(VERMILLION, "--"), (GREEN, "-."), (PURPLE, ":"), (ORANGE, "-")]


@dataclass(frozen=True)
class Plate:
    """A figure of a run: the name of its file, and how it is drawn."""

    name: str
    draw: Callable[[], Figure]


def plates(run: RunFolder) -> list[Plate]:
    """Every figure of a run; one that the run cannot show raises a sentence when it is drawn."""
    shot = Snapshot.of(run)
    name = shortened(shot.path.resolve().name, 40)
    return [
        Plate("turning-point", lambda: held_out(shot)),
        Plate("training", lambda: training(shot)),
        Plate("losses", lambda: loss_histograms(_with_epochs(shot))),
        Plate("memorisation", lambda: memorised(shot)),
        Plate("given-and-suggested", lambda: suggestions(shot)),
        Plate("noise-by-class", lambda: noise_by_class(shot)),
        Plate("truth", lambda: confusion(shot)),
        Plate("correction", lambda: correction({name: _with_beliefs(shot)})),
    ]


def save_all(
    run: RunFolder, folder: Path | str | None = None, endings: Sequence[str] = ("png", "pdf")
) -> tuple[list[Path], list[str]]:
    """Write the figures of a run; return the files, and a sentence for each figure that the run cannot show."""
    if not endings or any(ending not in ENDINGS for ending in endings):
        raise ConfigError(f"the format of a figure must be one of {', '.join(ENDINGS)}; got {','.join(endings)!r}.")
    folder = Path(folder) if folder is not None else run.path / "figures"
    written, missing = [], []
    for plate in plates(run):
        try:
            figure = plate.draw()
        except (InputError, RunFolderError) as error:
            missing.append(f"no figure {plate.name!r}: {error}")
            continue
        for ending in endings:
            path = folder / f"{plate.name}.{ending}"
            with _any_letters():
                save(figure, path)
            written.append(path)
    return written, missing


class _any_letters(warnings.catch_warnings):  # noqa: N801  (it reads like a function)
    """A class may be called by letters that the font lacks: they become boxes, which is worth no warning."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", message=r"Glyph \d+")


def training(run: RunFolder) -> Figure:
    """Accuracy, and the shares of labels that are contradicted and disbelieved, over the epochs of the result."""
    shot = _with_epochs(Snapshot.of(run))
    line = shot.timeline
    curves: dict[str, dict[int, float]] = {}
    for place, entry in enumerate(line, start=1):  # as a person counts epochs
        for key, label in (("disagree", "predicted otherwise than labelled"), ("would_relabel", BELIEVED)):
            if key in entry:
                curves.setdefault(label, {})[place] = entry[key]
        for name, value in accuracies(entry).items():
            curves.setdefault(f"accuracy on {shortened(name, 20)}", {})[place] = headline(value)
    figure, [[axes]] = panels(1, 1, 2.5)
    styles = [(BLACK, ":"), (BLUE, "-"), *_STYLES * len(curves)]
    fixed = {"predicted otherwise than labelled": styles[0], BELIEVED: styles[1]}
    others = iter(styles[2:])
    for label, values in curves.items():
        colour, style = fixed.get(label) or next(others)
        marker = "o" if len(values) <= 20 else ""
        axes.plot(list(values), list(values.values()), style, color=colour, marker=marker, markersize=3, label=label)
    for place in range(1, len(line)):
        if line[place]["stage"] != line[place - 1]["stage"]:
            axes.axvline(place + 0.5, color=BLACK, linewidth=0.8, alpha=0.5)
    entitle(axes, "The training (an upright line: a new stage began)", "epoch", "share of samples")
    axes.set_ylim(0, 1.03)
    if len(line) > 1:
        axes.locator_params(axis="x", integer=True)
    else:
        axes.set_xticks([1])
    if curves:
        figure.legend(loc="outside upper center", ncols=3, fontsize=SMALL, frameon=False)
    return figure


def memorised(run: RunFolder) -> Figure:
    """The curves of memorisation, by the true labels; where nobody knows them, by the labels that the run believes."""
    shot = _with_epochs(Snapshot.of(run))
    if shot.true is not None:
        return memorisation({shortened(shot.path.resolve().name, 40): shot})
    return memorisation({"as the run judges": shot.judged()})


def suggestions(run: RunFolder) -> Figure:
    """Which label is suggested for the samples of each given label, as shares of the given label."""
    shot = Snapshot.of(run)
    found = _verdicts(shot)
    classes = shot.classes
    names = [shortened(name, _LONGEST) for name in classes] if len(classes) <= _NAMES else []
    unit = "" if names else " (number)"
    longest = max(map(len, names), default=0)
    upright = (longest + 1) * len(names) > _LINE
    figure, [[axes]] = panels(1, 1, 4.2 + 0.035 * longest * upright, layout="compressed")
    matrix = confusion_matrix(found.given, found.suggested, len(classes))
    image = axes.imshow(matrix.numpy(), cmap="Blues", vmin=0, vmax=1)
    kept = float((found.given == found.suggested).double().mean())
    entitle(axes, f"{kept:.1%} of the labels are believed", f"suggested label{unit}", f"given label{unit}")
    axes.spines[["top", "right"]].set_visible(True)
    if len(classes) <= _NUMBERS:
        _write_numbers(axes, matrix)
    if names:
        _name_classes(axes, names, upright)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=25, pad=0.02)
    bar.set_label("share of the given label", fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL)
    return figure


def noise_by_class(run: RunFolder) -> Figure:
    """The share of the labels of each class that the run doubts; with dots for the truth where it is known."""
    shot = Snapshot.of(run)
    found = _verdicts(shot)
    C = len(shot.classes)
    relabel = shares(found.is_issue & (found.action == RELABEL), found.given, C)
    review = shares(found.is_issue & (found.action != RELABEL), found.given, C)
    order = worst_classes(found, C)[:CLASSES]
    figure, [[axes]] = panels(1, 1, 1.2 + 0.19 * len(order))
    rows = range(len(order))
    axes.barh(rows, relabel[order].numpy(), color=BLUE, label="to relabel")
    axes.barh(rows, review[order].numpy(), left=relabel[order].numpy(), color=ORANGE, label="to review")
    if shot.true is not None:
        wrong = shares(found.given != shot.true, found.given, C)
        axes.plot(wrong[order].numpy(), rows, "D", color=BLACK, markersize=4, label="really wrong")
    axes.set_yticks(rows, [shortened(shot.classes[k], 24) for k in order.tolist()], fontsize=SMALL, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    title = "Labels in doubt" if len(order) == C else f"Labels in doubt, the {len(order)} worst of {C:,} classes"
    entitle(axes, title, "share of the samples with the given label", "given label")
    figure.legend(loc="outside upper center", ncols=3, fontsize=SMALL, frameon=False)
    return figure


def _verdicts(shot: Snapshot) -> Findings:
    found = shot.verdicts if shot.finished else _with_epochs(shot).verdicts
    assert found is not None  # there are epochs
    return found


def _with_epochs(shot: Snapshot) -> Snapshot:
    if shot.classifier:
        raise InputError(f"a figure over epochs needs a network; got {shot.classifier}, which is fitted at once.")
    if shot.recorded is None:
        raise RunFolderError(
            f"{shot.path} must have saved an epoch of its own training; got none yet. Try again later."
        )
    return shot


def _with_beliefs(shot: Snapshot) -> Snapshot:
    seen = _with_epochs(shot).recorded
    assert seen is not None
    if not bool((seen.beliefs >= 0).any()):
        method = shot.config.method.name
        raise InputError(
            f"the method must keep the labels it believes in, epoch by epoch; got {method!r}, which keeps none."
        )
    return shot
