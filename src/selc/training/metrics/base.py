"""A metric known by name: a function of what a network predicts of a set, and how its value is read.

The positional parameters of the function say what it needs of each row; their names are those of `rows.ROWS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from selc.errors import ConfigError
from selc.registry import Registry, is_import

Function = Callable[..., float | None]  # None: it has no value for such a set
HEADLINE = "top1"  # always measured: an epoch is picked by it, and it stands where there is room for one number only
WHOLE = "probs"  # the one thing that takes memory by the number of classes


class Facts(NamedTuple):
    """How the values of a metric are read."""

    title: str
    best: float = 1.0  # the value of perfect predictions
    share: bool = True  # shown in per cent


METRICS: Registry[Function] = Registry("metric")
FACTS: dict[str, Facts] = {}


def metric(name: str, title: str, *, best: float = 1.0, share: bool = True) -> Callable[[Function], Function]:
    """Register a metric together with how its values are read.

    Parameters
    ----------
    name : the key in ``metrics.jsonl``, ``summary.json`` and every other place that is read by programs.
    title : what people read.
    best : the value of perfect predictions.
    share : whether values lie between 0 and 1 and are shown in per cent.
    """
    FACTS[name] = Facts(title, best, share)
    return METRICS.register(name)


@cache  # to read a signature takes longer than most metrics on a small set
def needs(function: Function) -> tuple[str, ...]:
    """What a metric is called with: its positional parameters, but for such as have a default."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in kinds and p.default is p.empty)


def usual() -> list[str]:
    """The metrics that are measured unless somebody says otherwise: all that keep a few numbers per row."""
    return [HEADLINE, *(name for name in METRICS if name != HEADLINE and WHOLE not in needs(METRICS[name]))]


def chosen(names: Iterable[str]) -> dict[str, Function]:
    """The metrics with these names by their keys in a history, the headline first; modules of the user's are imported.

    The key of ``import:package.module:function`` is ``function``.
    """
    result: dict[str, Function] = {}
    for name in dict.fromkeys((HEADLINE, *names)):
        function, key = METRICS[name], name.rpartition(":")[2] if is_import(name) else name
        if key in result or (key in METRICS and is_import(name)):
            raise ConfigError(f"each metric must have a name of its own; got {name}, and {key!r} is taken. Rename it.")
        result[key] = function
    return result


def headline(values: Mapping[str, float]) -> float:
    """The one number of what was measured on a set."""
    return values[HEADLINE]


def title(name: str) -> str:
    """What people call a metric."""
    return FACTS[name].title if name in FACTS else name.replace("_", " ")


def formatted(name: str, value: float) -> str:
    """A value for people; of a metric that is not known here, which may be the user's own, a plain number."""
    return f"{value:.2%}" if name in FACTS and FACTS[name].share else f"{value:.4g}"
