"""A method outside of the package: named by where it is imported from, imported only on the word of the user."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import selc
from selc.errors import ConfigError
from selc.methods import METHODS, create
from selc.runs import Config, RunFolder
from selc.types import Batch
from tests.test_cli import call, refused
from tests.toy import blobs

METHOD = '''
from pathlib import Path
Path("sprung").touch()
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods import Method

class Part(Method):
    """A part of the loss of cross entropy."""

    def __init__(self, *, share: float = 0.5):
        super().__init__()
        self.share = share

    def loss(self, outputs, batch):
        return self.share * soft_cross_entropy(outputs, batch.target)

class Positional(Method):
    def __init__(self, share=0.5):
        super().__init__()

class Unplanned(Method):
    def setup(self, data): pass

class Counted(Method):
    def check(self, data, epochs, batch_size): pass

def function(): pass
number = 3
'''
NET = """
from pathlib import Path
Path("sprung").touch()
from torch import nn
def Net(num_classes, shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
"""
QUICK = ("--epochs", "2", "--set", "net.hidden=[8]")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module of a user in it."""
    (tmp_path / "mymethods.py").write_text(METHOD)
    (tmp_path / "mynet.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    for name in ("mymethods", "mynet"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def trained(*more: str) -> RunFolder:
    result = call("train", "moons", "--method", "import:mymethods:Part", *QUICK, *more)
    assert result.exit_code == 0, result.output
    return RunFolder.open("runs/moons-Part-1")


def forget(here: Path) -> None:
    """As in a process that has not met the module yet."""
    (here / "sprung").unlink()
    sys.modules.pop("mymethods", None)
    sys.modules.pop("mynet", None)


def test_a_method_of_ones_own_is_trained_with_its_options_from_the_command_line_and_from_a_file(here: Path) -> None:
    run = trained("--set", "method.share=0.25")
    assert (run.config.method.name, run.config.method.options) == ("import:mymethods:Part", {"share": 0.25})
    again = call("train", "--config", str(run.path / "config.toml"), "--out", "again")
    assert again.exit_code == 0, again.output
    assert (run.path / "model.safetensors").read_bytes() == Path("again/model.safetensors").read_bytes()


def test_a_whole_part_of_cross_entropy_is_cross_entropy(here: Path) -> None:
    x, labels = np.random.default_rng(0).normal(size=(60, 2)).astype("float32"), np.arange(60) % 2
    settings = {"epochs": 2, "batch_size": 20, "seed": 1}
    own = selc.fit(x, labels, method="import:mymethods:Part", options={"share": 1.0}, **settings)  # type: ignore[arg-type]
    plain = selc.fit(x, labels, method="ce", **settings)  # type: ignore[arg-type]
    assert torch.equal(own.probs.full(), plain.probs.full())


def test_its_first_line_and_defaults_are_known(here: Path) -> None:
    assert METHODS.describe("import:mymethods:Part") == "A part of the loss of cross entropy."
    assert METHODS.defaults("import:mymethods:Part") == {"share": 0.5}
    assert "import:mymethods:Part" in METHODS
    assert "import:mymethods:Part" not in list(METHODS)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("import:mymethods", r"method must be import:package.module:attribute, such as .*; got 'import:mymethods'"),
        ("import:nowhere:Part", r"method import:nowhere:Part must import; got ModuleNotFoundError"),
        ("import:mymethods:Prat", r"the attribute must be one of .* got 'Prat'"),
        ("import:mymethods:number", r"must be a class that extends selc.methods.Method; got an object of type int"),
        ("import:mymethods:Path", r"must be a class that extends selc.methods.Method; got Path"),
        ("import:mymethods:function", r"must be a class that extends .*; got an object of type function"),
        ("import:mymethods:Positional", r"options .* must be keyword-only; got 'share'. Put a star before them"),
        (
            "import:mymethods:Unplanned",
            r"setup of method .* must take the data and the plan .*; got setup\(self, ",
        ),
        ("import:mymethods:Counted", r"check of method .* Write it as def check\(self, data, plan\)"),
    ],
)
def test_what_is_no_method_gets_a_sentence(name: str, sentence: str, here: Path) -> None:
    with pytest.raises(ConfigError, match=sentence):
        create(name)


def test_a_wrong_option_gets_a_sentence_and_no_folder_is_made(here: Path) -> None:
    own = ("train", "moons", "--method", "import:mymethods:Part")
    assert "share of method 'import:mymethods:Part' is not valid" in refused(*own, "--set", "method.share=much")
    assert "Did you mean 'share'?" in refused(*own, "--set", "method.shar=1")
    assert not (here / "runs").exists()


@pytest.mark.exhaustive
def test_reading_reporting_and_reviewing_a_run_import_nothing(here: Path) -> None:
    run = trained()
    forget(here)
    assert run.config.method.name == "import:mymethods:Part"
    for command in ("report", "figures", "review"):
        result = call(command, str(run.path))
        assert result.exit_code == 0, result.output
    assert call("apply", str(run.path), "--out", "cleaned.csv").exit_code == 0
    assert not (here / "sprung").exists()


def test_the_look_alikes_of_a_review_do_not_import_the_network_of_the_folder(here: Path) -> None:
    done = call("train", "digits", "--net", "import:mynet:Net", "--method", "ce", "--epochs", "1", "--out", "run")
    assert done.exit_code == 0, done.output
    forget(here)
    assert call("review", "run", "--top", "3").exit_code == 0
    assert not (here / "sprung").exists()


def test_going_on_asks_for_trust(here: Path) -> None:
    run = trained()
    (run.path / "summary.json").unlink()
    forget(here)
    sentence = refused("resume", str(run.path))
    assert "is a run of the method import:mymethods:Part" in sentence
    assert "got no --trust" in sentence
    assert not (here / "sprung").exists()
    result = call("resume", str(run.path), "--trust")
    assert result.exit_code == 0, result.output
    assert run.finished


def test_a_configuration_of_a_run_is_read_as_it_was_written(here: Path) -> None:
    text = 'data = "moons"\n[method]\nname = "import:mymethods:Part"\nshare = 0.25\n'
    (here / "config.toml").write_text(text)
    config = Config.load(here / "config.toml")
    assert config.method.options == {"share": 0.25}
    assert not (here / "sprung").exists()


def test_the_example_of_the_page_runs_and_no_sample_costs_more_than_its_limit(here: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "own-method.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)
    command = re.search(r"```sh\nselc (.*?)\n```", page, flags=re.DOTALL)
    assert code is not None
    assert command is not None
    (here / "mymethods.py").write_text(code[1])
    result = call(*shlex.split(command[1]), "--epochs", "1", "--set", "net.hidden=[8]", "--out", "run")
    assert result.exit_code == 0, result.output
    assert RunFolder.open("run").config.method.options == {"limit": 1.5}
    method = create("import:mymethods:Bounded", {"limit": 1.5})
    outputs, target = torch.tensor([[9.0, -9.0], [0.1, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    batch = Batch(torch.zeros(2, 1), target, torch.arange(2), 0.0, seed=0, shard=torch.zeros(2, dtype=torch.long))
    plain = torch.nn.functional.cross_entropy(outputs, target, reduction="none")
    torch.testing.assert_close(method.loss(outputs, batch), 1.5 * torch.tanh(plain / 1.5))


def test_the_callback_of_the_page_ends_a_training() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own-method.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[1]
    x, labels = blobs()
    quick = "selc.fit(x, labels, method='ce', epochs=30, lr=0.1, batch_size=16, device='cpu', "
    assert "selc.fit(x, labels, " in code
    names: dict[str, Any] = {"x": x, "labels": labels}
    exec(code.replace("selc.fit(x, labels, ", quick), names)
    losses = [entry["loss"] for entry in names["outcome"].history]
    assert len(losses) < 30
    assert losses[-1] < 0.1 <= min(losses[:-1])
