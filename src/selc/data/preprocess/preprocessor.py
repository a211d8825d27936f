"""What stands between a source and the rows of the loop.

A source (`Bundle`) lists items, labels and ids, and hands out the items as a person sees them (``texts``,
``pictures``). A preprocessor makes rows of numbers of them. What it has learnt is plain data and goes to the run
folder, so that new items are treated alike: `TextColumn` (TF-IDF), `Coding` (columns of a table), `Encoding` (images by
a trained network).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Preprocessor(Protocol):
    """Items into rows of numbers; its class also has ``from_state(state, arrays)``, which makes it again."""

    def apply(self, items: Any, /) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Rows [N, D] of new items."""

    def state(self) -> dict[str, Any]:
        """What was learnt, as JSON."""

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What of it is numbers."""
