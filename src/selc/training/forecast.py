"""How long a training will take, by counting: a choice that hangs on it is the same on any machine, busy or not."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.utils import flop_counter

from selc.training.plan import Plan
from selc.training.uncompiled import uncompiled
from selc.types import Inputs

SPEED = {"cpu": 8e10, "cuda": 4e12, "mps": 1e12}  # operations of 32 bits in a second: two cores, or a common GPU
STEP = 1e-3  # seconds of a step beside its arithmetic


@torch.no_grad()
def forecast(plan: Plan, net: nn.Module, inputs: Inputs, rows: int, device: torch.device) -> float:
    """Seconds of a training on so many rows; backward is counted as twice the forward pass."""
    x = next(iter(inputs.stream([torch.zeros(1, dtype=torch.int64)], seed=None))).cpu()
    mode: Any = getattr(flop_counter, "_FlopCounterMode", flop_counter.FlopCounterMode)  # who counts
    with uncompiled(mode.__torch_dispatch__), flop_counter.FlopCounterMode(display=False) as counter:
        net.eval().cpu()(x)
    per_epoch = min(plan.samples_per_epoch or rows, rows)
    steps = plan.epochs * math.ceil(per_epoch / plan.batch_size)
    arithmetic = 3.0 * int(counter.get_total_flops()) * per_epoch * plan.epochs
    return arithmetic / SPEED.get(device.type, SPEED["cpu"]) + steps * STEP
