"""What the loop tells whoever watches it. By default nobody does."""

from __future__ import annotations

import warnings
from typing import Any


class Progress:
    """Called by the loop; override what you want to show."""

    def begin_stage(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str = "") -> None:
        """A stage begins, or goes on after an interruption at ``first_epoch``."""

    def advance(self, rows: int) -> None:
        """A batch of ``rows`` samples is done."""

    def end_epoch(self, entry: dict[str, Any]) -> None:
        """An epoch is done and saved; ``entry`` is its line of the history."""

    def tell(self, text: str) -> None:
        """What happens next, in a sentence."""

    def decided(self, decision: dict[str, Any]) -> None:
        """A method has decided when to start, by rows that were held out."""

    def notice(self, text: str) -> None:
        """Something that the user should know."""
        warnings.warn(text, stacklevel=2)


class Silent(Progress):
    """For the processes of which another one speaks."""

    def notice(self, text: str) -> None:
        pass
