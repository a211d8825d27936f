"""The command line. Heavy libraries are imported inside the commands, so that help answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

import selc
from selc.cli.bench import bench
from selc.cli.embed import embed
from selc.cli.export import export
from selc.cli.findings import findings
from selc.cli.listing import list_
from selc.cli.noise import app as noise_app
from selc.cli.predict import predict
from selc.cli.report import figures, report
from selc.cli.review import apply, review
from selc.cli.train import EXAMPLES, demo, resume, train

app = typer.Typer(
    help="Train on noisy labels; get a robust model and the corrected labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command(epilog=EXAMPLES)(train)
app.command()(resume)
app.command()(embed)
app.command()(predict)
app.command()(report)
app.command()(figures)
app.command()(review)
app.command()(export)
app.command()(apply)
app.command()(findings)
app.command()(bench)
app.command("list")(list_)
app.add_typer(noise_app, name="noise")


def _version(asked: bool) -> None:
    if asked:
        print(f"selc {selc.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of the command."""
    app()
