"""The report of a run: one page of HTML that needs nothing else, neither a network nor a server nor a script."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from selc._io.files import read_json, write_text
from selc.analysis.words import decision_sentence, percent
from selc.data import Bundle
from selc.errors import InputError, RunFolderError
from selc.report.class_tables import classes_table, matrix_table, pairs_table
from selc.report.figures import BELIEVED, as_svg, plates
from selc.report.gallery import SHOWN, Gallery, gallery
from selc.report.reading import Snapshot
from selc.report.sentences import truth, turning_point, what_happened
from selc.report.style import shortened
from selc.report.trust import doubts, helpful, trust
from selc.runs import RunFolder
from selc.training.metrics import formatted, headline, title
from selc.types import accuracies

if TYPE_CHECKING:
    from jinja2 import Environment

LARGEST = 3_000_000  # bytes of a page
EPOCHS = 40  # rows of the table of epochs
_LINES = 20  # of remarks on the data

# What each file of a finished run is.
FILES = {
    "corrected_labels.csv": "a row per sample: given, corrected and believed label",
    "label_issues.csv": "a row per sample: label quality, suggestion, what to do",
    "label_issues.parquet": "the same table as Parquet",
    "analysis.safetensors": "the same numbers, for Python",
    "decision.json": "when labels began to be corrected, and why",
    "evidence.safetensors": "what was predicted of held-out samples, epoch by epoch",
    "model.safetensors": "the weights of the network, for PyTorch",
    "fitted_on.safetensors": "the rows and labels that the classifier was fitted on, to fit it again for new data",
    "targets.safetensors": "soft targets and probabilities of every sample",
    "metrics.jsonl": "a line per epoch",
    "config.toml": "every setting, to run it again",
    "given_labels.npz": "the labels that were given, and the names of the samples",
}


@dataclass(frozen=True)
class Picture:
    """A figure on the page: its data URI, or the sentence that stands in its place."""

    uri: str = ""
    alt: str = ""
    remark: str = ""


def write_report(
    run: RunFolder,
    path: Path | str | None = None,
    *,
    samples: int = SHOWN,
    data: str | None = None,
    bundle: Bundle | None = None,
) -> tuple[Path, Gallery]:
    """Write the report of a run, by default to ``report.html`` in its folder; return where, and what the gallery holds.

    ``samples`` is the size of the gallery (0: the data are not read), ``data`` the place of data that have moved, and
    ``bundle`` the data themselves, for a run that was started with arrays.
    """
    if samples < 0:
        raise InputError(f"samples must be 0 or more; got {samples}.")
    path = run.path / "report.html" if path is None else Path(path)
    shot = Snapshot.of(run)
    shown = gallery(shot, samples, data, bundle)
    pictures = _pictures(shot)
    text = render(shot, shown, pictures)
    while len(text.encode()) > LARGEST and shown.cards:  # pictures are what grows
        shown = replace(shown, cards=shown.cards[: len(shown.cards) // 2])
        text = render(shot, shown, pictures)
    write_text(path, text)
    return path, shown


def render(run: Snapshot, shown: Gallery, pictures: dict[str, Picture]) -> str:
    """The page as text. Every name of the user's passes through the template, which escapes it."""
    found = run.verdicts
    text = (
        templates()
        .get_template("report.html")
        .render(
            name=run.path.resolve().name,
            finished=run.finished,
            classifier=run.classifier,
            as_of=run.as_of,
            sentences=what_happened(run),
            doubts=doubts(run),
            judged=run.decision() is not None,
            turning=turning_point(run),
            pictures=pictures,
            epochs=_epochs(run),
            measured=metrics_table(run),
            matrix=matrix_table(found, run.classes),
            pairs=pairs_table(found, run.classes),
            classes=classes_table(found, run.classes, run.true),
            shown=shown,
            trust=trust(run),
            helpful=helpful(run),
            truth=truth(run),
            protocol=_protocol(run),
            versions=read_json(run.path / "environment.json"),
            hashes=_hashes(run),
            notes=_notes(run),
            files={name: what for name, what in FILES.items() if (run.path / name).exists()},
        )
    )
    # Names of files may hold halves of letters, which no text can; they are shown as question marks.
    return text.encode(errors="replace").decode()


def templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters["percent"] = percent
    return environment


def _printable(value: Any) -> Any:
    """Letters that control a screen, and are not allowed in a page, become boxes."""
    if type(value) is str:  # what is marked as safe already is the template's own
        return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "\N{REPLACEMENT CHARACTER}", value)
    return value


def _pictures(run: Snapshot) -> dict[str, Picture]:
    """Each figure of the run, or the sentence why there is none."""
    pictures = {}
    for plate in plates(run):
        try:
            svg = as_svg(plate.draw())
        except (InputError, RunFolderError) as error:
            pictures[plate.name] = Picture(remark=f"Not drawn: {error}")
            continue
        uri = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
        pictures[plate.name] = Picture(uri, _ALT[plate.name](run))
    return pictures


def _alt_turning(run: Snapshot) -> str:
    decision, evidence = run.decision(), run.evidence()
    assert decision is not None  # the figure is drawn
    assert evidence is not None
    last = percent(float(evidence.curve[-1]))
    if run.classifier:
        return (
            f"Line of the share of held-out labels that boosting predicts over its iterations; {last} at the last one."
        )
    return (
        f"Line of the share of held-out labels that plain cross entropy predicts, at {evidence.looks} looks; {last} at "
        f"the last one. {decision_sentence(decision.as_dict())}"
    )


def _alt_training(run: Snapshot) -> str:
    last = run.timeline[-1]
    parts = [f"accuracy on {name} {percent(headline(value))}" for name, value in accuracies(last).items()]
    if "changed" in last:
        parts.append(f"{BELIEVED} {percent(last['changed'])}")
    if "disagree" in last:
        parts.append(f"predicted otherwise than labelled {percent(last['disagree'])}")
    return f"Lines over {len(run.timeline)} epochs; at the last one: {', '.join(parts) or 'nothing was measured'}."


def _alt_losses(run: Snapshot) -> str:
    kinds = "of all samples" if run.true is None else "of clean and of mislabelled samples"
    return f"Histograms of the training losses {kinds} at up to three epochs, each with the two fitted Gaussians."


def _alt_memory(run: Snapshot) -> str:
    by = "the labels that the run believes" if run.true is None else "the true labels"
    return (
        f"Lines over the epochs: shares of the clean and of the mislabelled samples, by {by}, that are predicted "
        "right, as the given wrong label, or otherwise."
    )


def _alt_matrix(run: Snapshot) -> str:
    return (
        f"Matrix of {len(run.classes)} given labels by suggested labels; the largest exchanges are in the table below."
    )


def _alt_classes(run: Snapshot) -> str:
    return "Bars of the share of labels in doubt for each class, the worst first; the numbers are in the table below."


_ALT: dict[str, Callable[[Snapshot], str]] = {
    "turning-point": _alt_turning,
    "training": _alt_training,
    "losses": _alt_losses,
    "memorisation": _alt_memory,
    "given-and-suggested": _alt_matrix,
    "noise-by-class": _alt_classes,
    "truth": lambda run: "Two matrices: the given and the corrected labels against the true classes.",
    "correction": lambda run: "Line over the epochs: the share of the labels that the method believes which is right.",
}


def _epochs(run: Snapshot) -> dict[str, Any]:
    """The table of epochs: all of them, or some at even distances."""
    line = run.timeline
    sets = list(dict.fromkeys(name for entry in line for name in accuracies(entry)))
    places = torch.linspace(0, len(line) - 1, min(EPOCHS, len(line))).round().long().tolist() if line else []
    rows = []
    for entry in (line[place] for place in places):
        measured = accuracies(entry)
        cells = [f"{entry['loss']:.3f}" if "loss" in entry else "–"]
        cells += [percent(entry[key]) if key in entry else "–" for key in ("disagree", "changed")]
        cells += [percent(headline(measured[name])) if name in measured else "–" for name in sets]
        rows.append((run.stage_number(entry), entry["epoch"] + 1, cells))
    heads = ["loss", "predicted otherwise", "believed otherwise", *(f"accuracy on {name}" for name in sets)]
    return {"heads": heads, "rows": rows, "all": len(rows) == len(line), "stages": len({row[0] for row in rows}) > 1}


def metrics_table(run: Snapshot) -> dict[str, Any] | None:
    """The table of all metrics on all named sets, after the epoch whose network is the result."""
    sets = run.summary["accuracy"] if run.finished else accuracies(run.timeline[-1]) if run.timeline else {}
    metrics = list(dict.fromkeys(name for values in sets.values() for name in values))
    rows = [
        (title(name), [formatted(name, values[name]) if name in values else "–" for values in sets.values()])
        for name in metrics
    ]
    return {"sets": list(sets), "rows": rows} if len(rows) > 1 else None  # the figure has the first


def _protocol(run: Snapshot) -> list[tuple[str, str]]:
    """Every setting of the run, under the names of its configuration."""
    settings = run.config.model_dump(mode="json")
    rows = []
    for section, values in settings.items():
        for key, value in values.items():
            rows.append((f"{section}.{key}", shortened("–" if value in ("", [], {}) else str(value), 300)))
    return rows


def _hashes(run: Snapshot) -> list[tuple[str, str]]:
    about = read_json(run.path / "noise.json")
    rows = [("settings and labels", run.fingerprint), ("given labels", about["sha256"])]
    if about.get("data_sha256"):
        rows.append(("data", about["data_sha256"]))
    return rows


def _notes(run: Snapshot) -> list[str]:
    """What was noticed about the data, and what was left out."""
    notes = [shortened(note, 400) for note in run.about_data.get("notes", [])]
    left = [shortened(f"left out: {name} ({reason})", 400) for name, reason in run.about_data.get("skipped", [])]
    more = [f"… and {len(left) - _LINES:,} more"] if len(left) > _LINES else []
    return [*notes[:_LINES], *left[:_LINES], *more]
