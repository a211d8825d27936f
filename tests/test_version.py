"""The version is said in one place; whatever must repeat it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import selc

ROOT = Path(__file__).parents[1]


def first(pattern: str, file: str) -> str:
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found, f"{file} has no line {pattern}"
    return found[1]


def test_the_build_takes_the_version_from_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in settings["project"]
    assert settings["project"]["dynamic"] == ["version"]
    assert (ROOT / settings["tool"]["hatch"]["version"]["path"]).samefile(selc.__file__)


def test_the_citation_and_the_newest_entry_of_the_changelog_name_this_version() -> None:
    assert first(r"^version: (\S+)$", "CITATION.cff") == selc.__version__
    assert first(r"^## (\S+)", "CHANGELOG.md") == selc.__version__


def test_the_version_has_the_form_that_an_index_takes() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", selc.__version__)  # PEP 440, without what no index serves
