"""Pages for an analysis of labels that has no run: a report, and a review page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selc._io.files import write_text
from selc.analysis import LabelAnalysis
from selc.analysis.findings import ACTIONS, Column
from selc.analysis.words import WHY, noise_sentence, percent, points, whole
from selc.errors import ConfigError, InputError
from selc.noise.base import label_digest
from selc.report.class_tables import classes_table, pairs_table
from selc.report.gallery import Card
from selc.report.page import templates
from selc.report.shown_items import TEXT, check_items, views
from selc.report.style import abridged, shortened
from selc.review.order_of_work import most_valuable
from selc.review.review_page import page, sample
from selc.runs.decisions import FORMAT, check_unique, fingerprint_of
from selc.turning.decision import Reason

_LETTERS, _NAME = 600, 120  # of a cell, and of a name, in the report


def write_report_on(
    analysis: LabelAnalysis,
    path: Path | str,
    items: Any = None,
    *,
    ids: Column | None = None,
    classes: Column | None = None,
    samples: int = 60,
) -> Path:
    """Write what an analysis found as one page that needs nothing else."""
    if samples < 0:
        raise InputError(f"samples must be 0 or more; got {samples}.")
    names, names_of = _names(analysis, ids, classes)
    found = analysis.findings
    issues = found.is_issue
    order = found.quality.argsort(stable=True)
    rows = [*order[issues[order]].tolist(), *order[~issues[order]].tolist()][:samples]
    if items is not None:
        check_items(items, len(names))
    seen = views(items, rows)
    columns = list(dict.fromkeys(name for view in seen for name, _ in view.cells))
    cards = [
        Card(
            row=row,
            name=shortened(names[row], _NAME),
            given=shortened(names_of[int(found.given[row])], _NAME),
            suggested=shortened(names_of[int(found.suggested[row])], _NAME),
            quality=float(found.quality[row]),
            confidence=float(found.confidence[row]),
            action=ACTIONS[int(found.action[row])],
            picture=view.picture,
            texts=tuple(abridged(dict(view.cells).get(name, ""), _LETTERS) for name in columns),
        )
        for row, view in zip(rows, seen, strict=True)
    ]
    text = (
        templates()
        .get_template("labels.html")
        .render(
            rows=len(names),
            sentences=sentences(analysis),
            pairs=pairs_table(found, names_of),
            classes=classes_table(found, names_of),
            suspicious=int(issues.sum()),
            cards=cards,
            columns=columns,
        )
    )
    place = Path(path)
    write_text(place, text.encode(errors="replace").decode())
    return place


def sentences(analysis: LabelAnalysis) -> list[str]:
    """What an analysis says, each a sentence."""
    about, action = analysis.as_dict(), analysis.findings.action
    relabel, review = (int((action == ACTIONS.index(name)).sum()) for name in ("relabel", "review"))
    said = [noise_sentence(about["noise_rate"], len(action))]
    why = analysis.why_unchanged
    said.append(f"{relabel:,} labels are changed." if why is None else f"No label is changed, because {WHY[why]}.")
    said.append(f"{review:,} labels are worth a look." if review else "No label is left to look at.")
    if (decision := analysis.decision) is not None and decision.reason in (Reason.FALL, Reason.NO_FALL):
        fell = f", and at the end {points(decision.fall)} less: wrong labels are learnt by heart"
        best = f"best after epoch {whole(decision.best)} ({percent(decision.accuracy)})"
        harm = fell if decision.reason is Reason.FALL else ""
        said.append(f"Labels that were not trained on are predicted {best}{harm}.")
    return said


def write_review_of(
    analysis: LabelAnalysis,
    path: Path | str,
    items: Any = None,
    *,
    ids: Column | None = None,
    classes: Column | None = None,
    top: int = 500,
) -> Path:
    """Write the review page of an analysis; `LabelAnalysis.decided` reads what it saves."""
    if top < 1:
        raise ConfigError(f"top must be at least 1 sample; got {top}.")
    names, names_of = _names(analysis, ids, classes)
    check_unique(names, "ids")
    found, place = analysis.findings, Path(path)
    if items is not None:
        check_items(items, len(names))
    rows = most_valuable(found, top)
    seen = dict(zip(rows, views(items, rows), strict=True))
    columns = found.columns(names, names_of)
    content = {
        "format": FORMAT,
        "run": fingerprint_of(label_digest(found.given), "", names_of),
        "name": place.stem,
        "total": len(names),
        "classes": names_of,
        "samples": [{**sample(found, columns, row, names, names_of), "alike": []} for row in rows],
        "links": {},
        "pictures": {str(row): view.picture for row, view in seen.items() if view.picture},
        "small": {},
        "texts": {str(row): [cell for cell in view.cells if cell[0] == TEXT] for row, view in seen.items()},
        "tables": {str(row): [cell for cell in view.cells if cell[0] != TEXT] for row, view in seen.items()},
        "beside": {},
        "apply": 'analysis.decided("decisions.json")',
    }
    write_text(place, page(content))
    return place


def _names(analysis: LabelAnalysis, ids: Column | None, classes: Column | None) -> tuple[list[str], list[str]]:
    """Names of samples and of classes; where none are given, their numbers."""
    N, C = len(analysis.corrected), len(analysis.transition_matrix)
    return _counted("ids", ids, N), _counted("classes", classes, C)


def _counted(what: str, names: Column | None, count: int) -> list[str]:
    written = [str(name) for name in (range(count) if names is None else names)]
    if len(written) != count:
        raise InputError(f"{what} must be {count} names; got {len(written)}.")
    return written
