"""Inputs and labels that come from any map-style torch dataset, through a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from selc.data.progress import tell
from selc.errors import InputError

PROBED = 20  # items by which it is checked that a list of labels is what the dataset yields


class DatasetInputs:
    """A dataset that yields ``x`` or ``(x, ...)``; labels that it may carry are not used.

    Its own random transforms run in training and in evaluation alike, so give it none or a test view.
    """

    def __init__(self, dataset: Any, workers: int = 0, device: torch.device | None = None) -> None:
        self.dataset, self.workers, self.device = dataset, workers, device or torch.device("cpu")

    def __len__(self) -> int:
        return len(self.dataset)

    def stream(self, batches: Sequence[Tensor], seed: int | None) -> Iterator[Tensor]:
        loader = DataLoader(
            _OnlyInputs(self.dataset),
            batch_sampler=[rows.tolist() for rows in batches],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator().manual_seed(seed or 0),
            collate_fn=_stacked,
        )
        for x in loader:
            yield x.to(self.device, non_blocking=True)

    def to(self, device: torch.device) -> DatasetInputs:
        return DatasetInputs(self.dataset, self.workers, device)


def _stacked(rows: list[Tensor]) -> Tensor:
    shapes = {tuple(row.shape) for row in rows}
    if len(shapes) > 1:
        one, other, *_ = sorted(shapes)
        raise InputError(
            f"a dataset must yield inputs of one shape; got {list(one)} and {list(other)}. Resize in its transform."
        )
    return torch.stack(rows)


class _OnlyInputs(Dataset[Tensor]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Tensor:
        item = self.dataset[row]
        x = item[0] if isinstance(item, tuple | list) else item
        try:
            return torch.as_tensor(x, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"a dataset must yield x or (x, y) with x an array of numbers; got {type(x).__name__} in row {row}. "
                "Turn it into a tensor in its transform."
            ) from None


def labels_of(dataset: Any) -> list[Any]:
    """The labels of a dataset that yields ``(x, y)``, each read once.

    Where the dataset keeps a list of them (`targets`, `labels`) that agrees with what it yields, the inputs need not
    be computed for that.
    """
    for name in ("targets", "labels"):
        kept = getattr(dataset, name, None)
        if isinstance(kept, list | tuple | np.ndarray | Tensor) and len(kept) == len(dataset):
            rows = np.linspace(0, len(dataset) - 1, min(PROBED, len(dataset)), dtype=int).tolist()
            values = kept.tolist() if isinstance(kept, np.ndarray | Tensor) else list(kept)
            if all(_plain(values[row]) == _label(dataset, row) for row in rows):
                return [_plain(value) for value in values]
    labels = []
    for row in range(len(dataset)):
        labels.append(_label(dataset, row))
        if row % 1_000 == 999 or row + 1 == len(dataset):
            tell(row + 1, len(dataset))
    return labels


def _label(dataset: Any, row: int) -> Any:
    item = dataset[row]
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise InputError(
            f"a dataset without labels beside it must yield (x, y); got {type(item).__name__} in row {row}. "
            "Give the labels as the second argument."
        )
    return _plain(item[1])


def _plain(label: Any) -> Any:
    """A label of one element as a number or text of Python."""
    return label.item() if hasattr(label, "item") else label
