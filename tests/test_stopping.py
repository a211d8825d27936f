"""Asked to stop, a training finishes what it is writing, says how to go on, and is gone in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selc.cli.stopping import stoppable
from selc.run import RunFolder

HEAD = """
import hashlib, sys, time
from selc.cli import stopping
stopping.GRACE = 0.5
def say(word):
    print(word, flush=True)
"""

WRITING = """
with stopping.stoppable("Go on with: selc resume RUN"):
    try:
        say("training")
        time.sleep(60)
    except stopping.AskedToStop as asked:
        say("writing")
        time.sleep(float(sys.argv[1]))
        say("written")
        sys.exit(asked.code)
"""

INSIDE_A_LONG_CALL = """
with stopping.stoppable("Go on with: selc resume RUN"):
    say("training")
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # no signal handler of Python runs during this
"""


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEAD + script, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    return process


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=30)
    return process.returncode, out, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_is_being_written_gets_finished(number: signal.Signals, code: int) -> None:
    process = started(WRITING, "0.2")
    process.send_signal(number)
    assert end(process) == (code, "writing\nwritten\n", "")


def test_a_second_ctrl_c_stops_at_once() -> None:
    process = started(WRITING, "60")
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert end(process) == (130, "writing\n", "\nGo on with: selc resume RUN\n")
    assert time.monotonic() - began < 2


def test_a_ctrl_c_that_a_launcher_passes_on_again_is_not_a_second_one() -> None:
    process = started(WRITING, "1")
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert end(process) == (130, "writing\nwritten\n", "")


@pytest.mark.parametrize("script", [WRITING, INSIDE_A_LONG_CALL])
def test_sigterm_does_not_wait_for_ever(script: str) -> None:
    process = started(script, "60")
    time.sleep(0.5)  # until it is inside
    process.send_signal(signal.SIGTERM)
    code, _, errors = end(process)
    assert (code, errors) == (143, "\nGo on with: selc resume RUN\n")


def test_signals_mean_what_they_did_when_it_is_over() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stoppable(""):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_training_that_a_cluster_ends_goes_on_from_its_last_epoch(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "selc", "train", "moons", "--method", "ce", "--epochs", "3000", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as run:
        deadline = time.monotonic() + 60
        while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGTERM)
        began = time.monotonic()
        _, errors = run.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert run.returncode == 143, errors
    assert f"Interrupted; every finished epoch is saved. Go on with: selc resume {out}" in errors
    assert "Traceback" not in errors
    # Every epoch that was told of is saved.
    saved = [entry["epoch"] for entry in RunFolder.open(out).history()]
    assert len((out / "metrics.jsonl").read_text().splitlines()) <= len(saved)
    config = out / "config.toml"
    assert "epochs = 3000" in config.read_text()
    assert saved == list(range(len(saved)))
    assert not list(out.rglob("*.tmp"))


def test_an_interrupted_training_in_python_has_saved_every_epoch(tmp_path: Path) -> None:
    import torch

    import selc
    from tests.toy import StopAfter, blobs

    class Interrupt(StopAfter):
        def end_epoch(self, entry: dict[str, object]) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    x, labels = blobs()
    options = {"method": "selc", "options": {"start": 1}, "epochs": 6, "lr": 0.05, "batch_size": 16, "device": "cpu"}
    whole = selc.fit(x, labels, out=tmp_path / "whole", **options)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        selc.fit(x, labels, out=tmp_path / "run", progress=Interrupt(3), **options)  # type: ignore[arg-type]
    assert len(RunFolder.open(tmp_path / "run").history()) == 3
    again = selc.fit(x, labels, out=tmp_path / "run", resume=True, **options)  # type: ignore[arg-type]
    assert torch.equal(again.target.full(), whole.target.full())
    assert torch.equal(again.losses, whole.losses)
