"""What stands between a source and the rows of the loop.

A source (`Listing`) lists items, labels and ids, and hands out the items as a person sees them (``texts``,
``pictures``). A `Preprocessor` was fitted to training items and makes inputs of any: `Features` (numbers, columns of a
table, images by an encoder; each scaled), `Images` (pixels of one size, normalised), `Plain` (arrays as they are).
What it has learnt is plain data and goes to the run folder, so that new items are treated alike. What `Features`
scales may come from a `Transform`: `TextColumn` (TF-IDF), `Coding` (columns of a table), `Encoding` (images by a
trained network).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from selc.types import Inputs

if TYPE_CHECKING:
    from selc.data.sources.listing import Listing


@runtime_checkable
class Transform(Protocol):
    """Items into rows of numbers; its class also has ``from_state(state, arrays)``, which makes it again."""

    def apply(self, items: Any, /) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Rows [N, D] of new items."""

    def state(self) -> dict[str, Any]:
        """What was learnt, as JSON."""

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What of it is numbers."""


class Made(NamedTuple):
    """What became of the items of a listing."""

    inputs: Inputs
    kept: Sequence[int] | None = None  # those that can be used; None: all
    bad: Sequence[tuple[int, str]] = ()  # the others, with the reason
    notes: Sequence[str] = ()
    digest: str = ""  # of the items, where they have to be read for it


@runtime_checkable
class Preprocessor(Protocol):
    """Items into inputs of the network, as the training items were."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""

    @property
    def side(self) -> int | None:
        """Of an image, in pixels; None for what is no image."""

    def rows(self, listing: Listing, /) -> Made:
        """The items of a listing as inputs."""

    def state(self) -> dict[str, Any]:
        """What was learnt: JSON, and numpy arrays under "arrays"."""


Learn = Callable[["Listing"], tuple[Preprocessor, Made]]
