"""Values of a parameter that only `make test-all` tries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def exhaustive(*values: Any) -> list[Any]:
    """Each value as a case marked `exhaustive`."""
    return [pytest.param(value, marks=pytest.mark.exhaustive) for value in values]


def but_for(late: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """All values; those in ``late`` as cases marked `exhaustive`."""
    later = set(late)
    return [pytest.param(value, marks=[pytest.mark.exhaustive] if value in later else []) for value in values]
