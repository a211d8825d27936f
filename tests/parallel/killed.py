"""A training of two processes of which one is killed, always at the same place; apart, so that it imports no test."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from torch import Tensor

from selc.methods import SELC
from selc.types import Batch


class KilledOnce(SELC):
    """SELC whose second process, or only one, is killed in the third epoch if the file ``fuse`` is there, which is
    removed first.

    What is saved by then stays beside it as a copy of ``manifest``: the first epoch at least, as the second set out for
    the disk when the first had arrived.
    """

    def __init__(self, *, fuse: str = "", manifest: str = "") -> None:
        super().__init__(start=1)
        self.fuse, self.manifest = fuse, manifest

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        fuse = Path(self.fuse)
        if batch.clock > 2.4 and os.environ.get("RANK", "1") == "1" and fuse.exists():
            shutil.copy(self.manifest, fuse.with_suffix(".json"))
            fuse.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(outputs, batch)
