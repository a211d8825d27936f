"""Tries mutants: which test reaches which line, and which test finds a change.

One process, the house, has torch and all tests imported, and forks a child for each question: so a test costs what it
does, not what it imports. A child puts the code of the changed function in the place of the old one; what is run by the
import (constants, defaults) needs a child that imports everything anew. Each test is asked alone which lines it
reaches, with all that its fixtures do.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import IO, Any

import numpy  # noqa: F401  # what takes long to import is imported once, before anything is forked
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import sklearn.linear_model  # noqa: F401
import torch
import torch._dynamo

from mutants import PACKAGE, ROOT, Mutant, files

# The direct tests of the rooms; of the contract the part of SELC only.
ASKED = [
    *(f"tests/{room}" for room in ("turning", "analysis", "losses", "memory")),
    *(f"tests/methods/test_{name}.py" for name in ("judge", "selc_auto", "formulas")),
    *(f"tests/contract/test_{name}.py" for name in ("methods", "verified_labels")),
    "tests/test_recorder.py",
    "tests/test_findings.py",
]
OURS = ("selc", "selc+")
OPTIONS = ["-n", "0", "-q", "-p", "no:cacheprovider", "--timeout=0", "-m", "not exhaustive and not browser"]
WALL = 3600.0  # seconds after which a child that waits for something is ended: no verdict, as the machine may be busy
MEMORY = 4 << 30  # bytes that a child may take in addition


def used() -> float:
    """Seconds of processor time of this process and of all that it has started and that have ended."""
    return (
        sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) + House.used
    )


class Tests:
    """Knows which test reaches which line, and asks them."""

    def __init__(self, map_file: Path) -> None:
        os.chdir(ROOT)
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        sys.path[:0] = [str(ROOT), str(ROOT / "src")]
        torch.set_num_threads(1)
        self.house = House()
        self.finders: dict[tuple[str, str | None], set[str]] = {}
        known = json.loads(map_file.read_text()) if map_file.exists() else {"cost": {}, "lines": {}}
        there = set(self.house.tests)  # a test that is gone would be found to fail
        self.cost: dict[str, float] = {test: cost for test, cost in known["cost"].items() if test in there}
        self.reached: dict[str, dict[str, list[int]]] = {test: known["lines"][test] for test in self.cost}
        if self._map_new():
            map_file.write_text(json.dumps({"cost": self.cost, "lines": self.reached}))

    def _map_new(self) -> bool:
        """Each test that is not on the map, alone: the lines that it reaches, and what it costs."""
        new = [test for test in self.house.tests if test not in self.cost]
        for test in new:
            answer = self.house.ask({"tests": [test], "trace": True})
            if answer["failed"] is not None:
                print(f"left out, as it fails without a change: {test}", flush=True)
                continue
            self.cost[test], self.reached[test] = answer["cpu"], answer["lines"]
        order = sorted((test for test in new if test in self.cost), key=self.cost.__getitem__)
        if order:
            print(f"{len(order)} tests are new, {sum(self.cost[test] for test in order):.0f} s", flush=True)
            answer = self.house.ask({"tests": order, "costs": [self.cost[test] for test in order]})
            if answer["failed"] is not None:
                raise SystemExit(f"In this order a test fails without a change: {answer['failed']}.")
        return bool(order)

    def find(self, mutant: Mutant, seconds: float) -> tuple[str | None, int]:
        """The test that finds a change, and how many were asked at most: the cheapest, of so many seconds together."""
        first, last = mutant.lines if mutant.function is not None else mutant.span
        asked = [
            test
            for test, reached in self.reached.items()
            if any(first <= line <= last for line in reached.get(mutant.file, ()))
        ]
        # What found another change of the same function is asked first: it looks at what comes out of it.
        finders = self.finders.setdefault((mutant.file, mutant.function), set())
        asked.sort(key=lambda test: (test not in finders, self.cost[test]))
        spent = list(accumulate(self.cost[test] for test in asked))
        asked = [test for test, total in zip(asked, spent, strict=True) if total <= seconds]
        if not asked:
            return None, 0
        request = {"tests": asked, "costs": [self.cost[test] for test in asked]}
        answer = None
        if mutant.function is not None:
            answer = self.house.ask({**request, "mutant": asdict(mutant)})
        if answer is None or answer["failed"] == NOT_THERE:
            answer = anew(mutant, request)
        if answer["failed"] == WAITED:
            raise SystemExit(f"{mutant.key} waited for {WALL:.0f} seconds. Try again on a machine that is less busy.")
        failed: str | None = answer["failed"]
        finders.update(test for test in asked if test == failed)
        return failed, len(asked)


NOT_THERE = "the function is nowhere"
WAITED = "ended while it waited"


class House:
    """The process that has everything imported; it answers one line by one line."""

    used = 0.0  # processor time of its children

    def __init__(self) -> None:
        (asked, self.out), (self.answers, answer) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(self.out)
            os.close(self.answers)
            silent()
            pytest.main([*OPTIONS, *ASKED], plugins=[Server(os.fdopen(asked), os.fdopen(answer, "w"))])
            os._exit(0)
        os.close(asked)
        os.close(answer)
        self.reader, self.writer = os.fdopen(self.answers), os.fdopen(self.out, "w")
        self.tests: list[str] = json.loads(self.reader.readline())

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.writer.write(json.dumps(request) + "\n")
        self.writer.flush()
        answer: dict[str, Any] = json.loads(self.reader.readline())
        House.used += answer["cpu"]
        return answer


class Server:
    """A plugin of pytest: instead of running the tests that were collected it forks a child for each request."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self.requests, self.answers = requests, answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items if _is_asked(item)}
        room = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        self._answer(list(items))
        functions = live_functions()
        for line in self.requests:
            request = json.loads(line)

            def work(request: dict[str, Any] = request) -> dict[str, Any]:
                if "mutant" in request and not put_in(_mutant(request["mutant"]), functions):
                    return {"failed": NOT_THERE}
                return run([items[test] for test in request["tests"]], request)

            self._answer(in_child(work))
            for left in room.iterdir():
                shutil.rmtree(left, ignore_errors=True)
        return True

    def _answer(self, what: Any) -> None:
        self.answers.write(json.dumps(what) + "\n")
        self.answers.flush()


def _is_asked(item: pytest.Item) -> bool:
    if "tests/contract" not in item.nodeid:
        return True
    name = getattr(item, "callspec", None) and item.callspec.params.get("name")  # type: ignore[attr-defined]
    return name in OURS


def _mutant(fields: dict[str, Any]) -> Mutant:
    return Mutant(**{**fields, "lines": tuple(fields["lines"]), "span": tuple(fields["span"])})


def in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a piece of work says in a process of its own; a process that is ended before it speaks was found, too."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        os.setpgid(0, 0)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        try:
            answer = work()
        except BaseException as error:
            answer = {"failed": f"{type(error).__name__} outside a test"}
        with os.fdopen(writes, "w") as file:
            file.write(json.dumps(answer))
        os._exit(0)
    os.close(writes)
    ended = threading.Timer(WALL, lambda: os.killpg(child, signal.SIGKILL))
    ended.start()
    with os.fdopen(reads) as file:
        said = file.read()
    _, status, usage = os.wait4(child, 0)
    ended.cancel()
    signalled = os.WTERMSIG(status)
    ended_by = WAITED if signalled == signal.SIGKILL else f"ended by signal {signalled} (time or memory)"
    answer = json.loads(said) if said else {"failed": ended_by}
    return {**answer, "cpu": usage.ru_utime + usage.ru_stime}


def run(items: list[pytest.Item], request: dict[str, Any]) -> dict[str, Any]:
    """The first of the tests that fails, if any; each has five times its usual processor time, and ten seconds."""
    failed: list[str] = []

    class Watch:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

    reached: dict[str, set[int]] = {}
    items[0].config.pluginmanager.register(Watch())
    if request.get("trace"):
        trace(reached)
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        allowed = int(time.process_time() + 10 + 5 * (request["costs"][number] if "costs" in request else 50)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, resource.RLIM_INFINITY))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            break
    sys.settrace(None)
    found = failed[0] if failed else None
    return {"failed": found, "lines": {file: sorted(lines) for file, lines in reached.items()}}


def trace(reached: dict[str, set[int]]) -> None:
    """Notes the lines of our files that are run from now on."""
    names = {str(PACKAGE / file): file for file in files()}

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        file = names.get(frame.f_code.co_filename)
        if file is None:
            return None
        lines = reached.setdefault(file, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line

    threading.settrace(enter)
    sys.settrace(enter)


def live_functions() -> dict[tuple[str, str], list[FunctionType]]:
    """The functions of our package by file and name."""
    gc.unfreeze()
    found: dict[tuple[str, str], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(PACKAGE)):
            found.setdefault((thing.__code__.co_filename, thing.__code__.co_qualname), []).append(thing)
    gc.freeze()
    return found


def put_in(mutant: Mutant, functions: dict[tuple[str, str], list[FunctionType]]) -> bool:
    """Gives the functions of a name the changed code; False where it is nowhere."""
    there = functions.get((str(mutant.path), mutant.function or ""), [])
    changed = [code for code in _codes(mutant.code()) if code.co_qualname == mutant.function]
    if len(changed) != 1 or not there or any(one.__code__.co_freevars != changed[0].co_freevars for one in there):
        return False
    for function in there:
        function.__code__ = changed[0]
    return True


def _codes(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [*inner, *(deeper for one in inner for deeper in _codes(one))]


class Changed(SourceFileLoader):
    """Loads one module from changed code."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.path))
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return self.mutant.code()


class Finder(PathFinder):
    """Finds the changed module before the real one."""

    mutant: Mutant

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def]
        name = "selc." + cls.mutant.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if fullname != name:
            return None
        return spec_from_file_location(fullname, cls.mutant.path, loader=Changed(fullname, cls.mutant))


class Once:
    """A plugin of pytest that runs some tests in a given order and keeps what came out."""

    answer: dict[str, Any]

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.answer = {"failed": "tests cannot be collected"}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        if any(test not in items for test in self.request["tests"]):
            return True
        self.answer = run([items[test] for test in self.request["tests"]], self.request)
        return True


def anew(mutant: Mutant, request: dict[str, Any]) -> dict[str, Any]:
    """Tests are collected anew, as the change is in what an import runs."""

    def work() -> dict[str, Any]:
        silent()
        Finder.mutant = mutant
        sys.meta_path.insert(0, Finder)
        once = Once(request)
        with tempfile.TemporaryDirectory() as folder:
            asked = sorted({test.split("::")[0] for test in request["tests"]})
            pytest.main([*OPTIONS, f"--basetemp={folder}/tests", *asked], plugins=[once])
        return once.answer

    return in_child(work)


def silent() -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
