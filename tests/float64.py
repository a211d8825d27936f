"""The library in float64, where what rounding can do stays far below what a fault does, on any processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from selc.memory.forms import Form
from selc.memory.store import Store
from selc.types import TrainSet

FLOAT32, FLOAT64 = torch.float32, torch.float64
DEFAULTS: tuple[Callable[..., Any], ...] = (
    Store.__init__,
    Form.__init__,
    TrainSet.new_store,
)  # bound at their definition


@contextmanager
def in_float64() -> Iterator[None]:
    """Within, float32 means float64. No setting does this: losses and tables are float32 for whoever trains."""
    with ExitStack() as stack:
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(FLOAT64)
        stack.enter_context(patch.object(torch, "float32", FLOAT64))
        stack.enter_context(patch.object(torch.Tensor, "float", torch.Tensor.double))
        for function in DEFAULTS:
            wide = tuple(FLOAT64 if value is FLOAT32 else value for value in function.__defaults__ or ())
            named = {k: FLOAT64 if v is FLOAT32 else v for k, v in (function.__kwdefaults__ or {}).items()}
            stack.enter_context(patch.object(function, "__defaults__", wide))
            stack.enter_context(patch.object(function, "__kwdefaults__", named))
        yield
