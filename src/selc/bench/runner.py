"""Fill the cells that have no result yet: a process for each, several at a time, to be stopped and resumed at will."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from selc.bench.cell import Task, work
from selc.bench.estimate import Estimate, estimates, work_of
from selc.bench.results import Line, append_line, read_lines, sole_writer
from selc.bench.table import Cell
from selc.errors import ConfigError
from selc.runs import RunFolder

HOUR = 3600
PATIENCE = 7 * 24 * HOUR  # what takes longer on cores is not meant for them
RUNS = Path("runs/bench")  # where cells are trained
UNFINISHED = "unfinished"  # in there, those that are not kept
# What every training imports sooner or later: seconds, where a small one takes two. What is not there is left out.
PRELOADED = ["selc.bench.cell", "torch._dynamo", "sklearn.datasets", "pyarrow.parquet"]


@dataclass(frozen=True)
class Machine:
    """What the runner may use: ``workers`` processes with one thread each, or one process for each of the ``gpus``."""

    workers: int = 1
    gpus: tuple[int, ...] = ()
    data: str = ""  # where datasets by name lie; empty: as the variable SELC_DATA says

    @property
    def threads(self) -> int:
        """Of each process: beside a GPU, its part of the cores."""
        return max(1, (os.cpu_count() or 1) // len(self.gpus)) if self.gpus else 1

    def slots(self) -> list[dict[str, str]]:
        """The variables that are set for the process in each slot."""
        data = {"SELC_DATA": self.data} if self.data else {}
        if self.gpus:
            return [{**data, "CUDA_VISIBLE_DEVICES": str(gpu)} for gpu in self.gpus]
        return [{**data, "CUDA_VISIBLE_DEVICES": ""} for _ in range(self.workers)]


@dataclass(frozen=True)
class Places:
    """Where results and run folders lie."""

    results: Path
    runs: Path = RUNS
    keep: bool = False  # the folders of finished cells, as figures need them

    def folder(self, key: str) -> Path:
        """Where a cell is trained; what is not kept is apart from what is."""
        return self.runs / key if self.keep else self.runs / UNFINISHED / key

    def remove(self, key: str) -> None:
        """The folder of a cell, and those around it if they are empty now."""
        shutil.rmtree(self.folder(key), ignore_errors=True)
        for around in (self.folder(key).parent, self.runs):
            with suppress(OSError):
                around.rmdir()


@dataclass
class Outlook:
    """What is to be done: the cells to train (one for each key), and what is known before."""

    todo: list[Cell]
    done: int
    skipped: list[Cell]
    expected: dict[str, Estimate]

    def seconds(self) -> float:
        """Of all processes together."""
        return sum(self.expected[cell.key()].seconds for cell in self.todo)


@dataclass
class Report:
    """What became of it."""

    finished: int = 0
    failed: list[tuple[Cell, str]] = field(default_factory=list)


def look(cells: Iterable[Cell], places: Places, *, again: bool = False, device: str = "cpu") -> Outlook:
    """Sort cells into those to train, those that are there and those that cannot run here.

    The first seeds come first, so that a table that is broken off has all its rows.
    """
    lines = read_lines(places.results)
    todo: dict[str, Cell] = {}
    there: set[str] = set()
    skipped = []
    for cell in sorted(cells, key=lambda cell: cell.seed):  # stable: the order of the table is kept within a seed
        if cell.skip:
            skipped.append(cell)
            continue
        key = cell.key()
        if not again and key in lines and (not places.keep or RunFolder(places.folder(key)).finished):
            there.add(key)
        else:
            todo.setdefault(key, cell)
    return Outlook(list(todo.values()), len(there), skipped, estimates(todo.values(), lines.values(), device))


def run(
    outlook: Outlook,
    machine: Machine,
    places: Places,
    *,
    again: bool = False,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True),
) -> Report:
    """Train what is to be done. A cell that fails is reported, and the others go on."""
    slots = machine.slots()
    if not slots:
        raise ConfigError("--workers must be at least 1; got 0.")
    report = Report()
    clock = _Clock(outlook)
    waiting: Iterator[Cell] = iter(outlook.todo)
    running: dict[BaseProcess, _Running] = {}
    context = _context()
    with sole_writer(places.results):
        for key in [cell.key() for cell in outlook.todo] if again else left_over(places):
            places.remove(key)
        try:
            while True:
                while slots and (cell := next(waiting, None)) is not None:
                    started = _start(context, cell, slots.pop(), machine.threads, places)
                    running[started.process] = started
                if not running:
                    return report
                wait([one.answer for one in running.values()])
                for one in [one for one in running.values() if one.answer.poll()]:
                    del running[one.process]
                    slots.append(one.slot)
                    _finish(one, places, report, clock, say)
        finally:  # an interrupt, or an error of ours
            for process in running:
                process.terminate()
            for process in running:
                process.join(10)


def left_over(places: Places) -> list[str]:
    """The cells of which a kill left a folder, or an empty one around it, after their line was written."""
    if places.keep:
        return []
    empty = any(around.is_dir() and not any(around.iterdir()) for around in (places.runs / UNFINISHED, places.runs))
    return [key for key in read_lines(places.results) if empty or places.folder(key).exists()]


@dataclass(frozen=True)
class _Running:
    cell: Cell
    process: BaseProcess
    answer: Connection
    slot: dict[str, str]


def _context() -> Any:
    """Processes come from a small one that has loaded the libraries already, where the system can do that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _start(context: Any, cell: Cell, slot: dict[str, str], threads: int, places: Places) -> _Running:
    config = cell.config()
    task = Task(config.model_dump(mode="json"), str(places.folder(cell.key())), threads, slot)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(task, there))  # no daemon: it may read images by processes of its own
    process.start()
    there.close()  # so that its end is noticed when the process dies
    return _Running(cell, process, here, slot)


def _finish(one: _Running, places: Places, report: Report, clock: _Clock, say: Callable[[str], None]) -> None:
    cell = one.cell
    try:
        kind, content = one.answer.recv()
    except EOFError:
        kind, content = "failed", ""
    one.answer.close()
    one.process.join()
    if kind == "failed":
        text = content or f"the process ended with code {one.process.exitcode} (memory?); run it again to go on"
        report.failed.append((cell, text))
        say(f"{clock.tick(cell)} {described(cell)}: failed: {text}")
        return
    line = about(cell) | content
    append_line(places.results, line)
    if not places.keep:
        places.remove(cell.key())
    report.finished += 1
    accuracy = value_of(cell, line)
    shown = "no test set" if accuracy is None else f"{accuracy:.2%}"
    say(f"{clock.tick(cell)} {described(cell)}: {shown} in {line['seconds']:.0f} s")


def about(cell: Cell) -> Line:
    """What a line says of its cell."""
    config = cell.config()
    return {
        "table": cell.table,
        "scale": cell.scale,
        "row": cell.row,
        "column": cell.column,
        "seed": cell.seed,
        "key": cell.key(),
        "method": config.method.name,
        "work": work_of(config),
    }


def value_of(cell: Cell, line: Line) -> float | None:
    """The number of the table: accuracy at the epoch that the protocol picks, a share."""
    sets: dict[str, dict[str, float]] = line["accuracy"]
    chosen = sets.get(cell.test) or next(iter(sets.values()), None)
    return None if chosen is None else chosen.get(cell.measure)


def described(cell: Cell) -> str:
    return f"{cell.table} {cell.row}, {cell.column}, seed {cell.seed}"


class _Clock:
    """How many are done, how fast, and how long the rest will take: by what was expected and what came of it."""

    def __init__(self, outlook: Outlook) -> None:
        self.expected = outlook.expected
        self.total, self.number = len(outlook.todo), 0
        self.left, self.passed = outlook.seconds(), 0.0
        self.began = time.monotonic()

    def tick(self, cell: Cell) -> str:
        seconds = max(self.expected[cell.key()].seconds, 1e-3)
        self.number, self.passed, self.left = self.number + 1, self.passed + seconds, self.left - seconds
        elapsed = time.monotonic() - self.began
        rest = elapsed * max(self.left, 0.0) / self.passed
        rate = 60 * self.number / max(elapsed, 1e-3)
        return f"[{self.number}/{self.total}, {rate:.1f} a minute, about {duration(rest)} left]"


def duration(seconds: float) -> str:
    """In the unit that people would use."""
    units = (
        (90.0, 1, "s", 0),
        (5400.0, 60, "min", 0),
        (48 * HOUR, HOUR, "h", 1),
        (720 * 24 * HOUR, 24 * HOUR, "days", 0),
    )
    for limit, unit, name, digits in units:
        if seconds < limit:
            return f"{seconds / unit:.{digits}f} {name}"
    return f"{seconds / (365 * 24 * HOUR):.0f} years"


def plan_text(outlook: Outlook, machine: Machine) -> list[str]:
    """What `--dry-run` prints."""
    slots = max(len(machine.slots()), 1)
    seconds = outlook.seconds()
    reasons = [f"not here: {reason}" for reason in dict.fromkeys(cell.skip for cell in outlook.skipped)]
    known = sum(outlook.expected[cell.key()].measured for cell in outlook.todo)
    unknown = sum(outlook.expected[cell.key()].seconds == 0 for cell in outlook.todo)  # nothing takes no time
    memory = sorted((outlook.expected[cell.key()].megabytes for cell in outlook.todo), reverse=True)[:slots]
    unit = "GPU" if machine.gpus else "core"
    total = outlook.done + len(outlook.todo)
    lines = [
        f"{total} {'training' if total == 1 else 'trainings'}, {outlook.done} done, {len(outlook.todo)} to go"
        + (f"; {len(outlook.skipped)} cells cannot run here" if outlook.skipped else "")
    ]
    if not outlook.todo:
        return lines + reasons
    counted = len(outlook.todo) - known - unknown
    how = f"{known:,} as others of the kind took, {counted:,} estimated" if known else "estimated, none timed yet"
    lines += [
        f"about {duration(seconds)} of one {unit}, {duration(seconds / slots)} with {slots} at a time ({how})",
        f"memory: about {max(memory, default=0) / 1024:.1f} GB for the largest, {sum(memory) / 1024:.1f} GB together",
    ]
    if unknown:
        lines.append(f"{unknown} more of a kind that is not known before one of it is done; run a column once to know")
    if seconds / slots > PATIENCE and not machine.gpus:
        lines.append("too much for cores: name GPUs, such as --gpus 0, choose a part, or take --scale cpu")
    return lines + reasons


def chosen(
    cells: Sequence[Cell],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell]:
    """The cells that were asked for. A row may be named as it is printed or by its method, a column by a part."""
    result = list(cells)
    if rows:
        result = [cell for name in rows for cell in _some(result, name, "--methods", "rows", _is_row)]
    if columns:
        result = [cell for name in columns for cell in _some(result, name, "--columns", "columns", _is_column)]
    if seeds is not None:
        known = sorted({cell.seed for cell in result})
        if result and not set(seeds) & set(known):
            raise ConfigError(f"--seeds must name seeds of the table ({_listed(known)}); got {_listed(seeds)}.")
        result = [cell for cell in result if cell.seed in seeds]
    asked = {id(cell) for cell in result}
    return [cell for cell in cells if id(cell) in asked]


def _some(
    cells: Sequence[Cell], name: str, option: str, what: str, fits: Callable[[Cell, str], bool]
) -> Iterable[Cell]:
    found = [cell for cell in cells if fits(cell, name.lower().strip())]
    if not found:
        known = dict.fromkeys(cell.row if what == "rows" else cell.column for cell in cells)
        near = {one.lower(): one for one in known}
        close = get_close_matches(name.lower().strip(), near, 1)
        hint = f" Did you mean {near[close[0]]!r}?" if close else ""
        raise ConfigError(f"{option} must name {what} of the table ({', '.join(known)}); got {name!r}.{hint}")
    return found


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _is_row(cell: Cell, name: str) -> bool:
    return name in (cell.row.lower(), cell.settings.get("method", {}).get("name"))


def _is_column(cell: Cell, name: str) -> bool:
    return name in cell.column.lower()
