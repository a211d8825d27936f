"""`selc demo`, `selc train` and `selc resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from selc.cli.common import assign, choose, from_file, resumable, speaking
from selc.errors import ConfigError

if TYPE_CHECKING:
    from selc.run import RunFolder


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and figures.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of noise, networks and order.", min=0)] = 0,
    epochs: Annotated[int, typer.Option(help="Epochs of each training.", min=3)] = 60,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier demo in the folder.")] = False,
) -> None:
    """See SELC repair a training set in which 40 % of the labels were replaced."""
    with speaking():
        from selc.demo import show

        show(out, seed=seed, epochs=epochs, overwrite=overwrite)


def train(
    data: Annotated[str, typer.Argument(help="A dataset by name: see `selc list datasets`.")],
    method: Annotated[str | None, typer.Option(help="See `selc list methods`. (default: selc)")] = None,
    net: Annotated[str | None, typer.Option(help="See `selc list nets`. (default: what suits the data)")] = None,
    noise: Annotated[str | None, typer.Option(help="See `selc list noise`. (default: none)")] = None,
    rate: Annotated[float | None, typer.Option(help="Share of the labels that the noise touches.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Default: what suits the data.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate. (default: what suits the data)")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Default: what suits the data.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="Any class of torch.optim. (default: SGD)")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant, step or cosine.")] = None,
    pick: Annotated[str | None, typer.Option(help="Network to keep: last or best-val. (default: last)")] = None,
    val_fraction: Annotated[float | None, typer.Option(help="Share of the training rows to hold out.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of noise, network and order. (default: 0)")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps. (default: auto)")] = None,
    config: Annotated[Path | None, typer.Option(help="Start from a configuration file (TOML).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting: method.alpha=0.8")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. (default: runs/DATA-METHOD-K)")] = None,
) -> None:
    """Train a method on a dataset; write model, corrected labels and history to a run folder."""
    with speaking():
        settings = from_file(config)
        settings["data"] = data
        choose(settings, "method", method)
        choose(settings, "net", net)
        choose(settings, "noise", noise)
        if rate is not None:
            if settings.get("noise", {}).get("name", "none") == "none":
                raise ConfigError(
                    f"--rate needs a noise to apply to; got {rate} and no --noise. Add --noise symmetric."
                )
            settings["noise"]["rate"] = rate
        given = {
            "epochs": epochs,
            "lr": lr,
            "batch_size": batch_size,
            "optimizer": optimizer,
            "schedule": schedule,
            "pick": pick,
            "val_fraction": val_fraction,
            "seed": seed,
            "device": device,
        }
        settings.setdefault("train", {}).update({k: v for k, v in given.items() if v is not None})
        for assignment in set_ or []:
            assign(settings, assignment)

        from selc.run import Config, execute
        from selc.screen import Screen, show_config

        resolved = Config.resolve(settings)
        folder = out or _free_folder(f"{resolved.data.name}-{resolved.method.name}")
        show_config(resolved, folder)
        with resumable(folder), Screen() as screen:
            run = execute(resolved, folder, screen)
        _show(run)


def resume(run: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted.")]) -> None:
    """Go on with a run that was interrupted; the result is the same as without the interruption."""
    with speaking():
        from selc.run import RunFolder
        from selc.run import resume as resume_run
        from selc.screen import Screen

        if RunFolder.open(run).finished:
            print(f"{run} is finished already; nothing to do.")
        with resumable(run), Screen() as screen:
            folder = resume_run(run, screen)
        _show(folder)


def _free_folder(name: str) -> Path:
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _show(run: RunFolder) -> None:
    from selc.screen import show_summary

    show_summary(run)
