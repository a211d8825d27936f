"""Parts of libraries that are extras: imported when they are needed, and one sentence where they are not there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from selc.errors import ConfigError


def sklearn_part(what: str, module: str) -> Any:
    """A module of scikit-learn; ``what`` needs it."""
    try:
        return import_module(f"sklearn.{module}")
    except ImportError:
        raise ConfigError(
            f"{what} needs scikit-learn; got no such package. Install it: pip install 'selc[sklearn]'."
        ) from None
