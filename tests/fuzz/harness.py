"""Spoilt files in processes of their own, each with a limit of memory and of time.

A case is known by its seed, its kind and its number, and is the same whenever it is asked for. It must end in an error
of ours or in success. Any other exception, the death of the process, more than `SECONDS` or more than `MEMORY` is a
fault.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from selc.errors import SelcError
from tests.fuzz.kinds import KINDS, Kind, Seed

SECONDS = 5.0  # of processor time for a case
PATIENCE = 300.0  # of the clock, after which a process that says nothing is ended: it may wait for what never comes
MEMORY = 1 << 30  # bytes that a case may take above what the process had before
GUARD = 3 << 30  # bytes of address space above the same, which protect the machine
BATCH = 200  # cases of one process


class Answer(NamedTuple):
    """What became of a case."""

    number: int
    outcome: str  # ours, success, or fault
    what: str  # the kind of the error, or the fault in a word
    seconds: float
    memory: int
    detail: str = ""


@dataclass
class Tally:
    """The cases of a kind."""

    kind: str
    ours: int = 0
    success: int = 0
    slowest: float = 0.0
    largest: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[Answer] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.ours + self.success + len(self.faults)

    def add(self, answer: Answer) -> None:
        self.slowest, self.largest = max(self.slowest, answer.seconds), max(self.largest, answer.memory)
        if answer.outcome == "fault":
            self.faults.append(answer)
        elif answer.outcome == "ours":
            self.ours += 1
            self.errors[answer.what] += 1
        else:
            self.success += 1


class TooSlowError(BaseException):
    """Not an `Exception`, so that no reader takes it for a broken file."""


class Bench:
    """The seeds of a kind in a folder, and cases made of them."""

    def __init__(self, kind: Kind, folder: Path, seed: int) -> None:
        self.kind, self.folder, self.seed = kind, folder, seed
        workshop = folder / "made"
        workshop.mkdir(parents=True)
        self.seeds = kind.seeds(workshop)
        shutil.rmtree(workshop)
        for valid in self.seeds:  # as they are they must be read, and what that imports need not be imported again
            _write(valid, workshop)
            valid.read(workshop)
            shutil.rmtree(workshop)

    def case(self, number: int) -> tuple[Seed, str, bytes]:
        """A seed, the name of its file that is spoilt, and what it holds then."""
        rng = Random(f"{self.seed}/{self.kind.name}/{number}")
        seed = self.seeds[number % len(self.seeds)]
        victim = rng.choice(sorted(seed.victims))
        ending = Path(victim).suffix
        others = [other.files[name] for other in self.seeds for name in other.victims if Path(name).suffix == ending]
        data = seed.files[victim]
        for _ in range(5):  # until something has changed
            data = rng.choice(seed.victims[victim])(data, rng, others)
            if data != seed.files[victim]:
                break
        return seed, victim, data

    def lay(self, number: int, place: Path, before: str = "") -> Seed:
        """Write the files of a case; ``before`` is the seed whose files are there already."""
        seed, victim, data = self.case(number)
        if seed.name != before or seed.fresh:
            shutil.rmtree(place, ignore_errors=True)
            _write(seed, place)
        (place / victim).write_bytes(data)
        if seed.after is not None:
            seed.after(place)
        return seed

    def run(self, number: int, place: Path, before: str = "") -> Answer:
        seed = self.lay(number, place, before)
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        base, began = _memory("VmRSS"), time.perf_counter()
        outcome, what, detail = "success", "", ""
        try:
            with _alarm(), _ration():
                seed.read(place)
        except SelcError as error:
            outcome, what = "ours", type(error).__name__
            if "\n" in str(error).rstrip() or not str(error):
                outcome, detail = "fault", f"more than a sentence: {error}"
        except TooSlowError:
            outcome, what, detail = "fault", "slow", traceback.format_exc()
        except MemoryError:
            outcome, what, detail = "fault", "memory", traceback.format_exc()
        except BaseException as error:
            outcome, what, detail = "fault", type(error).__name__, traceback.format_exc()
        seconds, peak = time.perf_counter() - began, _memory("VmHWM") - base
        if peak > MEMORY and outcome != "fault":
            outcome, what, detail = "fault", "memory", f"{peak} bytes"
        victim = self.case(number)[1]
        if not seed.fresh:
            (place / victim).write_bytes(seed.files[victim])
        return Answer(number, outcome, what, seconds, peak, f"{seed.name}: {victim}\n{detail}" if detail else "")


def _write(seed: Seed, place: Path) -> None:
    for name, content in seed.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)


class _alarm:  # noqa: N801  used like a function
    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, _too_slow)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)

    def __exit__(self, *error: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(*_: object) -> None:
    raise TooSlowError


@contextmanager
def _ration() -> Iterator[None]:
    """A request beyond the limit fails: what was resident at the peak hangs on what else the machine needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_memory("VmData") + int(MEMORY), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _memory(key: str) -> int:
    """Bytes, from what Linux says of the process; elsewhere the largest so far."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(
    kind: Kind,
    cases: int,
    seed: int,
    faults: Path | None = None,
    tell: Callable[[Tally], None] | None = None,
    first: int = 0,
) -> Tally:
    """Run ``cases`` cases of a kind; the files of those that fail are kept in ``faults``."""
    tally = Tally(kind.name)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(kind, Path(folder), seed)
        number, end = first, first + cases
        while number < end:
            for answer in _batch(bench, number, min(end, number + BATCH)):
                number = answer.number + 1
                tally.add(answer)
                if answer.outcome == "fault" and faults is not None:
                    _keep(bench, answer, faults)
                if tell is not None:
                    tell(tally)
    return tally


def _keep(bench: Bench, answer: Answer, faults: Path) -> None:
    place = faults / f"{bench.kind.name.replace(' ', '-')}-{answer.number:06d}"
    bench.lay(answer.number, place / "files")
    about = {"kind": bench.kind.name, "seed": bench.seed, "number": answer.number, "what": answer.what}
    (place / "about.json").write_text(json.dumps(about, indent=1))
    (place / "why.txt").write_text(answer.detail, errors="backslashreplace")


def _batch(bench: Bench, first: int, end: int) -> Iterator[Answer]:
    """The answers of one process; if it dies or hangs, the case that it was at is a fault and the last one."""
    readable, writable = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
        child = os.fork()
    if child == 0:
        os.close(readable)
        _work(bench, first, end, writable)
    os.close(writable)
    number, began, ended = first, time.monotonic(), False
    try:
        with os.fdopen(readable, "rb", buffering=0) as pipe:
            rest = b""
            while number < end:
                ready, _, _ = select.select([pipe], [], [], max(0.0, began + PATIENCE - time.monotonic()))
                got = pipe.read(65536) if ready else b""
                if not got:
                    break
                *lines, rest = (rest + got).split(b"\n")
                for line in lines:
                    answer = Answer(*json.loads(line))
                    number, began = answer.number + 1, time.monotonic()
                    yield answer
        ended = number >= end
    finally:
        with suppress(ProcessLookupError):
            if not ended:
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not ended:
        seed, victim, _ = bench.case(number)
        died = bool(ready) and os.WIFSIGNALED(status)
        what = f"signal {os.WTERMSIG(status)}" if died else "hang"
        yield Answer(number, "fault", what, time.monotonic() - began, 0, f"{seed.name}: {victim}\n{what}")


def _work(bench: Bench, first: int, end: int, pipe: int) -> None:
    """What the process does; it never returns."""
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        space = pages * resource.getpagesize() + GUARD
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        place = bench.folder / f"case-{os.getpid()}"
        before = ""
        for number in range(first, end):
            answer = bench.run(number, place, before)
            before = bench.seeds[number % len(bench.seeds)].name
            line = json.dumps(answer).encode() + b"\n"
            while line:
                line = line[os.write(pipe, line) :]
        shutil.rmtree(place, ignore_errors=True)
    except BaseException:
        if os.environ.get("SELC_FUZZ_DEBUG"):
            (Path(tempfile.gettempdir()) / "fuzz-harness-error.txt").write_text(traceback.format_exc())
        os._exit(3)
    finally:
        os._exit(0)


def replay(folder: Path) -> None:
    """Run a case that was kept once more, in this process, and let its error be seen."""
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(KINDS[about["kind"]], Path(scratch), about["seed"])
        seed = bench.lay(about["number"], Path(scratch) / "case")
        try:
            print("success:", str(seed.read(Path(scratch) / "case"))[:200])
        except SelcError as error:
            print(f"ours: {type(error).__name__}: {error}", file=sys.stderr)
