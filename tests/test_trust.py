"""The network that a run folder names is imported only on the word of the user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.test_cli import call, refused

NET = """
from pathlib import Path
Path("sprung").touch()
from torch import nn
def Net(num_classes, shape, width=4):
    return nn.Sequential(nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, num_classes))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module, a table, and a finished run on it."""
    folder = tmp_path_factory.mktemp("trust")
    (folder / "mynet.py").write_text(NET)
    rows = "".join(f"{k % 7},{k % 5},{'ab'[k % 2]}\n" for k in range(40))
    (folder / "t.csv").write_text("u,v,label\n" + rows)
    chosen = ("--net", "import:mynet:Net", "--set", "net.width=3", "--method", "ce", "--epochs", "2", "--out", "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = call("train", "t.csv", *chosen)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder as the current one, as in a process that has not met the module yet."""
    monkeypatch.chdir(folder)
    sys.modules.pop("mynet", None)
    (folder / "sprung").unlink(missing_ok=True)
    return folder


def test_predict_asks_for_trust_and_then_works(run: Path) -> None:
    assert "got no --trust" in refused("predict", "run", "t.csv", "--out", "p.csv")
    assert not (run / "sprung").exists()
    assert not (run / "p.csv").exists()
    given = call("predict", "run", "t.csv", "--out", "p.csv", "--trust")
    assert given.exit_code == 0, given.output
    assert (run / "p.csv").exists()
    assert (run / "sprung").exists()


@pytest.mark.exhaustive
def test_resume_asks_for_trust(run: Path) -> None:
    (run / "run" / "summary.json").unlink()
    assert "got no --trust" in refused("resume", "run")
    assert not (run / "sprung").exists()
    given = call("resume", "run", "--trust")
    assert given.exit_code == 0, given.output
    assert (run / "sprung").exists()


def test_a_report_needs_no_trust_and_imports_nothing(run: Path) -> None:
    done = call("report", "run", "--samples", "0")
    assert done.exit_code == 0, done.output
    assert not (run / "sprung").exists()
