"""Run the tests marked `arithmetic` as other processors would compute them: `make test-arithmetic`.

Each setting makes torch or a library below it take other instructions or another order of additions, which changes the
last digits. A probe says whether a setting does so on this processor: where no digit changes, passing says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
PLAIN = {"OMP_NUM_THREADS": "1", "SELC_TEST_THREADS": "1"}
SETTINGS: dict[str, dict[str, str]] = {
    "OMP_NUM_THREADS=1": {},
    # Two workers of two threads on two cores: a thread that waits must not keep a core busy.
    "OMP_NUM_THREADS=2": {"OMP_NUM_THREADS": "2", "SELC_TEST_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
    "ATEN_CPU_CAPABILITY=default": {"ATEN_CPU_CAPABILITY": "default"},
    "ATEN_CPU_CAPABILITY=avx2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "ONEDNN_MAX_CPU_ISA=SSE41": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "ONEDNN_MAX_CPU_ISA=AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "MKL_CBWR=COMPATIBLE": {"MKL_CBWR": "COMPATIBLE"},
}
# A test may take its time: it is about digits. A file stays in one worker, so that its fixtures are made once.
TESTS = ["-m", "pytest", "-p", "tests.arithmetic", "--dist=loadfile", "--timeout=600"]
ALL, QUICK = "arithmetic", "arithmetic and not exhaustive"
Digits = dict[str, str]


class Result(NamedTuple):
    """What came of one setting."""

    passed: bool
    counted: str
    seconds: float
    changed: str


def digest(*tensors: Tensor) -> str:
    return hashlib.sha256(b"".join(t.detach().contiguous().numpy().tobytes() for t in tensors)).hexdigest()


def probe() -> Digits:
    """The bits of a few operations and of a short training, as digests."""
    torch.set_num_threads(int(os.environ["SELC_TEST_THREADS"]))
    torch.manual_seed(0)
    a, b, images = torch.randn(300, 257), torch.randn(257, 129), torch.randn(8, 3, 32, 32)
    convolution = nn.Conv2d(3, 16, 3)
    found = {
        "product": digest(a @ b),
        "sum": digest(a.sum()),
        "exp": digest(a.exp()),
        "softmax": digest(a.log_softmax(dim=1)),
        "convolution": digest(convolution(images)),
    }
    net = nn.Sequential(convolution, nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 8))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), torch.arange(8)).backward()
        optimizer.step()
    return found | {"training": digest(*net.state_dict().values())}


def environment(setting: dict[str, str]) -> dict[str, str]:
    """The plain one with this setting; settings of the caller would make two of them the same."""
    ours = {name for changes in SETTINGS.values() for name in changes}
    return {name: value for name, value in os.environ.items() if name not in ours} | PLAIN | setting


def digits(setting: dict[str, str]) -> Digits:
    """What `probe` finds in a process that was started with this setting."""
    command = [sys.executable, __file__, "--probe"]
    said = subprocess.run(command, env=environment(setting), cwd=ROOT, capture_output=True, text=True, check=True)
    found: Digits = json.loads(said.stdout)
    return found


def run(setting: dict[str, str], plain: Digits, only_changed: bool) -> Result:
    """The tests under one setting; what failed is printed."""
    changed = [name for name, digest in digits(setting).items() if digest != plain[name]]
    if only_changed and not changed:
        return Result(True, "not run", 0.0, "no digit")
    began = time.monotonic()
    command = [sys.executable, *TESTS, "-m", QUICK if only_changed else ALL]
    tests = subprocess.run(command, env=environment(setting), cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if tests.returncode:
        print(tests.stdout, tests.stderr, sep="\n")
    counted = re.findall(r"\d+ (?:passed|failed|errors?)", tests.stdout.splitlines()[-1] if tests.stdout else "")
    return Result(not tests.returncode, ", ".join(counted) or "no test ran", seconds, ", ".join(changed) or "no digit")


def main(only_changed: bool) -> int:
    """``only_changed``: settings that change no digit here are not run again, as the plain suite has said it all, and
    of the others the quick tests are run, as part of a suite that takes its time already."""
    plain, results = digits({}), []
    print(f"{'setting':<30}{'':<8}{'tests':<24}{'seconds':>7}  changes here", flush=True)
    for name, setting in SETTINGS.items():
        result = run(setting, plain, only_changed)
        verdict = "passed" if result.passed else "FAILED"
        print(f"{name:<30}{verdict:<8}{result.counted:<24}{result.seconds:>7.0f}  {result.changed}", flush=True)
        results.append(result)
    if all(result.changed == "no digit" for result in results):
        print("No setting changes a digit on this processor: what passed here says nothing about others.")
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--probe"]:
        print(json.dumps(probe()))
    else:
        sys.exit(main(only_changed="--changed" in sys.argv))
