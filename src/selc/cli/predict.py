"""`selc predict`: the network of a finished run on new data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from selc.cli.common import speaking


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        str,
        typer.Argument(
            help="New data of the same form: a table, an .npz file, a folder of images, a saved Hugging Face dataset."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="File to write, .csv or .parquet. (default: DATA-predictions.csv)")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of a table that names the samples.")] = None,
    path_column: Annotated[str | None, typer.Option(help="Column of a table with images or their paths.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on without images that cannot be read.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    trust: Annotated[bool, typer.Option("--trust", help="Allow importing the custom code that the run names.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file that is there.")] = False,
) -> None:
    """Predict the labels of new data, with the probability of each class."""
    with speaking():
        from selc.errors import ConfigError
        from selc.runs.predict import predict as predict_run
        from selc.screen import reading

        path = out or Path(f"{Path(data).stem}-predictions.csv")
        if path.is_dir() or (path.exists() and not overwrite):
            raise ConfigError(f"--out must be a new file; got {path}, which exists. Use --overwrite to replace it.")
        with reading():
            made = predict_run(
                run,
                data,
                id_column=id_column or "",
                path_column=path_column or "",
                skip_bad=skip_bad,
                device=device,
                trust=trust,
            )
        made.write(path)
        for name, reason in made.skipped[:5]:
            print(f"left out: {name} ({reason})", file=sys.stderr)
        if len(made.skipped) > 5:
            print(f"left out: {len(made.skipped) - 5} more", file=sys.stderr)
        print(f"{len(made.ids)} predictions: {path}")
