"""Commands that write carelessly, to show that the harness finds it: ``python -m tests.crashes.careless FOLDER``.

Prints a JSON object: for each of them and each kind of trouble, what was found, or nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from selc._io.files import sync, write_text
from selc.errors import RunFolderError
from tests.crashes.commands import Command
from tests.crashes.harness import exhaust
from tests.crashes.operations import KINDS

CONTENT = json.dumps(list(range(1000)))


def in_place(root: Path) -> None:
    """What is written is half there for a while."""
    (root / "a.json").write_text(CONTENT)


def not_synced(root: Path) -> None:
    """The second file relies on the first, whose name may not have reached the disk."""
    if (root / "b" / "done.json").exists():
        return
    (root / "a").mkdir(exist_ok=True)
    (root / "a" / "half").write_text(CONTENT)
    sync(root / "a" / "half")
    os.replace(root / "a" / "half", root / "a" / "a.json")
    write_text(root / "b" / "done.json", "[]")


def not_removed(root: Path) -> None:
    """Each start writes to a temporary file of its own."""
    number = len(list(root.iterdir()))
    (root / f"{number}.tmp").write_text(CONTENT)
    os.replace(root / f"{number}.tmp", root / "a.json")


def silent(root: Path) -> None:
    """A full disk is not told."""
    try:
        write_text(root / "a.json", CONTENT)
    except RunFolderError:
        raise SystemExit(0) from None


def careful(root: Path) -> None:
    try:
        write_text(root / "a.json", CONTENT)
    except RunFolderError as error:
        print(f"error: {error}")
        raise SystemExit(2) from None


COMMANDS: tuple[Callable[[Path], None], ...] = (in_place, not_synced, not_removed, silent, careful)


def main(folder: Path) -> None:
    found: dict[str, dict[str, str]] = {}
    for run in COMMANDS:
        found[run.__name__] = {}
        for kind in KINDS:
            try:
                exhaust(Command(run.__name__, run), folder / run.__name__, {kind: 1})
                found[run.__name__][kind] = ""
            except AssertionError as error:
                found[run.__name__][kind] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
