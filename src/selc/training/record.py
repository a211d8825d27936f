"""What the training pass shows of each sample, at no extra pass: its loss on the given label, and its prediction.

In a folder an epoch is one block at the end of a file, with its checksum; blocks are only ever added, and count once a
checkpoint says so. All epochs together are read by mapping the file: [E, N] is never held in memory.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.files import make_folder, sync_folder, writing
from selc.errors import RunFolderError
from selc.losses.seen import AT_ONCE, class_type
from selc.methods.base import Method
from selc.types import Pass
from selc.world import current

FILE = "epochs.bin"


class Record:
    """The training pass of each epoch; in memory, or in a file. ``owned`` are the rows that this process sees."""

    def __init__(
        self, num_rows: int, num_classes: int, device: torch.device, folder: Path | None, owned: Tensor | None = None
    ) -> None:
        self.num_rows, self.num_classes, self.folder, self.owned = num_rows, num_classes, folder, owned
        self.dtype = class_type(num_classes)
        self.device = device
        self.epochs: list[Pass] = []
        self.known = 0  # epochs in the file that are known to be whole
        self.begin()

    def begin(self) -> None:
        """Make room for an epoch."""
        self.losses = torch.full((self.num_rows,), torch.nan, device=self.device)
        self.predictions = torch.full((self.num_rows,), -1, dtype=self.dtype, device=self.device)
        self.confidences = torch.full((self.num_rows,), torch.nan, device=self.device)
        self.waiting: list[tuple[Tensor, Tensor, Tensor]] = []

    def note(self, method: Method, outputs: Tensor, target: Tensor, index: Tensor) -> None:
        """Take down a batch. Small ones wait for each other, to be worked on in fewer calls."""
        self.waiting.append((outputs.detach(), target, index))
        if len(self.waiting) * outputs.numel() >= AT_ONCE:
            self.work_off(method)

    @torch.no_grad()
    def work_off(self, method: Method) -> None:
        """Work out the losses and predictions of the batches that wait."""
        if not self.waiting:
            return
        outputs, target, index = (list(parts) for parts in zip(*self.waiting, strict=True))
        self.waiting = []
        rows = torch.cat(index)
        log_p = method.log_probs(torch.cat(outputs, dim=-2))
        self.losses.index_copy_(0, rows, -(torch.cat(target) * log_p).sum(dim=1))
        largest, predicted = log_p.max(dim=1)
        self.predictions.index_copy_(0, rows, predicted.to(self.dtype))
        self.confidences.index_copy_(0, rows, largest.exp_())

    def end(self, method: Method, epoch: int, beliefs: Tensor | None) -> Pass:
        """Keep the epoch, and return it: all rows, in every process. ``beliefs`` [N] are those of all rows."""
        self.work_off(method)
        believed = torch.full((self.num_rows,), -1, dtype=self.dtype) if beliefs is None else beliefs.to(self.dtype)
        seen = [self._of_all(values) for values in (self.losses, self.predictions, self.confidences)]
        kept = Pass(*(values.cpu() for values in (*seen, believed)))
        self._keep(epoch, kept)
        return kept

    def copy(self, earlier: Pass, epochs: int) -> None:
        """Take over the first epochs of an earlier stage, one at a time."""
        for epoch in range(epochs):
            self._keep(epoch, Pass(*(field[epoch] for field in earlier)))

    def wait(self) -> None:
        """Every process waits for the first one, which may still be writing."""
        if self.folder is not None:
            current().barrier()

    def read(self, epochs: int) -> Pass:
        """The first epochs together, [E, N] each; of several processes, any may read once all have waited."""
        if self.folder is None:
            return Pass(*(torch.stack(parts) for parts in zip(*self.epochs[:epochs], strict=True)))
        return read_records(self.folder, epochs, self.num_rows, self.num_classes)

    def _keep(self, epoch: int, kept: Pass) -> None:
        if self.folder is None:
            self.epochs[epoch:] = [kept]
        elif current().leads:
            if epoch > self.known:  # after a resume: better said now than at the end
                read_records(self.folder, epoch, self.num_rows, self.num_classes)
            write_epoch(self.folder, epoch, kept, self.num_classes)
            self.known = epoch + 1

    def _of_all(self, values: Tensor) -> Tensor:
        """The rows of all processes."""
        if self.owned is None:
            return values
        return current().gather_rows(self.owned, values.index_select(0, self.owned), self.num_rows)


def write_epoch(folder: Path, epoch: int, kept: Pass, num_classes: int) -> None:
    """Put an epoch at its place in the file; one that a kill cut short there is written over."""
    path = folder / FILE
    block = np.zeros((), dtype=_block(kept.losses.shape[0], num_classes))
    for name in Pass._fields:
        block[name] = getattr(kept, name).numpy()
    block["check"] = _check(block)
    with writing(path):
        make_folder(folder)
        new = not path.exists()
        with open(path, "w+b" if new else "r+b") as file:
            file.seek(epoch * block.nbytes)
            file.write(block.reshape(1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_folder(folder)


def read_records(folder: Path, epochs: int, num_rows: int, num_classes: int) -> Pass:
    """The first epochs of a stage, [E, N] each, mapped from their file."""
    path, kind = folder / FILE, _block(num_rows, num_classes)
    size = path.stat().st_size if path.is_file() else 0
    if size < epochs * kind.itemsize:
        raise RunFolderError(
            f"{path} must hold {epochs} epochs of {num_rows} samples, {epochs * kind.itemsize} bytes; got {size}. "
            "It was cut short, or written by another version of selc. Bring it back from a copy, or start a new run."
        )
    # "c": a private mapping, so that nobody can change the file through the tensors.
    blocks = np.memmap(path, dtype=kind, mode="c", shape=(epochs,))
    for epoch in range(epochs):
        if blocks[epoch]["check"] != _check(blocks[epoch]):
            raise RunFolderError(
                f"{path} must hold the losses that were recorded; got other content in epoch {epoch + 1}. "
                "Bring it back from a copy, or start a new run."
            )
    fields = (np.asarray(blocks[name]) for name in Pass._fields)
    return Pass(*(torch.from_numpy(field) for field in fields))


def _block(num_rows: int, num_classes: int) -> np.dtype[Any]:
    """An epoch in the file. Wide types first, so that every value lies at a multiple of its width."""
    label = "<i2" if num_classes < 2**15 else "<i4"
    wide = [("losses", "<f4", (num_rows,)), ("confidences", "<f4", (num_rows,)), ("check", "<u4")]
    return np.dtype([*wide, ("predictions", label, (num_rows,)), ("beliefs", label, (num_rows,))])


def _check(block: Any) -> int:
    total = 0
    for name in Pass._fields:
        total = zlib.crc32(np.ascontiguousarray(block[name]).data, total)
    return total
