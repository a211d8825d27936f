"""`selc train` under torchrun: one process speaks, an error ends all, and a lost process is made up for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from selc.runs import Config, execute

LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
EPOCHS = 6
TRAIN = ["--noise", "symmetric", "--rate", "0.3", "--epochs", str(EPOCHS), "--set", "train.threads=1"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
ENVIRONMENT["PYTHONPATH"] = str(Path(__file__).parents[2])  # for the method that kills its process


def launched(folder: Path, *command: str, restarts: int = 0) -> subprocess.CompletedProcess[str]:
    """Two processes of selc, in ``folder``."""
    line = [sys.executable, *LAUNCH, "--max-restarts", str(restarts), "-m", "selc", *command]
    return subprocess.run(line, cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, check=False)


@pytest.mark.exhaustive
def test_an_error_is_one_sentence_once_and_leaves_no_folder(tmp_path: Path) -> None:
    ended = launched(tmp_path, "train", "digits", "--method", "dmi", "--epochs", "3", "--out", "run")
    assert ended.returncode != 0  # torchrun has its own code; that of the processes is in its report
    assert ended.stderr.count("error: method 'dmi' must run in one process; got 2.") == 1
    assert "exitcode  : 2" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.timeout(3600)  # five processes one after the other, each of which takes its time to start
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:no label can change")  # in one epoch
def test_after_a_process_was_killed_the_restart_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    fuse, manifest = tmp_path / "fuse", tmp_path / "run" / "stage-0" / "manifest.json"
    own = ["--method", "import:tests.parallel.killed:KilledOnce"]
    own += ["--set", f"method.fuse={fuse}", "--set", f"method.manifest={manifest}"]
    fuse.touch()
    ended = launched(tmp_path, "train", "digits", *TRAIN, *own, "--out", "run", restarts=1)
    assert ended.returncode == 0, ended.stderr
    assert not fuse.exists()
    assert ended.stdout.count("test accuracy") == 1  # one process speaks, and only the second start gets there
    before = json.loads(fuse.with_suffix(".json").read_text())["history"]
    assert 0 < len(before) <= 2
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(entries) == EPOCHS
    assert entries[: len(before)] == before  # not trained again: even the times are those of the first start
    _same_as_uninterrupted(tmp_path, own)
    # In one epoch roundings do not grow; other noise, other rows or another order would change the second digit.
    noise, method = {"name": "symmetric", "rate": 0.3}, {"name": "selc", "start": 1}
    settings = {"data": "digits", "noise": noise, "method": method, "train": {"epochs": 1, "threads": 1}}
    alone = execute(Config.resolve(settings), tmp_path / "alone")
    assert before[0]["loss"] == pytest.approx(alone.history()[0]["loss"], rel=1e-4)


def _same_as_uninterrupted(folder: Path, own: list[str]) -> None:
    """To the bit, on any processor, by two processes that nobody kills."""
    ended = launched(folder, "train", "digits", *TRAIN, *own, "--out", "whole")
    assert ended.returncode == 0, ended.stderr
    resumed, whole = (load_file(folder / name / "targets.safetensors") for name in ("run", "whole"))
    assert resumed.keys() == whole.keys()
    for name in whole:
        assert torch.equal(resumed[name], whole[name]), name
