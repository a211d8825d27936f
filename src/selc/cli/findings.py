"""`selc findings`: the analysis of labels by probabilities that come from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from selc.cli.common import speaking
from selc.cli.ending import AsJson, Quiet, as_json, say


def findings(
    pred_probs: Annotated[
        Path, typer.Option(help="Probabilities [N, C] of rows that the model was not trained on: .npz or .npy.")
    ],
    labels: Annotated[Path, typer.Option(help="The given labels, row by row: a table, .npz or .npy.")],
    out: Annotated[Path, typer.Option(help="New table to write, .csv or .parquet.")] = Path("label_issues.csv"),
    label_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the labels. (default: by name)")] = "",
    id_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the ids. (default: by name)")] = "",
    quiet: Quiet = False,
    json_: AsJson = False,
) -> None:
    """Find wrong labels by probabilities that you have already, such as those of a cross-validation."""
    with speaking():
        from selc._io.table_files import CSV, PARQUET, write_table
        from selc.analysis import analyse_probabilities
        from selc.analysis.findings import ACTIONS
        from selc.analysis.words import WHY, noise_words
        from selc.errors import ConfigError, RunFolderError
        from selc.runs.probability_files import read_given
        from selc.screen import show_notes

        if out.suffix.lower() not in (CSV, *PARQUET):
            raise ConfigError(f"--out must end in .csv or .parquet; got {out}.")
        if out.exists():
            raise RunFolderError(
                f"--out must be new, so that nothing is lost; got {out}, which is there already. "
                "Remove it or choose another name."
            )
        given = read_given(pred_probs, labels, column=label_column, id_column=id_column)
        show_notes(given.notes)
        analysis = analyse_probabilities(given.pred_probs, given.labels)
        write_table(out, analysis.findings.columns(given.ids, given.classes))
        rate, why = analysis.as_dict()["noise_rate"], analysis.why_unchanged
        action = analysis.findings.action
        count = {name: int((action == place).sum()) for place, name in enumerate(ACTIONS)}
        lines = {
            "labels": f"{len(given.ids):,} of {len(given.classes)} classes",
            "wrong labels": "cannot be told" if rate is None else noise_words(rate),
            "what to do": f"relabel {count['relabel']:,}, review {count['review']:,}, keep {count['keep']:,}"
            + (f"; none to relabel, because {WHY[why]}" if why else ""),
            "findings": str(out),
        }
        if json_:
            content = {"label_issues": str(out), "samples": len(given.ids), "classes": len(given.classes)}
            wrong = None if rate is None else {key: rate[key] for key in ("estimate", "low", "high")}
            as_json({**content, "wrong_labels": wrong, "why_unchanged": why, **count})
        elif quiet:
            print(out)
        else:
            say(lines)
