"""Every error that selc raises on purpose.

    SelcError                 one sentence: what must be what; got what; what to do
    ├── InputError            data, labels or an index that cannot be used (also a ValueError)
    ├── ConfigError           a setting or a name that is unknown or out of range (also a ValueError)
    ├── TrainingError         the training itself broke down, such as a loss that is not finite
    └── RunFolderError        a run folder or checkpoint that cannot be read or written

The command line prints the sentence and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SelcError(Exception):
    """Base of all errors raised on purpose."""


class InputError(SelcError, ValueError):
    """Data, labels or an index that cannot be used."""


class ConfigError(SelcError, ValueError):
    """A setting or a name that is unknown or out of range."""


class TrainingError(SelcError):
    """The training itself broke down."""


class RunFolderError(SelcError):
    """A run folder or checkpoint that cannot be read or written."""


def unknown(what: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not registered; it names the nearest known one."""
    names = sorted(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"{what} must be one of {', '.join(names)}; got {name!r}. {hint}".rstrip())
