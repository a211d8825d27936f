"""`selc review` and `selc apply`: a person looks at what matters most, and the verdicts become cleaned labels."""

from __future__ import annotations

from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

import typer

from selc.cli.common import speaking
from selc.cli.ending import AsJson, Quiet, as_json, cleaned_beside, say
from selc.errors import ConfigError

if TYPE_CHECKING:
    from selc.runs import RunFolder
    from selc.runs.decisions import Band


def review(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    top: Annotated[int, typer.Option(help="How many samples: the most valuable ones.", min=1)] = 500,
    look_alikes: Annotated[int, typer.Option(help="How many look-alikes of each class.", min=0)] = 3,
    out: Annotated[Path | None, typer.Option(help="File to write. (default: RUN/review.html)")] = None,
    quiet: Quiet = False,
    json_: AsJson = False,
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
        command = f"selc apply {quote(str(run))} --decisions decisions.json"
        if json_:
            content = {"review": str(made.path), "bytes": made.size, "samples": made.samples, "next": [command]}
            as_json(content)
        elif quiet:
            print(made.path)
        else:
            page = f"{made.path} ({made.samples:,} samples, {made.size / 1e6:.1f} MB)"
            how = "open it in a browser, judge, and save decisions.json; the work is kept in the browser"
            say({"review": page, "": how}, [(command, "write the cleaned labels")])


def apply(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="New folder, or a file that ends in .csv or .parquet. (default: RUN-cleaned)")
    ] = None,
    decisions: Annotated[
        list[Path] | None,
        typer.Option(
            help="What the review page saved, or the export of an annotation tool; twice: those of two reviewers. "
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
    quiet: Quiet = False,
    json_: AsJson = False,
) -> None:
    """Write the cleaned labels; say how often the reviewer agreed with the suggestions. The data are not touched."""
    with speaking():
        from selc.review.cleaned_tree import FOLDERS, left_unfinished, write_cleaned
        from selc.review.exchange import read_decisions
        from selc.runs import RunFolder
        from selc.runs.cleaned import TABLES, clean, new_tables, write_tables
        from selc.runs.cleaned_source import KINDS, corrected_table, own_name
        from selc.runs.config import ARRAYS
        from selc.runs.decisions import agreement, check_unique
        from selc.runs.door import origin_of
        from selc.runs.reviewers import merged
        from selc.screen import show_notes

        folder = RunFolder.open(run)
        out = out or cleaned_beside(run)
        findings = folder.findings()
        check_unique(folder.ids, str(run))
        a_table, a_folder = out.suffix.lower() in TABLES, origin_of(folder).name in FOLDERS
        if tree and (a_table or not a_folder):
            got = f"{out}, a file" if a_table else f"data {folder.config.data.name!r}"
            raise ConfigError(f"--tree needs a folder as --out and a folder of images or texts as data; got {got}.")
        if human_only and not decisions:
            raise ConfigError("--human-only needs --decisions: without them there is no verdict of a person; got none.")
        own = None if a_table else own_name(origin_of(folder))
        if not a_table:
            left_unfinished(out, [own] if own else ())
        new_tables(out)  # refuses before anything is written
        made, between = None, None
        if decisions:
            read = [read_decisions(path, folder) for path in decisions]
            show_notes([note for _, notes in read for note in notes])
            made, between = merged([each for each, _ in read])
        cleaned = clean(folder, findings, made, human_only=human_only)
        with_tree = (a_folder and not a_table) if tree is None else tree
        table = (own, corrected_table(cleaned, findings, folder, origin_of(folder))) if own else None
        tables, files = (
            (write_tables(cleaned, folder, out), None)
            if a_table
            else write_cleaned(cleaned, folder, out, tree=with_tree, copy=copy, own=table)
        )
        counts = cleaned.counts()
        changes = agreement(made, findings, folder) if made is not None else []
        kept = agreement(made, findings, folder, changes=False)[-1] if made is not None else None
        if json_:
            as_json(
                {
                    "cleaned": [str(path) for path in tables],
                    "tree": None if files is None else str(files.path),
                    "labels": counts,
                    "agreed_with_changes": _as_dict(changes[-1] if changes else None),
                    "agreed_with_keeping": _as_dict(kept),
                    "reviewers": None if between is None else between._asdict(),
                }
            )
            return
        if quiet:
            print(*tables, sep="\n")
            return
        for path in tables:
            print(f"cleaned labels    {path}")
        if table is not None:
            print(
                f"your {KINDS[origin_of(folder).name]:<13}{out / table[0]}: {len(table[1].labels):,} labels corrected"
            )
        if files is not None:
            print(f"files             {files.path}: {files.linked:,} links, {files.copied:,} copies")
        print(f"labels            {_in_words(counts)}")
        if between is not None:
            beyond = "" if between.kappa is None else f", Cohen's kappa {between.kappa:.2f}"
            said = f"agree on {between.agreed:,} of {between.both:,}{beyond}"
            print(f"two reviewers     {said}; the others are left undecided")
        if changes:
            _show(changes, "suggested changes")
        if kept is not None and kept.reviewed:
            _show([kept], "suggested to keep")
        if origin_of(folder).name != ARRAYS and folder.config.noise.name == "none":  # drawn noise would come back
            say({}, [_train_again(folder, tables[0], decisions)])


def _in_words(counts: dict[str, int]) -> str:
    """Where the labels come from."""
    said = [f"{counts['given']:,} as given", f"{counts['relabelled']:,} changed by the run"]
    said += [f"{counts['human']:,} decided by a person"] if counts["human"] else []
    said += [f"{counts['dropped']:,} dropped"] if counts["dropped"] else []
    return ", ".join(said)


def _train_again(run: RunFolder, cleaned: Path, decisions: list[Path] | None) -> tuple[str, str]:
    """The command that trains on the cleaned labels with the same settings."""
    words = ["selc", "train", "--config", str(run.path / "config.toml"), "--labels", str(cleaned)]
    if decisions and len(decisions) == 1:
        words += ["--verified", str(decisions[0])]
    return join(words), "train again, on the cleaned labels"


def _as_dict(band: Band | None) -> dict[str, float] | None:
    if band is None or not band.reviewed:
        return None
    low, high = band.interval
    return {"reviewed": band.reviewed, "agreed": band.agreed, "low": low, "high": high}


def _show(bands: list[Band], title: str) -> None:
    if not bands[-1].reviewed:
        print(f"{title} none reviewed yet")
        return
    print(f"{title}: how often the reviewer agreed, with the 95 % interval")
    for place, band in enumerate(bands):
        name = "all" if place == len(bands) - 1 else f"confidence {band.low:.1f} to {band.high:.1f}"
        if band.reviewed:
            low, high = band.interval
            share = f"{band.agreed} of {band.reviewed}, {band.agreed / band.reviewed:.0%} ({low:.0%} to {high:.0%})"
        else:
            share = "none reviewed"
        print(f"  {name:<22}{share}")
