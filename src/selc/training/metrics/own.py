"""A metric of the user's own, by the place that it is imported from: the same rules as for networks."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from selc.errors import ConfigError
from selc.nets.own import imported, telling
from selc.training.metrics.base import METRICS, Function, needs
from selc.training.metrics.rows import ROWS


def find(name: str) -> Function:
    """The function that ``name`` points at; what goes wrong in it becomes a sentence."""
    function = imported(name, "metric", "import:mymetrics:brier")
    if not callable(function) or inspect.isclass(function):
        got = "a class" if inspect.isclass(function) else type(function).__name__
        raise ConfigError(f"metric {name} must be a function of predictions; got {got}.")
    try:
        wanted = needs(function)
    except (TypeError, ValueError):
        raise ConfigError(f"metric {name} must say what it takes; got a callable without a signature.") from None
    if strange := [parameter for parameter in wanted if parameter not in ROWS]:
        raise ConfigError(
            f"the parameters of metric {name} must be among {', '.join(ROWS)}; got {strange[0]!r}. "
            "Wrap it in a function that has such, or give it a default."
        )

    @functools.wraps(function)
    def told(*rows: Any) -> float | None:
        with telling(f"metric {name}", "must give a number for a set"):
            value: float | None = function(*rows)
        return value

    return told


METRICS.imports(find)
