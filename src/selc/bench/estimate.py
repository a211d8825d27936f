"""How long a training will take and how much memory, before it is run.

From the results where there are some for the same data, network and epochs; else by counting:

    seconds = images x epochs / throughput x (time of the method relative to CE)
    throughput = SPEED / (3 x operations of the network on one image)

where 3 stands for a forward and a backward pass.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

from selc.bench.results import Line
from selc.bench.table import Cell
from selc.data import FACTS
from selc.errors import SelcError
from selc.methods import METHODS
from selc.nets import create as create_net
from selc.runs import Config

# Floating point operations in a second that a training keeps up; stated, not measured on your machine. One core; a
# GPU on which CE with ResNet-34 takes about an hour for 200 epochs of CIFAR-10, as current reports have it.
SPEED = {"cpu": 5e10, "gpu": 2e13}
OVERHEAD = 1.0  # seconds: the data are read, the results are written
PROCESS_MB = 350  # Python with torch and nothing else


class Estimate(NamedTuple):
    """Of one training."""

    seconds: float
    megabytes: float
    measured: bool  # from results of the same data, network and epochs


class Size(NamedTuple):
    """Of a network, by one image."""

    operations: float
    parameters: int
    activations: int  # numbers that the backward pass needs


def estimates(cells: Iterable[Cell], lines: Iterable[Line], device: str = "cpu") -> dict[str, Estimate]:
    """The estimate of each cell, by its key."""
    measured: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        if "work" in line and "method" in line:
            measured.setdefault(line["work"], {}).setdefault(line["method"], []).append(line)
    result = {}
    for cell in cells:
        config = cell.config()
        result[cell.key()] = _from_lines(config, measured.get(work_of(config), {})) or counted(config, device)
    return result


def work_of(config: Config) -> str:
    """What a training costs by, beside its method: data, how many, network, epochs."""
    size = config.data.options.get("rows") or "all"
    what = config.data.options.get("path") or config.data.name
    return f"{what}/{size}/{config.net.name}/{config.train.epochs}"


def _from_lines(config: Config, by_method: Mapping[str, list[Line]]) -> Estimate | None:
    """The mean of what this method took; else of what others took, by how they compare with CE."""
    if not by_method:
        return None
    memory = max((float(line.get("peak_mb") or 0) for lines in by_method.values() for line in lines), default=0.0)
    own = by_method.get(config.method.name)
    if own:
        return Estimate(statistics.mean(float(line["seconds"]) for line in own), memory, True)
    plain = [float(line["seconds"]) / cost_of(name) for name, lines in by_method.items() for line in lines]
    return Estimate(statistics.mean(plain) * cost_of(config.method.name, config.method.options), memory, True)


def cost_of(method: str, options: Mapping[str, Any] | None = None) -> float:
    """The time of a method relative to CE; a pilot is one more training by CE."""
    cost = float(getattr(METHODS[method], "cost", 1.0)) if method in METHODS else 1.0
    return cost + (1.0 if (options or {}).get("start") == "pilot" else 0.0)


def counted(config: Config, device: str) -> Estimate:
    """By the formula above."""
    facts = FACTS.get(config.data.name)
    if facts is None:
        return Estimate(0.0, PROCESS_MB, False)
    rows = min(int(config.data.options.get("rows") or facts.train), facts.train)
    images = config.train.samples_per_epoch or rows
    options = {name: value for name, value in config.net.options.items() if name != "weights"}  # none are loaded
    shape = shape_of(config.data.name, config.data.options)
    size = size_of(config.net.name, facts.classes, shape, json.dumps(options, sort_keys=True))
    throughput = SPEED[device] / max(3 * size.operations, 1.0)
    seconds = images * config.train.epochs / throughput * cost_of(config.method.name, config.method.options)
    numbers = torch.Size(shape).numel()
    small = numbers <= 3 * 64 * 64  # larger images stay files
    data = rows * numbers * (1 if len(shape) == 3 else 4) if small else 0  # pixels are bytes
    state = rows * facts.classes * 4 * 2  # targets and probabilities
    # Weights, their gradients, momentum and a copy at saving; what a batch leaves for the backward pass.
    training = 16 * size.parameters + 4 * config.train.batch_size * size.activations
    return Estimate(OVERHEAD + seconds, PROCESS_MB + (data + state + training) / 2**20, False)


def shape_of(data: str, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of one input of a published dataset, without loading it."""
    sides = [int(part) for part in FACTS[data].size.split(" x ")]
    crop = options.get("crop") or options.get("size")
    if len(sides) == 2 and isinstance(crop, int) and crop > 0:
        sides = [crop, crop]
    grey = data in ("digits", "mnist", "fashion-mnist")
    return (1 if grey else 3, *sides) if len(sides) == 2 else tuple(sides)


@cache
def size_of(net: str, classes: int, shape: tuple[int, ...], options: str) -> Size:
    """Count the operations of a network without running it: on the meta device there are no numbers.

    ``options`` are those of the network as JSON, so that the answer can be remembered.
    """
    from torch.utils.flop_counter import FlopCounterMode

    activations = 0

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal activations
        if isinstance(output, torch.Tensor) and not list(module.children()):
            activations += output.numel()

    try:
        with torch.device("meta"):
            model = create_net(net, classes, shape, json.loads(options)).eval()
            hooks = [module.register_forward_hook(count) for module in model.modules()]
            with FlopCounterMode(display=False) as counter, torch.no_grad():
                model(torch.empty(1, *shape))
            for hook in hooks:
                hook.remove()
    except (SelcError, RuntimeError, NotImplementedError):  # nothing is lost but the estimate
        return Size(0.0, 0, 0)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Size(float(counter.get_total_flops()), parameters, activations)
