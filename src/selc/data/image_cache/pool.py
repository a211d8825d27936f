"""Worker processes that decode images, asked one batch at a time each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple

import numpy as np

from selc.data.image_cache import worker
from selc.data.image_cache.worker import Array, Found, Resize
from selc.errors import InputError

MOST = 16  # more processes than that wait for the disk or for whoever takes the pixels
FEW_IMAGES = 256  # images for which no process is worth its start


File = Path | str | bytes  # a path, or what the file holds


class Task(NamedTuple):
    """Images to decode, and where their pixels go: to the caller, into a file at a place, or nowhere."""

    items: Sequence[File]
    size: tuple[int, int]
    resize: Resize
    to: Literal["caller", "file", "nowhere"] = "caller"
    path: str = ""
    offset: int = 0

    def request(self, items: Sequence[str | int]) -> dict[str, Any]:
        about = {"size": self.size, "resize": self.resize, "to": self.to, "path": self.path, "offset": self.offset}
        return {**about, "items": items}


Answer = tuple[Found, Array | None]


def worker_count(asked: int, images: int) -> int:
    """How many processes to start; 0 decodes in this one."""
    if not sys.executable or (asked == 0 and images < FEW_IMAGES):
        return 0
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return asked or min(mine, MOST)


class Pool:
    """``count`` processes, each started with its first task; 0 does the work at once in this process.

    A thread waits for each process: it spends its time in pipes, which hold no lock of Python.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        self._started: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(count, "selc-decode") if count else None
        for _ in range(count):
            self._idle.put(None)
        self.close = weakref.finalize(self, _close, self._threads, self._started)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def submit(self, task: Task) -> Future[Answer]:
        """What comes of ``task``, now or later."""
        if self._threads is not None:
            return self._threads.submit(_ask, task, self._idle, self._started)
        done: Future[Answer] = Future()
        about, pixels = worker.answer(task.request([]), [_plain(item) for item in task.items])
        done.set_result((_found(about), pixels))
        return done


def _plain(item: File) -> str | bytes:
    return item if isinstance(item, bytes) else os.fspath(item)


def _found(about: dict[str, Any]) -> Found:
    bad = [(int(row), str(reason)) for row, reason in about["bad"]]
    (a, b), (c, d) = about["smallest"], about["largest"]
    return Found(bad, (a, b), (c, d), about["marks"])


def _ask(
    task: Task, idle: SimpleQueue[subprocess.Popen[bytes] | None], started: list[subprocess.Popen[bytes]]
) -> Answer:
    items = [_plain(item) for item in task.items]
    head = task.request([item if isinstance(item, str) else len(item) for item in items])
    process = idle.get()
    try:
        if process is None:
            # -P: the modules beside the program must not stand in for others of the same name.
            command = [sys.executable, "-P", worker.__file__]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(head).encode() + b"\n")
        process.stdin.writelines(item for item in items if isinstance(item, bytes))
        process.stdin.flush()
        about = json.loads(process.stdout.readline())
        if "error" in about:
            raise InputError(f"decoded images must find a place in memory and on disk; got: {about['error']}.")
        if task.to != "caller":
            return _found(about), None
        pixels: Array = np.empty((len(items), *task.size, 3), dtype=np.uint8)
        left = pixels.data.cast("B")
        while left:
            count = process.stdout.readinto(left)  # type: ignore[attr-defined]
            if not count:
                raise EOFError
            left = left[count:]
        return _found(about), pixels
    except (OSError, EOFError, json.JSONDecodeError):  # it has died
        code = None if process is None else process.wait()
        process = None
        first = "" if isinstance(items[0], bytes) else f" at {items[0]} or one of the next {len(items)} images"
        raise InputError(
            f"a process that decodes images must live on; it ended with code {code}{first}. "
            "Give it more memory, or use fewer workers."
        ) from None
    finally:
        idle.put(process)


def _close(threads: ThreadPoolExecutor | None, started: list[subprocess.Popen[bytes]]) -> None:
    """End the processes; they keep nothing that could be lost."""
    if threads is not None:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.kill()
        threads.shutdown(wait=True)
    for process in started:
        process.kill()  # one may have been started in between
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent is not wanted any more
                    pipe.close()
