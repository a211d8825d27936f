"""Inputs that come from any map-style torch dataset, through a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


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
        )
        for x in loader:
            yield x.to(self.device, non_blocking=True)

    def to(self, device: torch.device) -> DatasetInputs:
        return DatasetInputs(self.dataset, self.workers, device)


class _OnlyInputs(Dataset[Tensor]):
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Tensor:
        item = self.dataset[row]
        return torch.as_tensor(item[0] if isinstance(item, tuple | list) else item)
