"""What the training pass shows of each sample, at no extra pass: its loss on the given label, and its prediction."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from selc.files import read_tensors, write_tensors
from selc.methods.base import Method
from selc.types import Pass

TOGETHER = 2**16  # outputs of batches that are worked on in one call


class Record:
    """The training pass of each epoch; in memory, or in one file per epoch."""

    def __init__(self, num_rows: int, num_classes: int, device: torch.device, folder: Path | None) -> None:
        self.num_rows, self.folder = num_rows, folder
        self.dtype = torch.int16 if num_classes < 2**15 else torch.int32
        self.device = device
        self.epochs: dict[int, Pass] = {}
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
        if len(self.waiting) * outputs.numel() >= TOGETHER:
            self.settle(method)

    @torch.no_grad()
    def settle(self, method: Method) -> None:
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
        """Keep the epoch, and return it."""
        self.settle(method)
        believed = torch.full((self.num_rows,), -1, dtype=self.dtype) if beliefs is None else beliefs.to(self.dtype)
        kept = Pass(self.losses.cpu(), self.predictions.cpu(), self.confidences.cpu(), believed.cpu())
        if self.folder is None:
            self.epochs[epoch] = kept
        else:
            write_tensors(self._file(epoch), kept._asdict())
        return kept

    def epoch(self, epoch: int) -> Pass:
        return self.epochs[epoch] if self.folder is None else Pass(**read_tensors(self._file(epoch)))

    def read(self, epochs: range) -> Pass:
        """Some epochs together, [E, N] each."""
        return Pass(*(torch.stack(parts) for parts in zip(*(self.epoch(e) for e in epochs), strict=True)))

    def _file(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"epoch-{epoch:04d}.safetensors"
