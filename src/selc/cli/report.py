"""`selc report` and `selc figures`: what a run found, for people."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from selc.cli.common import speaking
from selc.cli.ending import AsJson, Quiet, as_json, say

RunArgument = Annotated[Path, typer.Argument(help="Folder of a run, finished or still going.")]


def report(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="File to write. (default: RUN/report.html)")] = None,
    samples: Annotated[
        int, typer.Option(help="Suspicious samples to show; 0 shows none and does not read the data.", min=0)
    ] = 60,
    data: Annotated[
        str | None, typer.Option("--data", metavar="PATH", help="Where the data lie now, if they have moved.")
    ] = None,
    quiet: Quiet = False,
    json_: AsJson = False,
) -> None:
    """Write one page about a run that needs no network and no server: report.html."""
    with speaking():
        from selc.data.sources.recognise import existing
        from selc.report.page import write_report
        from selc.runs import RunFolder
        from selc.screen import reading, show_notes

        folder = RunFolder.open(run)
        if data is not None:
            existing(data, "--data")
        with reading():
            path, shown = write_report(folder, out, samples=samples, data=data)
        if not folder.finished:
            show_notes([f"{run} is not finished; the report shows what is known so far."])
        show_notes([shown.remark] if shown.remark else [])
        size, place = path.stat().st_size, quote(str(run))
        what = ("selc review " + place, "say which labels are right, in the browser")
        if not folder.finished:
            what = ("selc resume " + place, "go on with the training, if it was interrupted")
        if json_:
            as_json({"report": str(path), "bytes": size, "samples": len(shown.cards), "next": [what[0]]})
        elif quiet:
            print(path)
        else:
            say({"report": f"{path} ({size / 1e6:.1f} MB, one file: open it in a browser)"}, [what])


def figures(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures. (default: RUN/figures)")] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="png, pdf, svg, or several with commas.")
    ] = "png,pdf",
) -> None:
    """Write the figures of a run for a paper, as PNG and PDF."""
    with speaking():
        from selc.report.figures import save_all
        from selc.runs import RunFolder

        endings = [part.strip().lower().removeprefix(".") for part in formats.split(",") if part.strip()]
        written, missing = save_all(RunFolder.open(run), out, endings)
        for sentence in missing:
            print(f"note: {sentence}", file=sys.stderr)
        for path in written:
            print(path)
