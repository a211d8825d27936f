"""Parts of torch without what it puts around them for its compiler and its profiler, where nothing is compiled.

Building an optimizer, taking its first step and counting operations each import ``torch._dynamo`` and what it needs:
as long again as importing torch. Each step then enters a record for the profiler and asks the compiler to break its
graph, which costs a small network a few per cent. The arithmetic is the same to the bit: it is torch's own.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer


@contextmanager
def uncompiled(function: Callable[..., Any]) -> Iterator[None]:
    """While ``function``, which torch hides from its compiler, is called without importing that.

    If the compiler is there already, or torch hides the function in another way, nothing is done.
    """
    hidden: Any = getattr(function, "__wrapped__", None)
    if hidden is None or "torch._dynamo" in sys.modules:
        yield
        return
    hidden.__dynamo_disable = hidden  # torch looks here for what the compiler makes of the function
    try:
        yield
    finally:
        del hidden.__dynamo_disable  # whoever compiles later gets what torch has for it


def plain_step(optimizer: Optimizer) -> Callable[[], None]:
    """The step of an optimizer itself; gradients are dropped after it, and those that are there before the first."""
    step = inspect.unwrap(type(optimizer).step)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]

    def drop() -> None:
        for weight in weights:
            weight.grad = None

    def run() -> None:
        with torch.no_grad():
            step(optimizer)
        drop()

    drop()
    return run
