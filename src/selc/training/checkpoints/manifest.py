"""Manifests: what a checkpoint consists of, the checksums of its files, and the plain values of its state.

A checkpoint counts from the moment when its manifest is put in place. ``manifest.json`` is that of the newest one,
``manifest.before.json`` that of the one before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from selc._io.files import in_short, sha256, write_text
from selc.errors import RunFolderError

FORMAT = 2
NEWEST, BEFORE = "manifest.json", "manifest.before.json"


class DamagedError(RunFolderError):
    """A manifest, or a file that it names, that is not as it was saved."""


def write_manifest(path: Path, value: Mapping[str, Any]) -> None:
    write_text(path, _text({**value, "check": _check(value)}))


def read_manifest(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """The manifest at ``path``, or None if there is none; another format or fingerprint is refused."""
    if not path.exists():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path} must be a readable JSON file; got: {in_short(error)}.") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{path} must be a manifest; got a JSON {type(value).__name__}.")
    if value.get("format") != FORMAT:
        raise RunFolderError(
            f"{path} must have format {FORMAT}; got {value.get('format')!r}. It was written by another version of "
            "selc: finish the run with that one, or start a new run with another --out."
        )
    if value.pop("check", None) != _check(value):
        raise DamagedError(f"{path} must be as it was saved; got other content.")
    files = value.get("files")
    if not isinstance(files, dict) or not all(map(_describes_a_file, files.items())):
        raise RunFolderError(f"{path} must name files beside it, with size and checksum; got something else.")
    same = value.get("same", {})  # of tables with two names, which are written under one of them
    if not isinstance(same, dict) or not all(isinstance(name, str) for name in same.values()):
        raise RunFolderError(f"{path} must name a table for each table that was not written; got something else.")
    if value.get("fingerprint") != fingerprint:
        raise RunFolderError(
            f"{path} must belong to this configuration and these labels; got another fingerprint. "
            "Undo the change to config.toml or the data, or start a new run with another --out."
        )
    return value


def broken_file(folder: Path, files: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """A sentence about the first of ``files`` that is not as it was saved; empty if all are."""
    for name, saved in files:
        path = folder / name
        try:
            size = path.stat().st_size
            if size == saved["bytes"] and sha256(path) == saved["sha256"]:
                continue
            got = f"{size} bytes" if size != saved["bytes"] else "other content"
        except OSError as error:
            got = error.strerror or str(error)
        return f"{path} must be the {saved['bytes']} bytes that were saved; got: {got}."
    return ""


def _describes_a_file(entry: tuple[str, Any]) -> bool:
    """Whether it is a file of a checkpoint: whatever a manifest names is read, and removed when it is out of date."""
    name, about = entry
    plain = name == Path(name).name and name.endswith(".safetensors")
    return plain and isinstance(about, dict) and {"bytes", "sha256"} <= about.keys()


def _no_number(name: str) -> None:
    raise ValueError(f"{name}, which we never write")


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False) + "\n"  # no indent: with one it takes ten times as long, every epoch


def _check(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()
