"""The report of a run: one page of HTML that needs nothing else, neither a network nor a server nor a script."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from selc._io.files import read_json, write_text
from selc.analysis.words import percent
from selc.data import Bundle
from selc.errors import InputError
from selc.report.class_tables import MATRIX, classes_table, counts_table, matrix_table, pairs_table
from selc.report.drawings import Picture, draw
from selc.report.gallery import SHOWN, Card, Gallery, gallery
from selc.report.next_commands import next_commands
from selc.report.reading import Snapshot
from selc.report.reliability import doubts, helpful, reliability
from selc.report.sentences import truth, turning_point, what_happened
from selc.report.style import printable, shortened
from selc.runs import RunFolder
from selc.training.metrics import formatted, headline, title
from selc.types import accuracies

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

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
    pictures = draw(shot)
    text = render(shot, shown, pictures)
    while len(text.encode()) > LARGEST and shown.cards:  # pictures are what grows
        shown = replace(shown, cards=shown.cards[: len(shown.cards) // 2])
        text = render(shot, shown, pictures)
    write_text(path, text)
    return path, shown


def render(run: Snapshot, shown: Gallery, pictures: dict[str, Picture]) -> str:
    """The page as text. Every name of the user's passes through the template, which escapes it."""
    found = run.verdicts
    sentences, about = what_happened(run), []
    if run.finished:  # the answer comes first: how many labels are wrong, what was changed, what to do
        ran, wrong, changed, accuracy, to_do = sentences
        sentences, about = [wrong, changed, to_do], [ran, accuracy]
    text = (
        templates()
        .get_template("report.html")
        .render(
            name=run.path.resolve().name,
            finished=run.finished,
            classifier=run.classifier,
            as_of=run.as_of,
            sentences=sentences,
            about=about,
            doubts=doubts(run),
            next=next_commands(run)[1:] if run.finished else [],  # the first is this page
            judged=run.decision() is not None,
            turning=turning_point(run),
            pictures=pictures,
            epochs=_epochs(run),
            measured=metrics_table(run),
            matrix=matrix_table(found, run.classes),
            pairs=pairs_table(found, run.classes),
            classes=classes_table(found, run.classes, run.true),
            shown=shown,
            groups=_by_class(shown),
            truth_matrices=_truth_matrices(run),
            reliability=reliability(run),
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
        finalize=lambda value: printable(value) if type(value) is str else value,  # not what is marked as safe,
    )
    environment.filters["percent"] = percent
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """A name that a narrow column breaks where its parts end, and not inside a word."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_.-]+)(?=\w)", r"\1<wbr>", str(escape(printable(name)))))


def _epochs(run: Snapshot) -> dict[str, Any]:
    """The table of epochs: all of them, or some at even distances."""
    line = run.timeline
    sets = list(dict.fromkeys(name for entry in line for name in accuracies(entry)))
    places = torch.linspace(0, len(line) - 1, min(EPOCHS, len(line))).round().long().tolist() if line else []
    rows = []
    for entry in (line[place] for place in places):
        measured = accuracies(entry)
        cells = [f"{entry['loss']:.3f}" if "loss" in entry else "–"]
        cells += [percent(entry[key]) if key in entry else "–" for key in ("disagree", "would_relabel")]
        cells += [percent(headline(measured[name])) if name in measured else "–" for name in sets]
        rows.append((run.stage_number(entry), entry["epoch"] + 1, cells))
    heads = ["loss", "predicted otherwise", "would relabel", *(f"accuracy on {name}" for name in sets)]
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


def _by_class(shown: Gallery) -> list[tuple[str, list[Card]]]:
    """The samples that are shown, by their given label; the class of the most suspicious one comes first."""
    groups: dict[str, list[Card]] = {}
    for card in shown.cards:
        groups.setdefault(card.given, []).append(card)
    return list(groups.items())


def _truth_matrices(run: Snapshot) -> list[tuple[str, dict[str, Any]]]:
    """The given and the corrected labels against the true ones, where these are known and few enough."""
    if run.true is None or not run.finished or len(run.classes) > MATRIX:
        return []
    columns = {"given": run.given, "corrected": run.corrected()}
    return [(name, counts_table(run.true, labels, run.classes)) for name, labels in columns.items()]


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
