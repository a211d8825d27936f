"""The file of results: a line of JSON for each training, found again by the hash of its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selc._io.files import make_folder, write_text, writing
from selc.errors import ConfigError

Line = dict[str, Any]
DEFAULT = Path("benchmarks/results/bench.jsonl")


def read_lines(path: Path) -> dict[str, Line]:
    """The results by the hash of their configuration; of several the last. A line that was cut off does not count."""
    lines: dict[str, Line] = {}
    try:
        texts = path.read_text().splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--results must be a readable file of JSON lines; got {path}: {error}.") from None
    for text in texts:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("key"), str):
            lines[line["key"]] = line
    return lines


def append_line(path: Path, line: Line) -> None:
    """Add a line: the file is written anew, so that no kill leaves half of one."""
    before = path.read_text() if path.exists() else ""
    if before and not before.endswith("\n"):
        before += "\n"
    write_text(path, before + json.dumps(line, allow_nan=False) + "\n")


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Refuse a second runner on the same file: it would train the same cells. A killed one leaves no lock behind."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    with writing(path):
        make_folder(path.parent)
        file = open(lock, "w")  # noqa: SIM115 (errors while it is held are not about this file)
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"--results must be written by one runner at a time; got {path}, which another one fills now. "
                "Wait for it, or give another file."
            ) from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
