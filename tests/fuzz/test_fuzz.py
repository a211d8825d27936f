"""A few hundred spoilt inputs of every kind; `benchmarks/fuzz.py` runs ten thousand and more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selc.errors import InputError
from tests.fuzz import harness
from tests.fuzz.harness import fuzz
from tests.fuzz.kinds import KINDS, RAW, Kind, Seed
from tests.fuzz.structures import GRAMMARS, made_up

CASES = 28


@pytest.mark.parametrize("name", list(KINDS))
def test_a_spoilt_input_ends_in_our_error_or_in_success(name: str) -> None:
    tally = fuzz(KINDS[name], CASES, seed=1)
    assert tally.cases == CASES
    assert not tally.faults, f"{len(tally.faults)} faults, the first: {tally.faults[0]}"


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_made_up_input_ends_in_our_error_or_in_success(name: str) -> None:
    ours, success = made_up(name, 40, seed=1)
    assert ours > 0
    assert ours + success >= 20


# The harness itself: what it should notice, it does


def _kind(read: Any) -> Kind:
    return Kind("own", lambda folder: [Seed("own", {"f": b"valid"}, {"f": (RAW,)}, read)])


def _unless_valid(act: Any) -> Any:
    """The seed itself must be read; the spoilt ones meet ``act``."""
    return lambda folder: act() if (folder / "f").read_bytes() != b"valid" else None


def _other_error() -> None:
    raise KeyError("oh")


def _our_error() -> None:
    raise InputError("it must be whole; got a broken one.")


def _two_lines() -> None:
    raise InputError("it must be whole;\ngot a broken one.")


def _die() -> None:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)


def _spin() -> None:
    while True:
        pass


def _sleep() -> None:
    time.sleep(60)


def _eat() -> None:
    np.ones(30_000_000)


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (_other_error, "KeyError"),
        (_two_lines, "InputError"),
        (_die, "signal 9"),
        (_spin, "slow"),
        (_sleep, "hang"),
        (_eat, "memory"),
    ],
)
def test_every_other_end_is_a_fault_and_its_files_are_kept(
    act: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if act is _eat:
        monkeypatch.setattr(harness, "MEMORY", 200_000_000)
    else:
        monkeypatch.setattr(harness, "SECONDS", 0.3)
        monkeypatch.setattr(harness, "PATIENCE", 2.0)
    tally = fuzz(_kind(_unless_valid(act)), 1, seed=0, faults=tmp_path)
    assert [fault.what for fault in tally.faults] == [what]
    (kept,) = tmp_path.iterdir()
    assert (kept / "files" / "f").read_bytes() != b"valid"
    assert (kept / "about.json").is_file()


def test_our_error_and_success_are_counted_apart() -> None:
    assert fuzz(_kind(_unless_valid(_our_error)), 5, seed=0).ours == 5
    assert fuzz(_kind(_unless_valid(lambda: None)), 5, seed=0).success == 5


def test_a_case_is_the_same_whenever_it_is_asked_for(tmp_path: Path) -> None:
    first, again, other = (
        harness.Bench(KINDS["npz"], tmp_path / name, seed).case(17) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first[1:] == again[1:]
    assert first[2] != other[2]
