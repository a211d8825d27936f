"""Annotation tools by name. Each is one file: what it imports, how it is set up, and what it exports."""

import pkgutil
from importlib import import_module

from selc.review.exchange.tools.base import TOOLS, Tool

for _module in pkgutil.iter_modules(__path__):  # a file in this folder is a tool; importing it registers it
    import_module(f"{__name__}.{_module.name}")

__all__ = ["TOOLS", "Tool"]
