"""What others build, install and check the project by says the same as the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def jobs() -> dict[str, Any]:
    return {name: job for path in WORKFLOWS for name, job in read(path)["jobs"].items()}


def commands(job: Any) -> str:
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


def lower_bounds() -> dict[str, Version]:
    """Of everything that the project or an extra asks for with a range, and of what builds it."""
    lists = [SETTINGS["build-system"]["requires"], PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found: dict[str, Version] = {}
    for requirement in (Requirement(text) for several in lists for text in several):
        for part in requirement.specifier:
            assert part.operator == ">=", f"{requirement} must be a lower bound: caps get in each other's way"
            name, version = canonicalize_name(requirement.name), Version(part.version)
            assert found.setdefault(name, version) == version, f"{name} has two lower bounds"
    return found


def test_the_lowest_versions_that_are_tested_are_those_that_are_promised() -> None:
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert {canonicalize_name(name): Version(version) for name, version in pins} == lower_bounds()


def test_the_versions_that_make_installs_are_in_the_ranges() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pinned: dict[str, Version] = {canonicalize_name(name): Version(version) for name, version in pins.items()}
    for name, lowest in lower_bounds().items():
        assert name not in pinned or pinned[name] >= lowest, name


@pytest.mark.parametrize("name", ["test", "wheel"])
def test_every_python_that_is_promised_is_tested(name: str) -> None:
    form = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    promised = [found[1] for text in PROJECT["classifiers"] if (found := form.fullmatch(text))]
    assert jobs()[name]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_the_lowest_versions_are_tested_on_the_lowest_python() -> None:
    job = jobs()["lowest"]
    (python,) = (step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {}))
    assert PROJECT["requires-python"] == f">={python}"
    assert "PINS=constraints-lowest.txt" in commands(job)


def test_workflows_run_what_the_project_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for name, job in jobs().items():
        text = commands(job)
        for target in re.findall(r"\bmake (\S+)", text):
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"{name}: no target {target}"
        for script in re.findall(r"\b(\S+\.(?:py|txt))\b", text):
            assert (ROOT / script.removeprefix("PINS=")).is_file(), f"{name}: no {script}"
    assert commands(jobs()["test"]) == "make test"
    assert commands(jobs()["test-all"]).endswith("make test-all")


def test_workflows_may_only_read() -> None:
    for path in WORKFLOWS:
        assert read(path)["permissions"] == {"contents": "read"}, path.name


def test_hooks_use_the_versions_of_the_project() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"]} == {"local"}
    check = (ROOT / "Makefile").read_text()
    for hook in hooks:
        words = hook["entry"].replace(" --force-exclude", "")
        assert f"\t{words}" in check, f"{words} is not what `make check` runs"


def test_the_readme_names_the_extras_that_a_user_may_want() -> None:
    line = re.search(r"^.*pip install '\.\[(.*?)\]'.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert line
    (everything,) = (Requirement(text) for text in PROJECT["optional-dependencies"]["all"])
    assert set(line[1].split(",")) == everything.extras
