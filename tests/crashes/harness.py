"""Break a command off at each of its operations, go on, and compare with the command that nothing happened to."""

from __future__ import annotations

import contextlib
import csv
import gc
import io
import json
import os
import shutil
import sys
import threading
import time
import tomllib
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from safetensors.numpy import load as load_tensors

from selc.runs.folder import environment
from tests.crashes.commands import Command, results
from tests.crashes.operations import KINDS, Kind, Operations, Trouble


class Ended(NamedTuple):
    """How a process ended."""

    code: int  # negative: by that signal
    words: str


@dataclass
class Tally:
    """How many times a command was broken off, by kind of trouble; ``operations`` is how many it has."""

    command: str
    operations: int = 0
    points: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    seconds: float = 0.0


class Harness:
    """One command in a folder of its own; the processes are forked from this one, which has everything loaded."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder, self.root = command, folder, folder / "root"
        self.aside, self.log = folder / "aside", folder / "log"

    def warm(self) -> None:
        """Run the command here once, so that the processes to come need not import and load what it needs."""
        self._begin()
        os.environ["SELC_CACHE"] = str(self.root / "cache")
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), contextlib.suppress(SystemExit):
            (self.command.alone or self.command.run)(self.root)
        environment()  # the commit, which others may change meanwhile, is looked up once
        gc.collect()
        gc.freeze()  # so that collecting garbage does not copy the memory that processes share
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(60)  # on its way out
        assert threading.active_count() == 1, f"to fork, there must be one thread; got {threading.enumerate()}"

    def whole(self) -> tuple[list[str], dict[str, Any]]:
        """The operations of the command that nothing happens to, and its results."""
        self._begin()
        self._expect(self.go(None), "the whole command")
        lines = [line.partition(" ")[0] for line in self.log.read_text().splitlines()]
        return lines, results(self.root)

    def go(self, trouble: Trouble | None) -> Ended:
        """Run the command in a process of its own."""
        ours, theirs = os.pipe()
        with open(self.folder / "words", "w+b") as words:
            pid = os.fork()
            if pid == 0:
                os.close(ours)
                self._child(trouble, words.fileno())
            os.close(theirs)
            os.read(ours, 1)  # ends when each process that came from it has
            os.close(ours)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            words.seek(0)
            return Ended(code, words.read().decode(errors="replace"))

    def _child(self, trouble: Trouble | None, words: int) -> NoReturn:
        code = 1
        try:
            os.setsid()  # a group of its own, which is killed as one
            os.dup2(words, 1)
            os.dup2(words, 2)
            os.environ["SELC_CACHE"] = str(self.root / "cache")
            operations = Operations(self.root, self.aside, self.log, trouble)
            operations.install()
            code = _exit_code(self.command, self.root)
            if code == 0 and trouble is not None and trouble.kind == "power":
                operations.lose()  # after the end, if not before
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # the clean-up of the process that it was forked from is not its own

    def _begin(self) -> None:
        for path in (self.root, self.aside):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        self.command.prepare(self.root)

    def hit(self, trouble: Trouble, expected: dict[str, Any]) -> None:
        """Break the command off once; whatever was hit, the same command again ends like the whole one."""
        about = f"{self.command.name}, {trouble.kind} at operation {trouble.at}"
        self._begin()
        end = self.go(trouble)
        if trouble.kind == "full" and end.code != 0:
            errors = [line for line in end.words.splitlines() if line.startswith("error: ")]
            told = end.code == 2 and 1 <= len(errors) <= self.command.voices and "Traceback" not in end.words
            assert told, f"{about}: it must end with one sentence and code 2; got {end.code}: {end.words}"
        elif end.code not in (0, -9):
            raise AssertionError(f"{about}: it must be killed; got {end.code}: {end.words}")
        check_whole(self.root, about)
        if end.code != 0:
            self._expect(self.go(None), f"{about}, then the same again")
        ours = results(self.root)
        if trouble.kind == "power" and end.code == 0:  # what was to be removed may be there again
            ours = {name: content for name, content in ours.items() if name in expected}
        compare(ours, expected, about)

    def _expect(self, end: Ended, about: str) -> None:
        assert end.code == 0, f"{about}: it must end well; got {end.code}: {end.words}"


def _exit_code(command: Command, root: Path) -> int:
    try:
        command.run(root)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def compare(ours: dict[str, Any], expected: dict[str, Any], about: str) -> None:
    """The same files, with the same in them."""
    assert ours.keys() == expected.keys(), f"{about}: {sorted(ours.keys() ^ expected.keys())} are not in both"
    for name, content in expected.items():
        assert ours[name] == content, f"{about}: {name} differs"


def check_whole(root: Path, about: str) -> None:
    """Fail if a file that does not call itself temporary is not whole."""
    for path in root.rglob("*"):
        if path.name.endswith(".tmp") or ".tmp/" in str(path) or not path.is_file():
            continue
        data = path.read_bytes()
        try:
            if path.suffix == ".json":
                json.loads(data)
            elif path.suffix == ".toml":
                tomllib.loads(data.decode())
            elif path.suffix == ".csv":
                assert len({len(row) for row in csv.reader(io.StringIO(data.decode()))}) == 1
            elif path.suffix == ".npz":
                with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                    assert all(arrays[name] is not None for name in arrays)
            elif path.suffix == ".safetensors":
                load_tensors(data)
            elif path.suffix == ".html":
                assert data.rstrip().endswith(b"</html>")
        except Exception as error:
            raise AssertionError(f"{about}: {path.relative_to(root)} must be whole; got: {error!r}") from error


def exhaust(
    command: Command, folder: Path, strides: dict[Kind, int], say: Any = lambda text: None, collect: bool = False
) -> Tally:
    """Every ``strides[kind]``-th operation of a command with each kind of trouble."""
    began = time.monotonic()
    harness = Harness(command, folder)
    harness.warm()
    operations, expected = harness.whole()
    tally = Tally(command.name, len(operations))
    for kind, stride in strides.items():
        able = [k for k, what in enumerate(operations) if kind != "torn" or what == "write"]
        if kind == "power":
            able.append(len(operations))  # right after the end
        for at in [*able[:-1:stride], able[-1]]:
            try:
                harness.hit(Trouble(kind, at), expected)
            except AssertionError as error:
                if not collect:
                    raise
                say(f"FAILED {error}"[:2000])
            tally.points[kind] += 1
        say(f"{command.name}: {tally.points[kind]} of {kind}, {time.monotonic() - began:.0f} s")
    tally.seconds = time.monotonic() - began
    return tally
