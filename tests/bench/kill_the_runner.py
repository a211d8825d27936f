"""A runner that is killed in the middle of a cell, at the same place every time; apart, so that it imports no test."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from unittest.mock import patch

from selc.bench import cell, runner
from selc.bench.runner import Machine, Places, look
from selc.callbacks import EpochRecord
from tests.bench.miniature import cells

LAST_SEED = 1  # its cells come last: when the first of them starts, three have their lines already


def fill_the_miniature(places: Places, epochs: int, alive: Connection) -> None:
    """The other end of ``alive`` is at its end when the runner and all processes below it are gone."""
    os.dup2(alive.fileno(), 1)  # what a process hands down to those that it starts
    alive.close()
    fork = get_context("fork")  # from a process that has the libraries, to save the test their import
    with patch.object(runner, "work", until_killed), patch.object(runner, "_context", lambda: fork):
        runner.run(look(cells(epochs), places), Machine(workers=2), places, say=lambda text: None)


def until_killed(task: cell.Task, answer: Connection) -> None:
    """What the process of a cell does."""
    watching = KillTheRunner if task.config["train"]["seed"] == LAST_SEED else cell.Quiet
    with patch.object(cell, "Quiet", watching):
        cell.work(task, answer)


class KillTheRunner(cell.Quiet):
    """After three epochs the runner is killed, and its cell is left to notice that.

    The third is on its way to the disk then; it set out when the second had arrived.
    """

    def on_epoch_saved(self, record: EpochRecord) -> None:
        if record.done == 3:
            runner_process = parent_process()
            assert runner_process is not None
            assert runner_process.pid is not None
            with suppress(ProcessLookupError):  # the other cell was first
                os.kill(runner_process.pid, signal.SIGKILL)
            threading.Event().wait()
