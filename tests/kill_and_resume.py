"""Kill a run with SIGKILL at random moments, resume it, kill it again, and in the end compare with a whole run.

A script of its own, so that the children are forked from a small process with one thread:
``python kill_and_resume.py FOLDER KILLS SEED``. Prints the number of kills that hit a running child.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import torch

from selc.files import read_json, read_tensors
from selc.run import Config, execute, resume

METHODS: dict[str, dict[str, int]] = {"selc": {}, "selc+": {"start": 2}, "plc": {"warm_up": 1}, "co-teaching": {}}


def config_of(method: str) -> Config:
    chosen = {"name": method, **METHODS[method]}
    noise = {"name": "symmetric", "rate": 0.3}
    net = {"name": "mlp", "hidden": [32]}
    return Config.resolve({"data": "moons", "noise": noise, "method": chosen, "net": net, "train": {"epochs": 6}})


def child(config: Config, out: Path) -> NoReturn:
    # os._exit: a forked child must not run the parent's clean-up.
    try:
        if (out / "config.toml").exists():
            resume(out)
        else:
            execute(config, out)  # killed before the run began
    except BaseException as error:
        print(f"child failed: {error!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def compare(whole: Path, ours: Path) -> None:
    for name in ("model.safetensors", "targets.safetensors"):
        expected, got = read_tensors(whole / name), read_tensors(ours / name)
        assert expected.keys() == got.keys()
        for key, value in expected.items():
            assert torch.equal(value, got[key]), f"{name}: {key} differs"
    records = sorted(p.relative_to(whole) for p in whole.glob("stage-*/records/*"))
    there = sorted(p.relative_to(ours) for p in ours.glob("stage-*/records/*"))
    assert records == there, set(records) ^ set(there)
    for record in records:
        assert (whole / record).read_bytes() == (ours / record).read_bytes(), record
    assert (whole / "corrected_labels.csv").read_bytes() == (ours / "corrected_labels.csv").read_bytes()
    lines = [(f / "metrics.jsonl").read_text().count("\n") for f in (whole, ours)]
    assert lines[0] == lines[1], lines
    results = [read_json(f / "summary.json") for f in (whole, ours)]
    for result in results:
        del result["seconds_this_session"], result["seconds_training"]
    assert results[0] == results[1]
    assert not list(ours.rglob("*.tmp")), "something was left behind"


def main(folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    hits = 0
    for method in METHODS:
        config = config_of(method)
        began = time.monotonic()
        execute(config, folder / method / "whole")
        duration = time.monotonic() - began
        out = folder / method / "killed"
        for _ in range(kills):
            pid = os.fork()
            if pid == 0:
                child(config, out)
            time.sleep(draw.uniform(0, duration / 2))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            hits += os.WIFSIGNALED(status)
        pid = os.fork()
        if pid == 0:
            child(config, out)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, f"{method} did not finish after the kills"
        compare(folder / method / "whole", out)
    print(hits)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
