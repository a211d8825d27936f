"""What a result was measured on, as far as it matters to the result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def machine(about: dict[str, Any]) -> str:
    """System, processor and the instructions that torch used there; lines of before these were kept lack the last."""
    return ", ".join(str(about[key]) for key in ("platform", "cpu_capability") if key in about)


def processors(lines: Iterable[dict[str, Any]]) -> str:
    """The instructions that torch used in trainings of which a line each was kept."""
    names = sorted({str(line["cpu_capability"]) for line in lines if "cpu_capability" in line})
    return f"Processors: {', '.join(names)}." if names else "Processors: not recorded then."
