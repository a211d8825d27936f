"""One call for whoever has arrays or a dataset in Python."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc.data import ArrayInputs, DatasetInputs, Recipe
from selc.errors import ConfigError, InputError
from selc.methods import METHODS, Method
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise.base import measured
from selc.registry import keyword_options
from selc.run.config import ARRAYS, Choice, Config, resolve_plan
from selc.run.folder import RunFolder
from selc.run.job import train_into
from selc.train import Progress, Trainer
from selc.types import EvalSet, Inputs, Labels, Outcome, TrainSet

Net = str | nn.Module | Callable[[int], nn.Module]


def fit(
    x: Any,
    labels: Any,
    *,
    method: str | Method = "selc",
    options: Mapping[str, Any] | None = None,
    net: Net = "mlp",
    net_options: Mapping[str, Any] | None = None,
    num_classes: int | None = None,
    tests: Mapping[str, tuple[Any, Any]] | None = None,
    val: tuple[Any, Any] | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **train: Any,
) -> Outcome:
    """Train on ``x`` [N, ...] with noisy integer ``labels`` [N]; get the model and the labels it believes.

    ``method`` is a name with ``options`` or an object; ``net`` a name, a module (copied, not changed) or a function
    of the number of outputs; ``x`` an array, a tensor or a map-style dataset; ``train`` are fields of `Plan`, such
    as ``epochs`` and ``lr``. With ``out`` every epoch is saved, and ``resume=True`` goes on.
    """
    inputs, given = _inputs(x), _labels(labels)
    count = num_classes or (int(given.max()) + 1 if given.numel() else 0)
    data = TrainSet(inputs, Labels(given, count))
    chosen_method = _method(method, options)
    plan = resolve_plan(train, Recipe())
    shape = tuple(next(inputs.stream([torch.tensor([0])], None)).shape[1:])
    factory = _factory(net, shape, net_options)
    evaluated = {name: EvalSet(_inputs(a), _labels(b)) for name, (a, b) in (tests or {}).items()}
    val_set = EvalSet(_inputs(val[0]), _labels(val[1])) if val is not None else None
    if out is None:
        return Trainer(plan, factory, tests=evaluated, val=val_set, progress=progress).fit(chosen_method, data)
    config = Config(
        data=Choice(name=ARRAYS),
        noise=Choice(name="none"),
        method=Choice(name=_name(chosen_method), **_stored_options(chosen_method)),
        net=Choice(name=net if isinstance(net, str) else _name(net), **(net_options or {})),
        train=plan,
    )
    noise = measured(data.labels.hard, data.labels.hard, count)
    run = RunFolder(out)
    if not (resume and (run.path / "config.toml").exists()):
        run = RunFolder.create(out, config, noise, None, [str(k) for k in range(count)])
    return train_into(
        run,
        chosen_method,
        factory,
        data,
        plan,
        tests=evaluated,
        val=val_set,
        fingerprint=config.fingerprint(noise.digest),
        progress=progress,
    )


def _inputs(x: Any) -> Inputs:
    if isinstance(x, torch.utils.data.Dataset):
        return DatasetInputs(x)
    try:
        tensor = torch.as_tensor(x, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(x).__name__
        raise InputError(f"x must be an array of numbers or a torch dataset; got {kind}: {error}.") from None
    return ArrayInputs(tensor)


def _labels(labels: Any) -> Tensor:
    try:
        return torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"labels must be integers, one per sample; got {type(labels).__name__}: {error}.") from None


def _method(method: str | Method, options: Mapping[str, Any] | None) -> Method:
    if isinstance(method, str):
        return create_method(method, options)
    if options:
        raise ConfigError("options go with a method's name; got a method object, which has its own. Drop one of them.")
    return method


def _factory(net: Net, shape: tuple[int, ...], options: Mapping[str, Any] | None) -> Callable[[int], nn.Module]:
    if isinstance(net, str):
        return lambda outputs: create_net(net, outputs, shape, options)
    if options:
        raise ConfigError("net_options go with a network's name; got a network of your own. Drop one of them.")
    if isinstance(net, nn.Module):
        return lambda outputs: copy.deepcopy(net)
    return net


def _name(thing: object) -> str:
    """The registered name of a method, or where the code of another object is."""
    for name in METHODS:
        if METHODS[name] is type(thing):
            return name
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _stored_options(method: Method) -> dict[str, Any]:
    """The options of a method object, which its constructor stored under their names."""
    options = {key: getattr(method, key) for key in keyword_options(type(method))}
    return {k: v if isinstance(v, str | int | float | bool | list) else repr(v) for k, v in options.items()}
