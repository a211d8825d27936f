"""What the commands share: how they speak of errors, and how they read settings."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from selc._io.files import in_short
from selc._io.terminal import folded
from selc.cli.stopping import stoppable
from selc.errors import ConfigError, SelcError, unknown


def _renamed(value: str | None) -> str | None:
    if value is not None:
        print("warning: --data was renamed to --data-root, and goes with the next version.", file=sys.stderr)
    return value


DATA = "Your data"  # the first group of options
DataRoot = Annotated[
    str | None,
    typer.Option(
        "--data-root",
        metavar="FOLDER",
        help="Root folder of the built-in datasets. (default: $SELC_DATA)",
        rich_help_panel=DATA,
    ),
]
DataRootBefore = Annotated[str | None, typer.Option("--data", hidden=True, callback=_renamed)]  # until 0.3
SECTIONS = ("data", "encoder", "noise", "method", "net", "train")


@contextmanager
def speaking() -> Iterator[None]:
    """An error that was raised on purpose is one sentence and exit code 2."""
    try:
        yield
    except SelcError as error:
        print(folded(f"error: {error.for_command}", sys.stderr, sentences=True), file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM lose at most the epoch that is running; say how to go on."""
    how = f"Go on with: selc resume {quote(str(folder))}"
    try:
        with stoppable(f"Stopped at once; the last checkpoint is whole. {how}"):
            yield
    except KeyboardInterrupt as asked:
        if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
            saved = (folder / "config.toml").exists()
            what = f"every finished epoch is saved. {how}" if saved else "nothing was saved yet."
            print(f"\nInterrupted; {what}", file=sys.stderr)
        raise typer.Exit(getattr(asked, "code", 130)) from None


def from_file(config: Path | None) -> dict[str, Any]:
    """The settings of a configuration file, or none."""
    if config is None:
        return {}
    try:
        return tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"--config must be a readable TOML file; got {config}: {in_short(error)}.") from None


def data_of(data: str, settings: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The section of the data: a dataset by name, or what lies at a path; options that were given are on top."""
    from selc.data import DATASETS
    from selc.data.sources.recognise import choice_for, no_such_data

    given = {key: value for key, value in options.items() if value is not None}
    before = settings.get("data", {})
    if data in DATASETS:
        _check_known(given, data, f"the dataset {data!r}")
        kept = before if isinstance(before, dict) and before.get("name") == data else {}
        return {**kept, "name": data, **given}
    path = Path(data).expanduser()
    if path.exists() or len(path.parts) > 1 or path.suffix:
        given.pop("root", None)
        section = choice_for(data, **given)
        _check_known(given, section["name"], f"{data}, which is read as the form {section['name']!r}")
        return section
    raise no_such_data(data, DATASETS)


FLAGS = {"root": "--data-root", "text_model": "--weights"}  # of options that have another name in a configuration


def _check_known(given: dict[str, Any], name: str, what: str) -> None:
    """Refuse an option that data of this name do not have."""
    from selc.data import DATASETS
    from selc.registry import keyword_options

    known = keyword_options(DATASETS[name])
    for key, value in given.items():
        if key not in known:
            flag = FLAGS.get(key, "--" + key.replace("_", "-"))
            raise ConfigError(f"{flag} is not supported by {what}; got {value!r}. Leave it out.")


def data_of_file(settings: dict[str, Any], options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The data that a configuration file names, with the options that were given on top; and what they are called."""
    from selc.data.sources.recognise import existing

    given = settings.get("data")
    section = {"name": given} if isinstance(given, str) else given
    if not isinstance(section, dict) or not isinstance(section.get("name"), str):
        raise ConfigError(
            "DATA must be given: a folder, a table, an .npz file or a dataset by name; got none, and no --config whose "
            "[data] has a name. Try: selc train digits."
        )
    merged = data_of(section["name"], {**settings, "data": section}, options)
    places = {key: merged[key] for key in ("path", "test", "val") if isinstance(merged.get(key), str) and merged[key]}
    absolute = {key: str(existing(place, key)) for key, place in places.items() if "path" in places}
    return {**merged, **absolute}, str(places.get("path", section["name"]))


def choose(settings: dict[str, Any], section: str, name: str | None) -> None:
    """Another name drops the options that the file gave to the old one."""
    if name is not None and settings.get(section, {}).get("name") != name:
        settings[section] = {"name": name}


def assign(settings: dict[str, Any], assignment: str) -> None:
    """Carry out one ``--set SECTION.NAME=VALUE``."""
    path, equals, text = assignment.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(f"--set must be SECTION.NAME=VALUE, such as method.alpha=0.8; got {assignment!r}.")
    if section not in SECTIONS:
        raise unknown("the section of --set", section, SECTIONS)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    settings.setdefault(section, {})[key] = value
