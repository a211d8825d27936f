"""What the training pass shows of each sample, at no extra pass: its loss on the given label, and its prediction."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from selc.files import read_tensors, write_tensors
from selc.methods.base import Method


class Record:
    """The losses and predictions of each epoch, [E, N]; in memory, or in one file per epoch."""

    def __init__(self, num_rows: int, num_classes: int, device: torch.device, folder: Path | None) -> None:
        self.num_rows, self.folder = num_rows, folder
        self.dtype = torch.int16 if num_classes < 2**15 else torch.int32
        self.device = device
        self.epochs: list[tuple[Tensor, Tensor]] = []
        self.begin()

    def begin(self) -> None:
        """Make room for an epoch."""
        self.noted: list[tuple[Tensor, Tensor, Tensor]] = []

    @torch.no_grad()
    def note(self, method: Method, outputs: Tensor, target: Tensor, index: Tensor) -> None:
        """Take down a batch; its values go to their rows at the end of the epoch, all in one call."""
        log_p = method.log_probs(outputs)
        self.noted.append((index, (target * log_p).sum(dim=1), log_p.argmax(dim=1)))

    def end(self, epoch: int) -> tuple[Tensor, Tensor]:
        """Keep the epoch; return its losses and predictions."""
        losses = torch.full((self.num_rows,), torch.nan, device=self.device)
        predictions = torch.full((self.num_rows,), -1, dtype=self.dtype, device=self.device)
        if self.noted:
            index, log_likelihood, predicted = map(torch.cat, zip(*self.noted, strict=True))
            losses.index_copy_(0, index, -log_likelihood)
            predictions.index_copy_(0, index, predicted.to(self.dtype))
        kept = losses.cpu(), predictions.cpu()
        if self.folder is None:
            self.epochs[epoch:] = [kept]
        else:
            write_tensors(self._file(epoch), {"losses": kept[0], "predictions": kept[1]})
        return kept

    def read(self, epochs: int) -> tuple[Tensor, Tensor]:
        """Losses and predictions of the first ``epochs`` epochs, [E, N] each."""
        if self.folder is not None:
            files = [read_tensors(self._file(epoch)) for epoch in range(epochs)]
            kept = [(file["losses"], file["predictions"]) for file in files]
        else:
            kept = self.epochs[:epochs]
        losses, predictions = zip(*kept, strict=True)
        return torch.stack(losses), torch.stack(predictions)

    def _file(self, epoch: int) -> Path:
        assert self.folder is not None
        return self.folder / f"epoch-{epoch:04d}.safetensors"
