"""States at the beginnings of a few epochs, for a method that steps back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc.core.world import current
from selc.files import read_tensors, write_tensors

LIMIT = 8


class Snapshots:
    """Tensors and plain values by epoch, in memory or in a folder; which epochs are kept depends on the time alone.

    Epochs 0 to 4 and then 6, 8, 12, 16, 24, ...: each is at most half as late again as the one before, and only the
    last eight are kept. Of several processes the first writes to the folder, and all read it.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.memory: dict[int, dict[str, Tensor]] = {}

    def keeps(self, epoch: int) -> bool:
        """Whether the state of an epoch is kept: who asks first need not copy the others."""
        odd = epoch
        while odd and odd % 2 == 0:
            odd //= 2
        return odd in (0, 1, 3)

    def save(self, epoch: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Keep ``tensors``, which are copies as `pack` makes them, if the epoch is one that is kept."""
        if not self.keeps(epoch) or (self.folder is not None and not current().leads):
            return
        packed = {**tensors, "values": torch.tensor(list(json.dumps(values).encode()), dtype=torch.uint8)}
        if self.folder is None:
            self.memory[epoch] = packed
        else:
            write_tensors(self._file(epoch), packed)
        for old in self.epochs()[:-LIMIT]:
            if self.folder is None:
                del self.memory[old]
            else:
                self._file(old).unlink()

    def load(self, epoch: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = dict(self.memory[epoch]) if self.folder is None else read_tensors(self._file(epoch))
        values = json.loads(bytes(tensors.pop("values").tolist()))
        return tensors, values

    def epochs(self) -> list[int]:
        if self.folder is None:
            return sorted(self.memory)
        return sorted(int(path.stem.removeprefix("epoch-")) for path in self.folder.glob("epoch-*.safetensors"))

    def before(self, clock: float) -> int:
        """The latest epoch at or before ``clock`` of which there is a state; every process asks."""
        return int(current().broadcast(max((epoch for epoch in self.epochs() if epoch <= clock), default=0)))

    def _file(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"epoch-{epoch:04d}.safetensors"
