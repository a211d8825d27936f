"""A program in several processes that work together, as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

from selc._io.files import read_tensors

PATIENCE = 1200  # seconds; a test that hangs is ended by pytest before


def run_together(size: int, *command: str) -> list[str]:
    """What each of ``size`` processes of this Python says; one process is not told that there could be others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}
    launched = {"LOCAL_WORLD_SIZE": str(size), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test"}
    started: list[subprocess.Popen[str]] = []
    try:
        for rank in range(size):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), **meeting, **launched}
            who = {**os.environ, **(place if size > 1 else {}), "OMP_NUM_THREADS": "1"}
            pipe = subprocess.PIPE
            started.append(subprocess.Popen([sys.executable, *command], env=who, stdout=pipe, stderr=pipe, text=True))
        said = []
        for process in started:
            out, error = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, error[-2000:]
            said.append(out)
        return said
    finally:
        for process in started:
            process.kill()  # where one failed, the others would wait for it


def assert_two_end_as_one(program: str, folder: Path) -> None:
    """What a program leaves of targets, updates and losses is the same in two processes as in one."""
    for size in (1, 2):
        run_together(size, "-m", program, str(folder), str(size))
    alone = read_tensors(folder / "1-0.safetensors")
    assert bool((alone["targets"].amax(dim=1) < 1).all())
    for rank in range(2):
        together = read_tensors(folder / f"2-{rank}.safetensors")
        assert torch.equal(together["updates"], alone["updates"])
        torch.testing.assert_close(together["targets"], alone["targets"], atol=1e-6, rtol=0)
        torch.testing.assert_close(together["losses"], alone["losses"], atol=1e-5, rtol=0)
