"""States at the beginnings of a few epochs, for a method that steps back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import read_tensors, write_tensors
from selc.world import current

STEPS = 5  # states within the epochs that one may want to step back


class Snapshots:
    """Tensors and plain values by epoch, in memory or in a folder; which epochs are kept depends on the time alone.

    There is a state at every fifth of the ``back`` epochs that one may want to step back, and only those are kept that
    lie so far back, and one before. Of several processes the first writes to the folder, and all read it.
    """

    def __init__(self, folder: Path | None, back: float) -> None:
        self.folder = folder
        self.every = max(1, math.ceil(back / STEPS))
        self.limit = math.ceil(back / self.every) + 2
        self.memory: dict[int, dict[str, Tensor]] = {}

    def keeps(self, epoch: int) -> bool:
        """Whether the state of an epoch is kept: who asks first need not copy the others."""
        return epoch % self.every == 0

    def save(self, epoch: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Keep ``tensors``, which are copies as `pack` makes them, if the epoch is one that is kept."""
        if not self.keeps(epoch) or (self.folder is not None and not current().leads):
            return
        packed = {**tensors, "values": torch.tensor(list(json.dumps(values).encode()), dtype=torch.uint8)}
        if self.folder is None:
            self.memory[epoch] = packed
        else:
            write_tensors(self._file(epoch), packed)
        for old in self.epochs()[: -self.limit]:
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
        """The latest epoch at or before ``clock`` of which there is a state, else the earliest; every process asks."""
        epochs = self.epochs()
        return int(current().broadcast(max((epoch for epoch in epochs if epoch <= clock), default=min(epochs))))

    def _file(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"epoch-{epoch:04d}.safetensors"
