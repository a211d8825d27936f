"""Whatever file operation a command is broken off at, the same command again ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crashes.commands import NAMES, commands, strides_of

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> str:
    """In a process of its own: children can be forked from one with one thread only."""
    command = [sys.executable, "-m", *map(str, arguments)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # its warnings of lost connections
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def broken_off(name: str, folder: Path, strides: dict[str, int]) -> dict[str, Any]:
    options = [word for kind, stride in strides.items() for word in (f"--{kind}", stride)]
    tally: dict[str, Any] = json.loads(run("tests.crashes", folder / "work", "--only", name, *options))
    for kind, stride in strides.items():
        assert tally["points"][kind] >= (1 if kind == "torn" else tally["operations"] // stride)
    return tally


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_broken_off_at_every_operation_and_ends_with_the_same_bits(tmp_path: Path, name: str) -> None:
    tally = broken_off(name, tmp_path, strides_of(name))
    assert tally["operations"] > (100 if name.startswith("train") else 5)


def test_every_command_is_tried(tmp_path: Path) -> None:
    assert [command.name for command in commands(tmp_path)] == list(NAMES)


@pytest.mark.exhaustive
def test_careless_writing_is_found_and_careful_writing_is_not(tmp_path: Path) -> None:
    found = json.loads(run("tests.crashes.careless", tmp_path))
    assert "a.json must be whole" in found["in_place"]["torn"]
    assert "a.json must be whole" in found["in_place"]["kill"]  # it is there and empty
    assert "are not in both" in found["not_synced"]["power"]
    assert found["not_synced"]["kill"] == ""
    assert "are not in both" in found["not_removed"]["kill"]
    assert "are not in both" in found["silent"]["full"]
    assert found["silent"]["kill"] == ""
    assert set(found["careful"].values()) == {""}
