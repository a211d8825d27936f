"""The check under other instruction sets runs what it says, and its settings reach the processes it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arithmetic import NUMERICAL, is_numerical
from tests.run_arithmetic import PLAIN, SETTINGS, digits, environment

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("beginning", NUMERICAL)
def test_every_beginning_is_that_of_a_test(beginning: str) -> None:
    place, _, name = beginning.partition("::")
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if str(path.relative_to(ROOT)).startswith(place)]
    assert files
    assert all(f"def {name or 'test_'}" in path.read_text() for path in files)


def test_two_processes_are_compared_and_four_are_not() -> None:
    one = "tests/parallel/test_same_results.py::test_messages_arrive_as_they_were_sent"
    assert [is_numerical(f"{one}[{size}]") for size in (2, 4)] == [True, False]
    assert [is_numerical(f"{one}[splits-{size}]") for size in (1, 2, 4)] == [True, True, False]
    assert is_numerical("tests/methods/test_aum.py::test_it[4]")
    assert not is_numerical("tests/test_docs.py::test_it[2]")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_stands_alone_whatever_the_caller_has_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for changes in SETTINGS.values():
        for variable in changes:
            monkeypatch.setenv(variable, "of the caller")
    made = environment(SETTINGS[name])
    ours = {variable for changes in SETTINGS.values() for variable in changes}
    assert {variable: made[variable] for variable in ours if variable in made} == PLAIN | SETTINGS[name]


@pytest.mark.exhaustive
def test_the_probe_finds_the_same_digits_twice() -> None:
    assert digits({}) == digits({})
