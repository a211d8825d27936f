"""The command line. Heavy libraries are imported inside the commands, so that help answers at once."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import selc
from selc.errors import ConfigError, SelcError, unknown

if TYPE_CHECKING:
    from selc.run import RunFolder

app = typer.Typer(
    help="Train on noisy labels; get a robust model and the corrected labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Kind(StrEnum):
    METHODS = "methods"
    NETS = "nets"
    NOISE = "noise"
    DATASETS = "datasets"


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and figures.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of noise, networks and order.", min=0)] = 0,
    epochs: Annotated[int, typer.Option(help="Epochs of each training.", min=3)] = 60,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier demo in the folder.")] = False,
) -> None:
    """See SELC repair a training set in which 40 % of the labels were replaced."""
    with _speaking():
        from selc.demo import show

        show(out, seed=seed, epochs=epochs, overwrite=overwrite)


@app.command()
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
    with _speaking():
        settings = _from_file(config)
        settings["data"] = data
        _choose(settings, "method", method)
        _choose(settings, "net", net)
        _choose(settings, "noise", noise)
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
            _assign(settings, assignment)

        from selc.run import Config, execute
        from selc.screen import Screen, show_config

        resolved = Config.resolve(settings)
        folder = out or _free_folder(f"{resolved.data}-{resolved.method.name}")
        show_config(resolved, folder)
        with _resumable(folder), Screen() as screen:
            run = execute(resolved, folder, screen)
        _show(run)


@app.command()
def resume(run: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted.")]) -> None:
    """Go on with a run that was interrupted; the result is the same as without the interruption."""
    with _speaking():
        from selc.run import RunFolder
        from selc.run import resume as resume_run
        from selc.screen import Screen

        if RunFolder.open(run).finished:
            print(f"{run} is finished already; nothing to do.")
        with _resumable(run), Screen() as screen:
            folder = resume_run(run, screen)
        _show(folder)


@app.command("list")
def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """Show what is known by name."""
    with _speaking():
        from rich.console import Console
        from rich.table import Table

        from selc.data import DATASETS
        from selc.methods import METHODS
        from selc.nets import NETS
        from selc.noise import NOISES
        from selc.registry import Registry

        registries: dict[Kind, Registry[Any]] = {
            Kind.METHODS: METHODS,
            Kind.NETS: NETS,
            Kind.NOISE: NOISES,
            Kind.DATASETS: DATASETS,
        }
        registry = registries[kind]
        table = Table(box=None, pad_edge=False)
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        table.add_column("options")
        for name in registry:
            options = ", ".join(f"{k}={v}" for k, v in registry.defaults(name).items())
            table.add_row(name, registry.describe(name), options)
        Console().print(table)


@contextmanager
def _speaking() -> Iterator[None]:
    """An error that was raised on purpose is one sentence and exit code 2."""
    try:
        yield
    except SelcError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """An interrupt loses at most an epoch; say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if (folder / "config.toml").exists():
            print(f"\nInterrupted; every finished epoch is saved. Go on with: selc resume {folder}", file=sys.stderr)
        raise typer.Exit(130) from None


def _from_file(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        return tomllib.loads(config.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"--config must be a readable TOML file; got {config}: {error}.") from None


def _choose(settings: dict[str, Any], section: str, name: str | None) -> None:
    """Another name drops the options that the file gave to the old one."""
    if name is not None and settings.get(section, {}).get("name") != name:
        settings[section] = {"name": name}


def _assign(settings: dict[str, Any], assignment: str) -> None:
    path, equals, text = assignment.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(f"--set must be SECTION.NAME=VALUE, such as method.alpha=0.8; got {assignment!r}.")
    if section not in ("noise", "method", "net", "train"):
        raise unknown("the section of --set", section, ("noise", "method", "net", "train"))
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    settings.setdefault(section, {})[key] = value


def _free_folder(name: str) -> Path:
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _show(run: RunFolder) -> None:
    from selc.screen import show_summary

    show_summary(run)


def main() -> None:
    """The entry point of the command."""
    app()
