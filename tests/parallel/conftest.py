"""Results of the tasks in `work.py` for 1, 2 and 4 processes, each worked out once for all tests."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.parallel import work

TASKS = {
    1: "few,automatic,engines,tuned,embedded,own_loop,recorder",
    2: "messages,few,automatic,engines,tuned,embedded,own_loop,recorder,tables,batch_norm,refused",
    4: "messages,few,automatic,tables,batch_norm",
}
# Apart, as only tests that are marked `exhaustive` ask for them.
MORE = {**dict.fromkeys((1, 2), "single,others,blurred,sharded,own_loops"), 4: "others,blurred"}
PATIENCE = 1700  # seconds for what takes twenty on a quiet machine: this one may be busy, or have one core
Ran = Callable[[int], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the results may have to wait for them."""
    for item in items:
        if {"ran", "ran_more"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(PATIENCE + 100))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The folder with what so many processes wrote; whoever asks first starts them, others wait for that."""
    return _runs(tmp_path_factory, "processes", TASKS)


@pytest.fixture(scope="session")
def ran_more(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same for other methods, other circumstances and float32."""
    return _runs(tmp_path_factory, "more-by-processes", MORE)


def _runs(tmp_path_factory: pytest.TempPathFactory, name: str, tasks: dict[int, str]) -> Ran:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(size: int) -> Path:
        place = shared / f"{name}-{size}"
        place.mkdir(exist_ok=True)
        with (place / "done").open("a+") as done:
            fcntl.flock(done, fcntl.LOCK_EX)  # let go at the end of this block, or of this process
            done.seek(0)
            if not (said := done.read()):
                said = _run(place, tasks[size], size) or "well"
                done.write(said)
        assert said == "well", said
        return place

    return folder


def _run(folder: Path, tasks: str, size: int) -> str:
    """Run the tasks; what went wrong, or nothing."""
    if size == 1:  # this process will do, and has all imported
        threads = torch.get_num_threads()
        work.tasks(tasks, folder)
        torch.set_num_threads(threads)
        return ""
    command = [sys.executable, "-W", "error", "-m", "tests.parallel.work", tasks, str(folder), str(size)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with subprocess.Popen(command, env=environment, start_new_session=True) as started:
        try:
            code = started.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # told once: what they left would mislead those who came after them
            return f"{tasks} in {size} processes must be done after {PATIENCE} seconds"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)  # also those that it was forked into
    return "" if not code else "\n".join(log.read_text()[-2000:] for log in sorted(folder.glob("log-*"))) or str(code)
