"""`selc export`: the samples that matter most, for the annotation tool that a team has already."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from selc.cli.common import speaking
from selc.cli.ending import say


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="label-studio, prodigy, doccano or cvat.")],
    top: Annotated[int, typer.Option(help="How many samples: the most valuable ones.", min=1)] = 500,
    only: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Only samples to review, or to relabel, or to keep.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="Folder or web address before the path of an image. (default: what suits the tool)"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="New file to write. (default: in RUN, by the tool's name)")] = None,
) -> None:
    """Write the samples that matter most as tasks of an annotation tool; `selc apply` reads its answers."""
    with speaking():
        from selc.review.exchange import export as write
        from selc.runs import RunFolder
        from selc.screen import reading

        folder = RunFolder.open(run)
        _ = folder.summary  # a run that is not finished is refused before its data are read
        with reading():
            made = write(folder, to, out, top=top, only=only, prefix=prefix)
        lines = {"tasks": f"{made.tasks}: {made.samples:,} samples"}
        if made.setup is not None:
            lines["setup"] = str(made.setup)
        command = f"selc apply {quote(str(run))} --decisions EXPORT"
        say({**lines, "in the tool": made.steps}, [(command, "EXPORT is the file that the tool wrote")])
