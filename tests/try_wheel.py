"""Build the sdist and the wheel, install the wheel where nothing else is, and do what a newcomer does first.

Core only: `selc train moons`, its report and review, and a command whose extra is missing says so in a sentence. With
`[sklearn,report]`: the demo and figures. Nothing of the tree is on the path; the environments are temporary (about
1.5 GB while it runs).

    PIP_CONSTRAINT=$PWD/constraints.txt python tests/try_wheel.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Without these the tests of an sdist could not be run by whoever packs it for a distribution.
IN_SDIST = (
    "src/selc/__init__.py",
    "tests/conftest.py",
    "pyproject.toml",
    "Makefile",
    "constraints-lowest.txt",
    "benchmarks/results/bench.jsonl",
    "LICENSE",
)


class Place:
    """An environment of its own in a folder outside the tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "env", with_pip=True)

    def run(self, *command: str, code: int = 0) -> str:
        """What the command prints; it must end with ``code``, and may not see the tree by PYTHONPATH or the folder."""
        print("$", *command, flush=True)
        program, *arguments = command
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        done = subprocess.run(
            [str(self.folder / "env" / "bin" / program), *arguments],
            cwd=self.folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != code:
            raise SystemExit(f"{program} must end with {code}; got {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install(self, *what: str) -> None:
        self.run("python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *what)


def build(folder: Path) -> Path:
    """The wheel, made from the sdist as an index would have it."""
    place = Place(folder)
    place.install("build")
    place.run("python", "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
    (sdist,), (wheel,) = (list((folder / "dist").glob(form)) for form in ("*.tar.gz", "*.whl"))
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    must(not (lost := set(IN_SDIST) - names), f"the sdist must hold {', '.join(sorted(lost))}")
    return wheel


def core_only(place: Place, wheel: Path) -> None:
    place.install(str(wheel))
    must(place.run("selc", "--version").split()[1] == wheel.name.split("-")[1], "the wheel is named after its version")
    must("selc+" in place.run("selc", "list", "methods"), "`selc list methods` names selc+")
    place.run("selc", "train", "moons", "--epochs", "5", "--out", "run")
    must((place.folder / "run" / "corrected_labels.csv").exists(), "a run leaves corrected_labels.csv")
    for page in ("report", "review"):
        place.run("selc", page, "run")
        must((place.folder / "run" / f"{page}.html").exists(), f"`selc {page}` leaves {page}.html without any extra")
    for command, extra in ((("figures", "run"), "report"), (("train", "digits", "--epochs", "1"), "sklearn")):
        said = place.run("selc", *command, code=2)
        must(f"pip install 'selc[{extra}]'" in said, f"`selc {command[0]}` names the extra {extra}; got: {said}")
        must("Traceback" not in said, f"`selc {command[0]}` without its extra is a sentence, no traceback")


def with_extras(place: Place, wheel: Path) -> None:
    place.install(f"{wheel}[sklearn,report]")
    print(place.run("selc", "demo", "--out", "demo"))
    place.run("selc", "figures", "run", "--format", "png")
    must((place.folder / "run" / "figures" / "losses.png").exists(), "`selc figures` leaves losses.png")


def must(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"not as it must be: {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheel", type=Path, help="try this wheel; without it, one is built from the tree")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="selc-wheel-") as folder:
        wheel = arguments.wheel.resolve() if arguments.wheel else build(Path(folder) / "build")
        place = Place(Path(folder) / "user")
        core_only(place, wheel)
        with_extras(place, wheel)
    print(f"{wheel.name} works on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
