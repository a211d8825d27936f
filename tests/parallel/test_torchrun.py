"""`selc train` under torchrun: one process speaks, an error ends all, and a lost process is made up for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from selc.runs import Config, execute

LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TRAIN = ["--noise", "symmetric", "--rate", "0.3", "--epochs", "12", "--set", "train.threads=1"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}


def launched(folder: Path, *command: str, restarts: int = 0) -> subprocess.Popen[str]:
    """Two processes of selc, in ``folder``."""
    line = [sys.executable, *LAUNCH, "--max-restarts", str(restarts), "-m", "selc", *command]
    return subprocess.Popen(
        line, cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.exhaustive
def test_an_error_is_one_sentence_once_and_leaves_no_folder(tmp_path: Path) -> None:
    process = launched(tmp_path, "train", "digits", "--method", "dmi", "--epochs", "3", "--out", "run")
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0  # torchrun has its own code; that of the processes is in its report
    assert errors.count("error: method 'dmi' must run in one process; got 2.") == 1
    assert "exitcode  : 2" in errors
    assert not (tmp_path / "run").exists()


@pytest.mark.timeout(3600)  # five processes one after the other, each of which takes its time to start
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to find the processes")
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:no label can change")  # in one epoch
def test_after_a_process_was_killed_the_restart_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    process = launched(tmp_path, "train", "digits", *TRAIN, "--out", "run", restarts=1)
    try:
        before = _kill_one(process, tmp_path / "run" / "stage-0" / "manifest.json")
        said, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert said.count("test accuracy") == 1  # one process speaks, and only the second start gets there
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in e.items() if k != "undone"} for e in entries[: len(before)]]
    assert kept == before  # not trained again: even the times are those of the first start
    _same_as_uninterrupted(tmp_path)
    # In one epoch, the first of the first split, roundings do not grow; other noise, other rows or another order would
    # change the second digit.
    noise, method = {"name": "symmetric", "rate": 0.3}, {"name": "selc"}
    settings = {"data": "digits", "noise": noise, "method": method, "train": {"epochs": 1, "threads": 1}}
    alone = execute(Config.resolve(settings), tmp_path / "alone")
    first = alone.history()[0]
    assert first["aside"] == before[0]["aside"] == "split 1 of 5"
    assert before[0]["loss"] == pytest.approx(first["loss"], rel=1e-4)


def _same_as_uninterrupted(folder: Path) -> None:
    """To the bit, on any processor, by two processes that nobody kills."""
    process = launched(folder, "train", "digits", *TRAIN, "--out", "whole")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    resumed, whole = (load_file(folder / name / "targets.safetensors") for name in ("run", "whole"))
    assert resumed.keys() == whole.keys()
    for name in whole:
        assert torch.equal(resumed[name], whole[name]), name


def _kill_one(process: subprocess.Popen[str], manifest: Path) -> list[dict[str, object]]:
    """Kill the second process after two epochs, without a warning; the history that was saved by then."""
    began = time.monotonic()
    while time.monotonic() - began < 600:
        assert process.poll() is None, process.communicate()
        history = json.loads(manifest.read_text())["history"] if manifest.exists() else []
        if len(history) >= 2:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                if b"\0RANK=1\0" in Path(f"/proc/{child}/environ").read_bytes():
                    os.kill(int(child), signal.SIGKILL)
                    return list(history)
        time.sleep(0.01)
    raise AssertionError("no checkpoint came")
