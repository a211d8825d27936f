from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR

from selc._io.files import read_tensors, write_tensors
from selc.errors import ConfigError
from selc.training.checkpoints.packing import pack_optimizer, unpack_optimizer
from selc.training.plan import Plan
from tests.helpers import random_labels, random_logits

# The learning rate


def rates_of(plan: Plan) -> list[float]:
    return [plan.rate(epoch) for epoch in range(plan.epochs)]


def scheduled(optimizer: torch.optim.Optimizer, scheduler: LRScheduler, epochs: int) -> list[float]:
    """The rate that torch's scheduler gives to each epoch, stepped after it."""
    rates = []
    for _ in range(epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def sgd(lr: float) -> torch.optim.SGD:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=lr)


@pytest.mark.parametrize(("milestones", "gamma"), [([40, 80], 0.1), ([1, 2, 2, 50], 0.5), ([0, 99], 0.2), ([], 0.1)])
def test_the_step_schedule_is_torchs_multi_step(milestones: list[int], gamma: float) -> None:
    plan = Plan(epochs=100, lr=0.02, schedule="step", milestones=milestones, gamma=gamma)
    # A milestone of 0 means that the first epoch is reduced already; torch looks only after its first step.
    optimizer = sgd(0.02 * gamma ** milestones.count(0))
    later = [m for m in milestones if m > 0]
    assert rates_of(plan) == pytest.approx(scheduled(optimizer, MultiStepLR(optimizer, later, gamma), 100))


@pytest.mark.parametrize("epochs", [1, 7, 200])
def test_the_cosine_schedule_is_torchs_cosine_annealing(epochs: int) -> None:
    plan, optimizer = Plan(epochs=epochs, lr=0.1, schedule="cosine"), sgd(0.1)
    expected = scheduled(optimizer, CosineAnnealingLR(optimizer, T_max=epochs), epochs)
    assert rates_of(plan) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_constant_schedule_never_changes() -> None:
    assert rates_of(Plan(epochs=5, lr=0.3, schedule="constant")) == [0.3] * 5


def test_the_defaults_are_the_papers_for_cifar() -> None:
    plan = Plan()
    assert (plan.epochs, plan.batch_size, plan.optimizer, plan.momentum, plan.weight_decay) == (
        200,
        128,
        "SGD",
        0.9,
        0.001,
    )
    assert [plan.rate(epoch) for epoch in (0, 39, 40, 79, 80, 199)] == pytest.approx(
        [0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002]
    )


# Optimizers by name

OPTIMIZERS = sorted(
    name for name in dir(torch.optim) if isinstance(getattr(torch.optim, name), type) and name != "Optimizer"
)
NEEDS_SPECIAL_INPUT = {"LBFGS": "takes a closure", "SparseAdam": "takes sparse gradients"}


def usable() -> list[str]:
    return [name for name in OPTIMIZERS if name not in NEEDS_SPECIAL_INPUT]


def tiny(name: str) -> nn.Module:
    torch.manual_seed(0)
    bias = name != "Muon"  # which takes matrices only
    return nn.Sequential(nn.Linear(3, 5, bias=bias), nn.Tanh(), nn.Linear(5, 2, bias=bias))


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        x, y = random_logits(6, 3, seed=step), random_labels(6, 2, seed=step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("name", usable())
def test_an_optimizer_put_back_from_disk_takes_the_same_next_steps(name: str, tmp_path: Path) -> None:
    plan = Plan(optimizer=name, lr=0.01)
    model = tiny(name)
    start = copy.deepcopy(model)
    optimizer = plan.make_optimizer(model)
    assert type(optimizer) is getattr(torch.optim, name)
    steps(model, optimizer, 0, 3)
    assert not torch.equal(next(model.parameters()), next(start.parameters()))

    tensors, values = pack_optimizer(optimizer)
    write_tensors(tmp_path / "state.safetensors", tensors)
    other = copy.deepcopy(model)
    resumed = plan.make_optimizer(other)
    unpack_optimizer(resumed, read_tensors(tmp_path / "state.safetensors"), json.loads(json.dumps(values)))
    steps(model, optimizer, 3, 7)
    steps(other, resumed, 3, 7)
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_forgetting_the_state_would_show() -> None:
    """The test above means something: a fresh optimizer takes other steps."""
    plan, model = Plan(optimizer="Adam", lr=0.01), tiny("Adam")
    optimizer = plan.make_optimizer(model)
    steps(model, optimizer, 0, 3)
    other = copy.deepcopy(model)
    steps(model, optimizer, 3, 7)
    steps(other, plan.make_optimizer(other), 3, 7)
    assert not torch.equal(next(other.parameters()), next(model.parameters()))


def test_the_settings_of_the_plan_reach_the_optimizer() -> None:
    model = tiny("SGD")
    plan = Plan(lr=0.3, momentum=0.7, weight_decay=0.02, optimizer_options={"nesterov": True})
    group = plan.make_optimizer(model).param_groups[0]
    assert (group["lr"], group["momentum"], group["weight_decay"], group["nesterov"]) == (0.3, 0.7, 0.02, True)
    betas = Plan(optimizer="AdamW", optimizer_options={"betas": (0.5, 0.6), "weight_decay": 0.5})
    group = betas.make_optimizer(model).param_groups[0]
    assert (tuple(group["betas"]), group["weight_decay"]) == ((0.5, 0.6), 0.5)


@pytest.mark.parametrize(("name", "found"), [("sgd", "SGD"), ("adamw", "AdamW"), ("RMSPROP", "RMSprop")])
def test_the_case_of_an_optimizers_name_does_not_matter(name: str, found: str) -> None:
    assert Plan(optimizer=name).optimizer == found


@pytest.mark.parametrize(("name", "near"), [("Adm", "adam"), ("SGDD", "sgd"), ("RMSpro", "rmsprop")])
def test_an_unknown_optimizer_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ValidationError, match=f"got '{name}'. Did you mean '{near}'"):
        Plan(optimizer=name)


@pytest.mark.parametrize("name", ["LBFGS", "Optimizer", "lr_scheduler", ""])
def test_what_is_no_optimizer_for_this_loop_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="optimizer must be one of"):
        Plan(optimizer=name)


@pytest.mark.parametrize("options", [{"betas": (0.9, 0.9)}, {"nesterov": True, "momentum": 0.0}])
def test_options_that_do_not_fit_the_optimizer_get_a_sentence(options: dict[str, Any]) -> None:
    plan = Plan(optimizer="SGD", optimizer_options=options)
    with pytest.raises(ConfigError, match=r"optimizer_options must fit torch\.optim\.SGD; got: .+\."):
        plan.make_optimizer(tiny("SGD"))


@pytest.mark.parametrize(
    "setting", [{"epochs": 0}, {"batch_size": 0}, {"lr": 0.0}, {"momentum": 1.0}, {"gamma": 0.0}, {"epoch": 3}]
)
def test_settings_out_of_range_or_unknown_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(setting))):
        Plan.model_validate(setting)


# Device and precision


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="device must be auto, cpu"):
        Plan(device="gpu").torch_device()


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="got 'cuda:1', which it cannot"):
        Plan(device="cuda:1").torch_device()


def test_precision_is_fp32_on_a_cpu_unless_asked_for() -> None:
    cpu = Plan(device="cpu").torch_device()
    assert cpu == torch.device("cpu")
    assert Plan().autocast_dtype(cpu) is None
    assert Plan(precision="fp32").autocast_dtype(cpu) is None
    assert Plan(precision="bf16").autocast_dtype(cpu) == torch.bfloat16


@pytest.mark.parametrize("has", [True, False])
def test_on_a_gpu_precision_is_bf16_where_the_device_has_it(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    """What is decided for a GPU, without one: the training itself is in test_gpu.py."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: has)
    gpu = torch.device("cuda")
    assert Plan().autocast_dtype(gpu) == (torch.bfloat16 if has else None)
    assert Plan(precision="fp32").autocast_dtype(gpu) is None
    assert Plan(precision="bf16").autocast_dtype(gpu) == torch.bfloat16


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_state_of_an_optimizer_comes_back_in_the_layout_of_its_weights(layout: torch.memory_format) -> None:
    """A file holds numbers in the order of their indices; a fused step reads memory: both must mean the same weight."""

    def net() -> torch.nn.Module:
        torch.manual_seed(0)
        made = torch.nn.Conv2d(3, 4, 3)
        made.weight.data = made.weight.data.contiguous(memory_format=layout)
        return made

    def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
        x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    plan = Plan(lr=0.1)
    one = net()
    optimizer = plan.make_optimizer(one)
    step(one, optimizer, 1)
    tensors, values = pack_optimizer(optimizer)
    other = net()
    other.load_state_dict(one.state_dict())
    resumed = plan.make_optimizer(other)
    as_in_a_file = {name: value.clone(memory_format=torch.contiguous_format) for name, value in tensors.items()}
    unpack_optimizer(resumed, as_in_a_file, values)
    for seed in (2, 3):
        step(one, optimizer, seed)
        step(other, resumed, seed)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
