"""Parts of torch without what it puts around them for its compiler and its profiler, where nothing is compiled.

Building an optimizer, taking its first step and counting operations each import ``torch._dynamo`` and what it needs:
as long again as importing torch. Each step then enters a record for the profiler and asks the compiler to break its
graph, which costs a small network a few per cent. The arithmetic is the same to the bit: it is torch's own.

This rests on how torch hides functions from its compiler, which it does not promise. So every use looks first whether
that is as it is known (of torch 2.13); where it is not, torch's own way is taken instead, and only time is lost.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

LAYERS = ("_use_grad", "decorate_context", "profile_hook_step.<locals>.wrapper")  # what torch puts around a step
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
HIDDEN = "__dynamo_disable"  # where torch keeps what its compiler makes of a function that is hidden from it


@contextmanager
def uncompiled(function: Callable[..., Any]) -> Iterator[None]:
    """While ``function``, which torch hides from its compiler, is called without importing that.

    If the compiler is there already, or torch hides the function in another way, nothing is done.
    """
    hidden: Any = getattr(function, "__wrapped__", None)
    if hidden is None or hasattr(hidden, HIDDEN) or "torch._dynamo" in sys.modules:
        yield
        return
    try:
        setattr(hidden, HIDDEN, hidden)
    except (AttributeError, TypeError):  # it is no function of Python, which alone takes attributes
        yield
        return
    try:
        yield
    finally:
        if hasattr(hidden, HIDDEN):
            delattr(hidden, HIDDEN)  # whoever compiles later gets what torch has for it


def plain_step(optimizer: Optimizer) -> Callable[[], None]:
    """The step of an optimizer; gradients are dropped after it, and those that are there before the first.

    It is the step itself, without what torch has put around it, where that is known; else torch's own.
    """
    step = _bare(optimizer)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]

    def drop() -> None:
        for weight in weights:
            weight.grad = None

    def run() -> None:
        if step is None:
            optimizer.step()
        else:
            with torch.no_grad():
                step(optimizer)
        drop()

    drop()
    return run


def _bare(optimizer: Optimizer) -> Callable[[Optimizer], Any] | None:
    """The step that an optimizer's class defines; None where it cannot be told apart from what is around it.

    Around it are the record for the profiler, which also calls hooks, and the switch for gradients. Anything else there
    (of another torch, or of a user) keeps it whole, and so do hooks and a step whose gradients are wanted.
    """
    inner: Any = inspect.getattr_static(type(optimizer), "step")
    while (wrapped := getattr(inner, "__wrapped__", None)) is not None:
        if not getattr(getattr(inner, "__code__", None), "co_qualname", "").endswith(LAYERS):
            return None
        inner = wrapped
    hooks = any(getattr(optimizer, name, None) for name in HOOKS) or "step" in vars(optimizer)
    wanted = optimizer.defaults.get("differentiable", False)
    return None if hooks or wanted or not inspect.isfunction(inner) else inner
