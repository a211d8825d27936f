"""Metrics by name. Each is one file with one function; `top1` is the headline."""

import pkgutil
from importlib import import_module

from selc.training.metrics.base import (
    FACTS,
    HEADLINE,
    METRICS,
    Function,
    chosen,
    formatted,
    headline,
    metric,
    needs,
    title,
    usual,
)
from selc.training.metrics.rows import ROWS, measured, rows_of, wanted

for _module in pkgutil.iter_modules(__path__):  # a file in this folder is a metric; importing it registers it
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "FACTS",
    "HEADLINE",
    "METRICS",
    "ROWS",
    "Function",
    "chosen",
    "formatted",
    "headline",
    "measured",
    "metric",
    "needs",
    "rows_of",
    "title",
    "usual",
    "wanted",
]
