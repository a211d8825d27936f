"""What a tracker of experiments is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from selc.errors import ConfigError
from selc.registry import Registry


class Tracker(ABC):
    """Where the numbers of a training go, beside its folder. What it raises never stops a training.

    Options are keyword-only and have a default, so that the name alone will do.
    """

    needs: ClassVar[str]  # a module that must be there

    def check(self) -> None:
        """Refuse to begin where the library is missing: nothing is lost yet."""
        if find_spec(self.needs) is None:
            raise ConfigError(
                f"a tracker needs its library; got no module {self.needs!r}. Install it: pip install 'selc[track]'."
            )

    @abstractmethod
    def begin(self, name: str, settings: Mapping[str, str], folder: Path | None, before: str) -> str:
        """A training begins, or goes on.

        Parameters
        ----------
        name : str
            Of the run.
        settings : mapping
            Every setting, as text.
        folder : Path or None
            Of the run; None: it has none.
        before : str
            What was returned when the same run began; empty: it has not begun before.

        Returns
        -------
        str
            What the run is known by to the tracker, or nothing.
        """

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Numbers after an epoch, counted from 1."""

    @abstractmethod
    def conclude(self, values: Mapping[str, float]) -> None:
        """Numbers of the result."""

    @abstractmethod
    def keep(self, file: Path) -> None:
        """A file of the result."""

    @abstractmethod
    def end(self) -> None:
        """All is said."""


TRACKERS: Registry[type[Tracker]] = Registry("the tracker")
