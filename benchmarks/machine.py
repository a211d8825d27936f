"""What a result was measured on, as far as it matters to the result."""

from __future__ import annotations

from typing import Any


def machine(about: dict[str, Any]) -> str:
    """System, processor and the instructions that torch used there; lines of before these were kept lack the last."""
    return ", ".join(str(about[key]) for key in ("platform", "cpu_capability") if key in about)
