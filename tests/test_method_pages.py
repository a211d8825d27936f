"""Every method has a page with the same outline, and the index is what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from selc.methods import METHODS

DOCS = Path(__file__).parents[1] / "docs"
OUTLINE = [
    "Idea",
    "Equation",
    "Our code",
    "Our deviations",
    "Deviations of the authors' code",
    "What it needs",
    "Cost",
]


def renderer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render_methods", DOCS / "render_methods.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_page_has_the_outline_and_names_every_option(name: str) -> None:
    path = DOCS / "methods" / renderer().file_of(name)
    assert path.exists(), "run `make docs`, which writes a first page from the docstrings"
    for text in (path.read_text(), renderer().first_page(name)):
        headings = [line.removeprefix("## ").strip() for line in text.splitlines() if line.startswith("## ")]
        assert headings == OUTLINE
        for option in METHODS.defaults(name):
            assert f"`{option}`" in text, f"{option} is not explained"


def test_a_first_page_says_what_the_docstrings_say() -> None:
    text = renderer().first_page("gce")
    assert "Generalized Cross Entropy Loss" in text
    assert "```\nL = (1 - p_y^q) / q\n```" in text
    assert "soft targets t give sum_c t_c (1 - p_c^q) / q" in text
    assert "| `q` | 0.7 |" in text


def test_the_index_is_what_the_code_says() -> None:
    assert (DOCS / "methods" / "index.md").read_text() == renderer().page(), "run `make docs`"
