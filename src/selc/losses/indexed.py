"""A dataset that also says which sample it hands out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from selc.errors import InputError


class IndexedDataset(Dataset[Any]):
    """Wrap a map-style dataset so that each item carries its index.

    A tuple gets the index as its last element, a mapping gets the key ``"index"``, anything else becomes
    ``(item, index)``. The index is the place in the dataset, so it survives shuffling and batching; the
    place in the batch, which is easily taken for it, does not.

    Parameters
    ----------
    dataset : object with ``__getitem__`` and ``__len__``
        Such as a ``torch.utils.data.Dataset``.

    Raises
    ------
    InputError
        If the dataset can only be walked through, and so has no index to give.

    Examples
    --------
    >>> from selc import IndexedDataset
    >>> IndexedDataset([("red", 0), ("green", 1)])[1]
    ('green', 1, 1)
    """

    def __init__(self, dataset: Any) -> None:
        by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        if not by_index or isinstance(dataset, IterableDataset):
            raise InputError(
                "dataset must be map-style, with __getitem__ and __len__; "
                f"got {type(dataset).__name__}. An iterable dataset has no index to give."
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if isinstance(item, Mapping):
            return {**item, "index": index}
        if isinstance(item, tuple | list):
            return (*item, index)
        return item, index
