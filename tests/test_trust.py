"""The network that a run folder names is imported only on the word of the user."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NET = """
from pathlib import Path
Path("sprung").touch()
from torch import nn
def Net(num_classes, shape, width=4):
    return nn.Sequential(nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, num_classes))
"""


def selc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "selc", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module, a table, and a finished run on it; then the mark that the module left is gone."""
    folder = tmp_path_factory.mktemp("trust")
    (folder / "mynet.py").write_text(NET)
    rows = "".join(f"{k % 7},{k % 5},{'ab'[k % 2]}\n" for k in range(40))
    (folder / "t.csv").write_text("u,v,label\n" + rows)
    chosen = ("--net", "import:mynet:Net", "--set", "net.width=3", "--method", "ce", "--epochs", "2", "--out", "run")
    done = selc(folder, "train", "t.csv", *chosen)
    assert done.returncode == 0, done.stderr
    (folder / "sprung").unlink()
    return folder


def test_predict_asks_for_trust_and_then_works(run: Path) -> None:
    asked = selc(run, "predict", "run", "t.csv", "--out", "p.csv")
    assert asked.returncode == 2
    assert "got no --trust" in asked.stderr
    assert not (run / "sprung").exists()
    assert not (run / "p.csv").exists()
    given = selc(run, "predict", "run", "t.csv", "--out", "p.csv", "--trust")
    assert given.returncode == 0, given.stderr
    assert (run / "sprung").exists()
    (run / "sprung").unlink()


@pytest.mark.exhaustive
def test_resume_asks_for_trust(run: Path) -> None:
    (run / "run" / "summary.json").unlink()
    asked = selc(run, "resume", "run")
    assert asked.returncode == 2
    assert "got no --trust" in asked.stderr
    assert not (run / "sprung").exists()
    given = selc(run, "resume", "run", "--trust")
    assert given.returncode == 0, given.stderr
    (run / "sprung").unlink()


def test_a_report_needs_no_trust_and_imports_nothing(run: Path) -> None:
    done = selc(run, "report", "run", "--samples", "0")
    assert done.returncode == 0, done.stderr
    assert not (run / "sprung").exists()
