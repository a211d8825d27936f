"""A network of the user's own, by the place that it is imported from.

The prefix is spelled out, because importing a module runs its code: no name of ours does that by accident.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc.errors import ConfigError, unknown
from selc.registry import IMPORT as PREFIX

SUPPLIED = ("num_classes", "shape")  # by the program, not by the user


def describe(name: str) -> str:
    return f"A network of your own, from {name.removeprefix(PREFIX)}"


def build(name: str, num_classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """What ``name`` stands for, seen to map inputs of ``shape`` to ``num_classes`` outputs."""
    net = make(name, num_classes, shape, **options)
    got = try_out(net, shape, f"net {name}")
    if got != [2, num_classes]:
        raise ConfigError(f"net {name} must map 2 inputs to outputs of shape {[2, num_classes]}; got {got}.")
    return net


def make(name: str, num_classes: int, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """What ``name`` stands for, called with ``num_classes``; a module that exists already is copied."""
    thing = find(name)
    if isinstance(thing, nn.Module):
        return copy.deepcopy(thing)
    supplied: dict[str, Any] = {"num_classes": num_classes}
    if "shape" in _parameters(name, thing):
        supplied["shape"] = shape
    with telling(f"net {name}", "must be callable with num_classes and its options"):
        net = thing(**supplied, **options)
    if not isinstance(net, nn.Module):
        raise ConfigError(f"net {name} must make a torch.nn.Module; got {type(net).__name__}.")
    return net


def imported(name: str, what: str, example: str) -> Any:
    """Whatever ``name`` points at. To find it its module is imported, which runs the code in it."""
    module_name, colon, attribute = name.removeprefix(PREFIX).partition(":")
    parts = [*module_name.split("."), *attribute.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{what} must be import:package.module:attribute, such as {example}; got {name!r}.")
    with telling(f"{what} {name}", "must import"), _from_here():
        thing: Any = importlib.import_module(module_name)
    for part in attribute.split("."):
        if not hasattr(thing, part):
            known = [key for key in dir(thing) if not key.startswith("_") and callable(getattr(thing, key))]
            raise unknown(f"{what} {name}: the attribute", part, known)
        thing = getattr(thing, part)
    return thing


def find(name: str) -> nn.Module | Callable[..., Any]:
    """The class, function or module that ``name`` points at."""
    thing = imported(name, "net", "import:mynets:Small")
    if isinstance(thing, nn.Module):
        return thing
    if not callable(thing):
        raise ConfigError(
            f"net {name} must be a torch.nn.Module, or a class or function that makes one; got {type(thing).__name__}."
        )
    parameters = _parameters(name, thing)
    if "num_classes" not in parameters and not _takes_anything(parameters):
        raise ConfigError(
            f"net {name} must have a parameter called num_classes; got ({', '.join(parameters)}). "
            "Wrap it in a function that has one."
        )
    maker: Callable[..., Any] = thing
    return maker


def checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` if what ``name`` points at takes them, or an error that says which one it does not."""
    if not options:
        return {}
    thing = find(name)
    if isinstance(thing, nn.Module):
        raise ConfigError(f"net {name} is a finished module and takes no options; got {', '.join(options)}.")
    parameters = _parameters(name, thing)
    known = [key for key in parameters if key not in SUPPLIED]
    for key in options:
        if key in SUPPLIED or (key not in known and not _takes_anything(parameters)):
            raise unknown(f"an option of net {name}", key, known)
    return dict(options)


def _parameters(name: str, thing: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(thing).parameters
    except (TypeError, ValueError):
        raise ConfigError(f"net {name} must say what it takes; got a callable without a signature.") from None


def _takes_anything(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def try_out(net: nn.Module, shape: tuple[int, ...], what: str) -> list[int] | str:
    """The shape of the outputs for two empty inputs: what does not fit is noticed before anything is written."""
    first = next(net.parameters(), None)
    x = torch.zeros(2, *shape, device=None if first is None else first.device)
    training = net.training
    with torch.no_grad(), telling(what, f"must take inputs of shape {list(shape)}"):
        outputs = net.eval()(x)
    net.train(training)
    return list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__


@contextmanager
def _from_here() -> Iterator[None]:
    """Modules in the current folder are found, as with ``python -m``."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    importlib.invalidate_caches()  # the file may be younger than what Python remembers of the folder
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


@contextmanager
def telling(what: str, promise: str) -> Iterator[None]:
    """Whatever goes wrong in the user's code becomes a sentence with the line that it came from."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(".py")]
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if len(frames) > 1 else ""
        raise ConfigError(f"{what} {promise}; got {type(error).__name__}: {error}{where}.") from error
