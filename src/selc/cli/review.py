"""`selc review` and `selc apply`: a person looks at what matters most, and the verdicts become cleaned labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from selc.cli.common import speaking
from selc.errors import ConfigError

if TYPE_CHECKING:
    from selc.runs.decisions import Band


def review(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    top: Annotated[int, typer.Option(help="How many samples: the most valuable ones.", min=1)] = 500,
    look_alikes: Annotated[int, typer.Option(help="How many look-alikes of each class.", min=0)] = 3,
    out: Annotated[Path | None, typer.Option(help="File to write. (default: RUN/review.html)")] = None,
) -> None:
    """Write a page on which a person judges the samples that matter most, in any browser and without a server."""
    with speaking():
        from selc.review import write_review
        from selc.runs import RunFolder
        from selc.screen import reading

        folder = RunFolder.open(run)
        _ = folder.summary  # a run that is not finished is refused before its data are read
        with reading():
            made = write_review(folder, out, count=top, alike=look_alikes)
        print(f"{made.path}: {made.samples} samples, {made.size / 1e6:.1f} MB, one file")
        print("Open it in a browser; the work is kept there. Save decisions.json, then:")
        print(f"  selc apply {run} --decisions decisions.json --out cleaned")


def apply(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="New folder, or a file that ends in .csv or .parquet.")],
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="What the review page saved, or the export of an annotation tool. "
            "(default: only what the run is sure of)"
        ),
    ] = None,
    human_only: Annotated[
        bool, typer.Option("--human-only", help="Change nothing that no person has looked at.")
    ] = False,
    tree: Annotated[
        bool | None,
        typer.Option("--tree/--no-tree", help="Also a new folder of the files. (default: if the data are one)"),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the files instead of linking them.")] = False,
) -> None:
    """Write the cleaned labels; say how often the reviewer agreed with the suggestions. The data are not touched."""
    with speaking():
        from selc.review.cleaned_tree import FOLDERS, left_unfinished, write_cleaned
        from selc.review.exchange import read_decisions
        from selc.runs import RunFolder
        from selc.runs.cleaned import TABLES, clean, new_tables, write_tables
        from selc.runs.cleaned_source import corrected_table, own_name
        from selc.runs.decisions import agreement, check_unique
        from selc.runs.door import origin_of
        from selc.screen import show_notes

        folder = RunFolder.open(run)
        findings = folder.findings()
        check_unique(folder.ids, str(run))
        a_table, a_folder = out.suffix.lower() in TABLES, origin_of(folder).name in FOLDERS
        if tree and (a_table or not a_folder):
            got = f"{out}, a file" if a_table else f"data {folder.config.data.name!r}"
            raise ConfigError(f"--tree needs a folder as --out and a folder of images or texts as data; got {got}.")
        if human_only and decisions is None:
            raise ConfigError("--human-only needs --decisions: without them there is no verdict of a person; got none.")
        own = None if a_table else own_name(origin_of(folder))
        if not a_table:
            left_unfinished(out, [own] if own else ())
        new_tables(out)  # refuses before anything is written
        made, notes = read_decisions(decisions, folder) if decisions is not None else (None, ())
        show_notes(notes)
        cleaned = clean(folder, findings, made, human_only=human_only)
        with_tree = (a_folder and not a_table) if tree is None else tree
        table = (own, corrected_table(cleaned, findings, folder, origin_of(folder))) if own else None
        tables, files = (
            (write_tables(cleaned, folder, out), None)
            if a_table
            else write_cleaned(cleaned, folder, out, tree=with_tree, copy=copy, own=table)
        )
        for path in tables:
            print(f"cleaned labels    {path}")
        if table is not None:
            print(f"your table        {out / table[0]}: {len(table[1].labels):,} labels corrected")
        if files is not None:
            print(f"files             {files.path}: {files.linked:,} links, {files.copied:,} copies")
        counts = cleaned.counts()
        print("labels            " + ", ".join(f"{name} {count:,}" for name, count in counts.items()))
        if made is not None:
            _show(agreement(made, findings, folder), "suggested changes")
            kept = agreement(made, findings, folder, changes=False)[-1]
            if kept.judged:
                _show([kept], "suggested to keep")


def _show(bands: list[Band], title: str) -> None:
    if not bands[-1].judged:
        print(f"{title} none judged yet")
        return
    print(f"{title}, how often the reviewer agreed (of those judged, with the 95 % interval)")
    for place, band in enumerate(bands):
        name = "all" if place == len(bands) - 1 else f"confidence {band.low:.1f} to {band.high:.1f}"
        if band.judged:
            low, high = band.interval
            share = f"{band.agreed} of {band.judged}, {band.agreed / band.judged:.0%} ({low:.0%} to {high:.0%})"
        else:
            share = "none judged"
        print(f"  {name:<22}{share}")
