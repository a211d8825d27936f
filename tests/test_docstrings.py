"""The examples in the docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_print_what_they_say(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0, capsys.readouterr().out


def test_public_names_are_among_them() -> None:
    assert {"selc.runs.fitting", "selc.estimator", "selc.losses.selc_loss", "selc.recorder"} <= set(MODULES)
