"""`selc noise`: labels with noise in a file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

import selc
from selc.cli.common import assign, speaking
from selc.errors import ConfigError

app = typer.Typer(help="Draw noise on the labels of a dataset and save it.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Draw noise on the labels of a dataset and save it."""


@app.command()
def make(
    data: Annotated[str, typer.Argument(help="A dataset by name: see `selc list datasets`.")],
    noise: Annotated[str, typer.Option(help="See `selc list noise`.")],
    rate: Annotated[float | None, typer.Option(help="Share of the labels that the noise touches.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the noise, or any other setting: train.lr=0.1"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the noise and its network. (default: 0)")] = None,
    out: Annotated[
        Path | None, typer.Option(help="File: .npz, .npy, .csv or .json. (default: DATA-NOISE-SEED.npz)")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the file if it is there.")] = False,
    net: Annotated[str | None, typer.Option(help="Network that seal and pmd learn from the labels.")] = None,
    epochs: Annotated[int | None, typer.Option(help="How long it learns. (default: what suits the data)")] = None,
    lr: Annotated[float | None, typer.Option(help="Its learning rate. (default: what suits the data)")] = None,
) -> None:
    """Draw noise on a dataset's labels and write them with rate, matrix and hash; train on them with noise 'file'."""
    with speaking():
        settings: dict[str, Any] = {"data": {"name": data}, "noise": {"name": noise}, "method": {"name": "ce"}}
        if rate is not None:
            settings["noise"]["rate"] = rate
        if net is not None:
            settings["net"] = {"name": net}
        given = {"epochs": epochs, "lr": lr, "seed": seed}
        settings["train"] = {k: v for k, v in given.items() if v is not None}
        for assignment in set_ or []:
            plain = "." not in assignment.partition("=")[0]
            assign(settings, f"noise.{assignment}" if plain else assignment)
        _make(settings, out, overwrite)


def _make(settings: dict[str, Any], out: Path | None, overwrite: bool) -> None:
    import torch

    from selc.nets import create
    from selc.noise import draw_noise
    from selc.noise.label_file import check_ending, files_of, write_labels
    from selc.runs import Config
    from selc.runs.job import load
    from selc.runs.teacher import supply_for
    from selc.screen import Screen

    config = Config.resolve(settings)
    seed = config.train.seed
    path = out or Path(f"{Path(config.data.name).name}-{config.noise.name}-{seed}.npz")
    check_ending(path)
    for there in files_of(path):
        if there.exists() and not overwrite:
            raise ConfigError(f"--out must be a new file; got {there}, which is there already. Add --overwrite.")
    bundle = load(config)
    with Screen(label="teacher") as screen:
        supply = supply_for(
            bundle, lambda n: create(config.net.name, n, bundle.shape, config.net.options), config.train, [screen]
        )
        drawn = draw_noise(
            config.noise.name, bundle.labels, len(bundle.classes), seed, config.noise.options, supply=supply
        )
    about: dict[str, Any] = {
        "data": config.data.name,
        "data_options": config.data.options,
        "noise": config.noise.name,
        "options": config.noise.options,
        "seed": seed,
        "selc": selc.__version__,
        "torch": torch.__version__,
    }
    if screen.task is not None:  # a network was trained
        about["teacher"] = {"net": config.net.model_dump(mode="json"), "train": config.train.model_dump(mode="json")}
    write_labels(path, drawn, bundle.labels, about)
    print(f"{drawn.rate:.2%} of {len(drawn.labels):,} labels changed, sha256 {drawn.digest[:16]}..., written to {path}")
    where = quote(f"noise.path={path}")
    print(f"Train on them: selc train {config.data.name} --noise file --set {where}")
