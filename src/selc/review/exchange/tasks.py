"""`selc export`: the samples that matter most, as tasks of an annotation tool."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from selc._io.files import write_text
from selc._io.together import together, undo
from selc.analysis.findings import ACTIONS
from selc.errors import ConfigError, InputError, RunFolderError, unknown
from selc.review.exchange.items import views_of
from selc.review.exchange.tools import TOOLS
from selc.review.exchange.tools.base import DROP, SET_UP, Item, Sheet
from selc.review.order_of_work import most_valuable
from selc.runs.decisions import check_unique, fingerprint
from selc.runs.folder import RunFolder


class Exported(NamedTuple):
    """What was written."""

    tasks: Path
    setup: Path | None  # None: the tool needs none
    samples: int
    steps: str  # what to do with them


def export(
    run: RunFolder,
    tool: str,
    out: Path | None = None,
    *,
    top: int = 500,
    only: str | None = None,
    prefix: str | None = None,
) -> Exported:
    """Write the samples of a finished run that matter most as tasks of an annotation tool.

    Parameters
    ----------
    run : RunFolder
        A finished run on data that can be read again.
    tool : str
        Name of the tool, one of `TOOLS`.
    out : Path, optional
        New file for the tasks; the settings of the tool go beside it. By default in the run's folder.
    top : int, default=500
        How many samples at most, in the order of the review page.
    only : {"relabel", "review", "keep"}, optional
        Samples of this action alone.
    prefix : str, optional
        What stands before the path of an image: a folder or a web address, as the tool asks for it.

    Returns
    -------
    Exported
        The files that were written.
    """
    if top < 1:
        raise ConfigError(f"--top must be at least 1 sample; got {top}.")
    if only is not None and only not in ACTIONS:
        raise unknown("--only", only, ACTIONS)
    writer = TOOLS[tool]()
    findings = run.findings()
    check_unique(run.ids, str(run.path))
    if DROP in run.classes:
        raise InputError(f"no class may be called {DROP!r}, which drops a sample in a tool; got one. Rename it.")
    place = out or run.path / f"{tool}{writer.ending}"
    beside = place.with_name(f"{place.stem}{SET_UP}{writer.setup_ending}") if writer.setup_ending else None
    new = [path for path in (beside, place) if path is not None]
    undo(place.parent, [path.name for path in new])  # what a call that was killed had begun to write
    for path in new:
        if path.exists():
            raise RunFolderError(
                f"--out must be new, so that nothing is lost; got {path}, which is there already. "
                "Remove it or choose another name."
            )
    rows = most_valuable(findings, len(run.ids))
    wanted = range(len(ACTIONS)) if only is None else [ACTIONS.index(only)]
    actions = findings.action.tolist()
    rows = [row for row in rows if actions[row] in wanted][:top]
    if not rows:
        raise InputError(f"--only must leave something to export; got no sample of {run.path} with action {only!r}.")
    views = views_of(run, rows, writer, tool, prefix)
    table = {name: column[rows].tolist() for name, column in findings.columns(run.ids, run.classes).items()}
    items = [
        Item(
            sample_id=table["sample_id"][place],
            view=views.views[place],
            given=table["given_label"][place],
            suggested=table["suggested_label"][place],
            confidence=table["suggested_confidence"][place],
            quality=table["label_quality"][place],
            size=views.sizes[place],
        )
        for place in range(len(rows))
    ]
    sheet = Sheet(fingerprint(run), run.classes, items, views.images)
    texts = [*([writer.setup(sheet)] if beside else []), writer.tasks(sheet)]
    with together(place.parent, [path.name for path in new]):
        for path, text in zip(new, texts, strict=True):
            write_text(path, text)
    return Exported(place, beside, len(items), writer.steps)
