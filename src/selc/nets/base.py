"""The registry of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from selc.registry import Registry

NETS: Registry[Callable[..., nn.Module]] = Registry("net")


def create(
    name: str,
    num_classes: int,
    shape: tuple[int, ...] = (3, 32, 32),
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A fresh network for inputs of ``shape``, without the batch dimension."""
    return NETS[name](num_classes, shape, **NETS.checked(name, options or {}))
