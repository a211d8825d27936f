"""The state of modules and optimizers as named tensors, which a file can hold, and back again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from selc.errors import RunFolderError
from selc.memory.store import Store


def tables_of(prefix: str, module: nn.Module) -> dict[str, Store]:
    """The per-sample tables inside a module, by name under a prefix."""
    return {f"{prefix}/{name}": part for name, part in module.named_modules() if isinstance(part, Store)}


def pack(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """The state of a module under a prefix, but for its tables; copies, because the training goes on."""
    inside = _table_names(module)
    state = {k: v for k, v in module.state_dict().items() if not k.startswith(inside)}
    return {f"{prefix}/{k}": v.detach().to("cpu", copy=True) for k, v in state.items()}


def restore(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `pack` took."""
    try:
        result = module.load_state_dict(unpack(prefix, tensors), strict=False)
    except RuntimeError as error:
        raise RunFolderError(f"a checkpoint must fit the method and the network; got: {error}.") from None
    missing = [name for name in result.missing_keys if not name.startswith(_table_names(module))]
    if missing or result.unexpected_keys:
        name = (missing or result.unexpected_keys)[0]
        raise RunFolderError(
            f"a checkpoint must fit the method and the network; got one that differs in {prefix}/{name}. "
            "It was written by another version of selc."
        )


def _table_names(module: nn.Module) -> tuple[str, ...]:
    parts = module.named_modules(remove_duplicate=False)
    return tuple(f"{name}." for name, part in parts if isinstance(part, Store))


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(f"{prefix}/"): v for k, v in tensors.items() if k.startswith(f"{prefix}/")}


def pack_optimizer(
    optimizer: torch.optim.Optimizer, copied: Callable[[Tensor], Tensor] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the plain values of an optimizer's state. Its settings follow from the plan.

    ``copied`` makes a copy of a tensor on the CPU, where that takes more than a copy.
    """
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for number, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            name = f"optimizer/{number}/{key}"
            if isinstance(value, Tensor):
                tensors[name] = copied(value) if copied else value.detach().to("cpu", copy=True)
            else:
                values[name] = value
    return tensors, values


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for name, value in {**unpack("optimizer", tensors), **unpack("optimizer", values)}.items():
        number, key = name.split("/", 1)
        state.setdefault(int(number), {})[key] = _laid_out(value, weights[int(number)])
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _laid_out(value: Any, weight: Tensor) -> Any:
    """A tensor in memory as its weight is: a file knows no strides, and a fused step goes through both by place."""
    same = isinstance(value, Tensor) and type(value) is Tensor and value.shape == weight.shape
    if not same or value.stride() == weight.stride():
        return value
    return torch.empty_strided(value.shape, weight.stride(), dtype=value.dtype, device=value.device).copy_(value)
