"""Torch without its compiler: the same numbers, and nothing left behind."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from selc.training import Plan
from selc.training.uncompiled import plain_step, uncompiled


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "fused": True}),
        ("SGD", {"nesterov": True, "momentum": 0.8}),
        ("AdamW", {}),
        ("RAdam", {}),
    ],
)
def test_a_plain_step_has_the_bits_of_torchs_own_and_drops_the_gradients(name: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    theirs = copy.deepcopy(ours)
    x = torch.randn(6, 5)
    ours(x).sum().backward()  # gradients from before must not count
    optimizers = [getattr(torch.optim, name)(net.parameters(), lr=0.1, **options) for net in (ours, theirs)]
    step = plain_step(optimizers[0])
    for _ in range(4):
        ours(x).square().sum().backward()
        step()
        optimizers[1].zero_grad()
        theirs(x).square().sum().backward()
        optimizers[1].step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
        assert mine.grad is None
        assert mine.requires_grad


def test_what_is_called_without_the_compiler_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)

    def hidden() -> str:
        return "called"

    def shown() -> str:
        return str(getattr(hidden, "__dynamo_disable", lambda: "compiler")())

    shown.__wrapped__ = hidden  # type: ignore[attr-defined]
    with uncompiled(shown):
        assert shown() == "called"
    assert shown() == "compiler"
    with uncompiled(hidden):  # hidden in another way: nothing is done
        assert shown() == "compiler"


def trained(step: Any, net: nn.Module) -> list[torch.Tensor]:
    x = torch.linspace(-1, 1, 30).view(6, 5)
    for _ in range(3):
        net(x).square().sum().backward()
        step()
    return [weight.detach().clone() for weight in net.parameters()]


class Unknown:
    """What another version of torch may put around a step: no function, and without a name that is known."""

    def __init__(self, function: Any) -> None:
        self.__wrapped__, self.hooked = function, True  # torch puts nothing more around it
        self.calls = 0

    def __get__(self, optimizer: Any, _: Any = None) -> Any:
        def step() -> None:
            self.calls += 1
            self.__wrapped__(optimizer)

        return step if optimizer is not None else self


def test_a_step_that_torch_wraps_in_another_way_is_called_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Linear(5, 3)
    optimizer, twin = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), copy.deepcopy(net)
    plain = trained(plain_step(optimizer), net)
    layer = Unknown(torch.optim.SGD.step)
    monkeypatch.setattr(torch.optim.SGD, "step", layer)
    run = plain_step(torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9))
    whole = trained(run, twin)
    assert layer.calls == 3
    assert all(torch.equal(a, b) for a, b in zip(plain, whole, strict=True))
    assert all(weight.grad is None for weight in twin.parameters())


def test_hooks_of_an_optimizer_are_called() -> None:
    net, called = nn.Linear(5, 3), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    trained(plain_step(optimizer), net)
    assert called == [1, 1, 1]


def test_a_torch_that_hides_nothing_or_what_takes_no_mark_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    shown: Any = torch.optim.Optimizer.add_param_group
    hidden = getattr(shown, "__wrapped__", shown)
    for function in (hidden, functools.wraps(len)(lambda x: len(x))):
        with uncompiled(function):  # not hidden; hides a function in C, which takes no attribute
            pass
    monkeypatch.setattr(torch.optim.Optimizer, "add_param_group", hidden)
    net = nn.Linear(5, 3)
    before = [weight.detach().clone() for weight in net.parameters()]
    after = trained(plain_step(Plan(lr=0.1).make_optimizer(net)), net)
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_training_does_not_import_the_compiler(tmp_path: Path) -> None:
    """It takes as long again as torch; that it stays out was measured, and a new torch may bring it back."""
    code = """
import sys
from selc.callbacks import Callback
from selc.runs import Config, execute

class First(Callback):
    def on_batch_end(self, rows):
        print("torch._dynamo" in sys.modules)
        sys.exit()

execute(Config.resolve({"data": "moons", "train": {"epochs": 1}}), sys.argv[1], [First()])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "False"


def test_an_optimizer_that_does_not_fit_is_still_refused() -> None:
    with pytest.raises(Exception, match="optimizer_options must fit"):
        Plan(optimizer_options={"nonsense": 1}).make_optimizer(nn.Linear(2, 2))
