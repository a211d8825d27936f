"""A network of the user's own, by import path: what works, and what each mistake is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from selc import fit
from selc.errors import ConfigError
from selc.nets import NETS, create
from selc.runs import Config

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, width=8):
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, num_classes))

    def forward(self, x):
        return self.layers(x)

def shaped(num_classes, shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), num_classes))

def anything(**options):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, options["num_classes"]))

class Box:
    inner = shaped

finished = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
def other(outputs): return finished
def broken(num_classes): raise KeyError("oh")
def a_number(num_classes): return 7
def two_outputs(num_classes): return nn.GRU(4, num_classes)
def pixels_only(num_classes): return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(num_classes))
number = 7
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A current folder with a module in it, as a user has it."""
    (tmp_path / "mynets.py").write_text(MODULE)
    (tmp_path / "fails.py").write_text("import torch\nimport no_such_library\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    assert sys.path == before, "the path must be as it was"
    for name in ("mynets", "fails"):
        sys.modules.pop(name, None)


def made(name: str, num_classes: int = 3, shape: tuple[int, ...] = (2, 2), **options: Any) -> nn.Module:
    return create(f"import:mynets:{name}", num_classes, shape, options)


@pytest.mark.parametrize("name", ["Net", "shaped", "anything", "finished", "Box.inner"])
def test_a_class_a_function_or_a_module_becomes_the_network(name: str) -> None:
    net = made(name)
    assert net.training
    assert net(torch.zeros(5, 2, 2)).shape == (5, 3)


def test_a_finished_module_is_copied() -> None:
    first, second = made("finished"), made("finished")
    with torch.no_grad():
        next(first.parameters()).zero_()
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_options_reach_it() -> None:
    assert made("Net", width=16).width == 16
    assert made("anything", depth=4)(torch.zeros(1, 4)).shape == (1, 3)


def test_it_trains_by_name_from_a_configuration_and_from_python() -> None:
    config = Config.resolve({"data": "moons", "net": {"name": "import:mynets:Net", "width": 4}})
    assert (config.net.name, config.net.options) == ("import:mynets:Net", {"width": 4})
    x, y = torch.randn(40, 4), torch.arange(40) % 3
    outcome = fit(x, y, method="ce", net="import:mynets:Net", net_options={"width": 4}, epochs=1, batch_size=20)
    assert outcome.model.width == 4


def test_the_registry_speaks_of_it() -> None:
    assert "import:mynets:Net" in NETS
    assert "mynets:Net" not in NETS
    assert "mynets:Net" in NETS.describe("import:mynets:Net")
    assert list(NETS) == sorted(set(NETS)), "and it does not become one of the known names"


def test_code_runs_only_when_it_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"net must be one of .* A network of your own is import:package.module"):
        create("mynets:Net", 3, (2, 2))
    assert "mynets" not in sys.modules


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("import:mynets", r"net must be import:package.module:attribute, such as .*; got 'import:mynets'"),
        ("import:mynets:", "net must be import:package.module:attribute"),
        ("import:my nets:Net", "net must be import:package.module:attribute"),
        ("import:../mynets:Net", "net must be import:package.module:attribute"),
        ("import:nowhere:Net", r"net import:nowhere:Net must import; got ModuleNotFoundError: No module .*nowhere"),
        ("import:fails:Net", r"must import; got ModuleNotFoundError: .*no_such_library' \(fails.py, line 2\)"),
        ("import:mynets:Nett", r"the attribute must be one of .*; got 'Nett'"),
        ("import:mynets:number", r"must be a torch.nn.Module, or a class or function that makes one; got int"),
        ("import:mynets:other", r"must have a parameter called num_classes; got \(outputs\). Wrap it"),
        ("import:mynets:broken", r"must be callable with num_classes .*; got KeyError: 'oh' \(mynets.py, line \d+\)"),
        ("import:mynets:a_number", r"must make a torch.nn.Module; got int"),
        ("import:mynets:two_outputs", r"must map 2 inputs to outputs of shape \[2, 3\]; got tuple"),
        ("import:mynets:pixels_only", r"must take inputs of shape \[2, 4\]; got RuntimeError"),
    ],
)
def test_each_mistake_gets_its_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        create(name, 3, (2, 4) if name != "import:mynets:two_outputs" else (4,))


def test_a_module_for_another_number_of_classes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"outputs of shape \[2, 5\]; got \[2, 3\]"):
        made("finished", num_classes=5)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("Net", {"widht": 4}, r"an option of net import:mynets:Net must be one of width; got 'widht'. Did you mean"),
        ("Net", {"num_classes": 4}, r"must be one of width; got 'num_classes'"),
        ("shaped", {"shape": [1]}, "got 'shape'"),
        ("finished", {"width": 4}, "is a finished module and takes no options; got width"),
    ],
)
def test_options_that_it_does_not_take_are_named(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        create(f"import:mynets:{name}", 3, (2, 2), options)
