"""A few spoilt inputs of every kind, then some hundreds; `benchmarks/fuzz.py` runs ten thousand and more."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from selc.errors import InputError, SelcError
from tests.fuzz import harness
from tests.fuzz.harness import fuzz
from tests.fuzz.kinds import KINDS, Kind, Seed
from tests.fuzz.structures import GRAMMARS, made_up

FEW, MANY = 12, 120


def check(name: str, cases: int, seed: int) -> None:
    tally = fuzz(KINDS[name], cases, seed)
    assert tally.cases == cases
    assert not tally.faults, f"{len(tally.faults)} faults, the first: {tally.faults[0]}"


@pytest.mark.parametrize("name", KINDS)
def test_a_spoilt_input_ends_in_our_error_or_in_success(name: str) -> None:
    check(name, FEW, seed=1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", KINDS)
def test_hundreds_of_spoilt_inputs_end_in_our_error_or_in_success(name: str) -> None:
    check(name, MANY, seed=2)


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_made_up_input_ends_in_our_error_or_in_success(name: str) -> None:
    ours, success = made_up(name, FEW, seed=1)
    assert ours > 0
    assert ours + success >= FEW / 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", GRAMMARS)
def test_hundreds_of_made_up_inputs_end_in_our_error_or_in_success(name: str) -> None:
    ours, success = made_up(name, MANY, seed=2)
    assert ours > 0
    assert ours + success >= MANY / 2


# What a reader of ours must not do is noticed if it does it


def other_error() -> None:
    raise KeyError("oh")


def two_lines() -> None:
    raise InputError("it must be whole;\ngot a broken one.")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def spin() -> None:
    while True:
        pass


def wait() -> None:
    threading.Event().wait()


def eat() -> None:
    np.ones(80_000_000)  # 640 MB: more than a system takes back of the process meanwhile, which does not count


def worse(kind: Kind, act: Callable[[], None]) -> Kind:
    """The same files for readers that act where ours raise an error of ours."""

    def read(seed: Seed, folder: Path) -> None:
        try:
            seed.read(folder)
        except SelcError:
            act()

    return replace(kind, seeds=lambda folder: [replace(seed, read=partial(read, seed)) for seed in kind.seeds(folder)])


@pytest.mark.parametrize(
    ("act", "limits", "what"),
    [
        (other_error, {}, "KeyError"),
        (two_lines, {}, "InputError"),
        (die, {}, "signal 9"),
        (spin, {"SECONDS": 0.1}, "slow"),
        (wait, {"PATIENCE": 0.5}, "hang"),
        (eat, {"MEMORY": 40_000_000, "SECONDS": 600, "PATIENCE": 600}, "memory"),  # new pages can cost seconds
    ],
)
@pytest.mark.exhaustive
def test_a_reader_that_does_worse_than_our_error_is_found_and_its_file_is_kept(
    act: Callable[[], None], limits: dict[str, float], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS["pickles"]
    number = next(number for number in range(50) if fuzz(kind, 1, seed=0, first=number).ours)
    for name, limit in limits.items():
        monkeypatch.setattr(harness, name, limit)
    tally = fuzz(worse(kind, act), 1, seed=0, first=number, faults=tmp_path / "faults")
    assert [fault.what for fault in tally.faults] == [what], tally
    (kept,) = (tmp_path / "faults").iterdir()
    _, victim, spoilt = harness.Bench(kind, tmp_path / "bench", seed=0).case(number)
    assert (kept / "files" / victim).read_bytes() == spoilt


def test_a_case_is_the_same_whenever_it_is_asked_for(tmp_path: Path) -> None:
    first, again, other = (
        harness.Bench(KINDS["npz"], tmp_path / name, seed).case(17) for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert first[1:] == again[1:]
    assert first[2] != other[2]
