"""A method that interrupts its own training, always at the same place: what a signal at some moment leaves to luck."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from selc.methods import SELC
from selc.types import Batch


class Interrupting(SELC):
    """SELC that sends its process a signal in the third epoch if the file ``fuse`` is there, which it removes first."""

    def __init__(self, *, number: int = 0, fuse: str = "") -> None:
        super().__init__(start=1)
        self.number, self.fuse = number, fuse

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if batch.clock > 2.4 and Path(self.fuse).exists():
            Path(self.fuse).unlink()
            os.kill(os.getpid(), self.number)
        return super().loss(outputs, batch)
