"""The turning point for training loops that are not ours."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from selc.core.turning import Turn, recognise
from selc.core.window import Window, changed_mind, look
from selc.errors import InputError


class Watcher(nn.Module):
    """Watches a training whose loop is not ours: feed it every batch, ask it after every epoch.

    watcher = Watcher(len(labels), epochs=100)
    ...                                     # in the loop, with outputs and labels of a batch
    watcher.feed(index, outputs, labels)
    ...                                     # at the end of an epoch
    if turn := watcher.ask(): print(turn)
    """

    noted: Tensor
    said: Tensor

    def __init__(self, samples: int, epochs: float = math.inf) -> None:
        super().__init__()
        self.epochs = epochs
        self.windows: list[Window] = []
        # Of each row loss, agreement, confidence and change of mind; and the class that was predicted last, or -1.
        self.register_buffer("noted", torch.full((4, samples), torch.nan))
        self.register_buffer("said", torch.full((samples,), -1))

    @torch.no_grad()
    def feed(self, index: Tensor, outputs: Tensor, labels: Tensor) -> None:
        """Take down a batch of the training pass: rows, logits and given labels."""
        log_p = outputs.detach().float().log_softmax(dim=-1)
        largest, predicted = log_p.max(dim=1)
        loss = -log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
        index = index.to(self.noted.device)
        changed = changed_mind(predicted, self.said[index].to(labels.device), labels, outputs.shape[1])
        rows = torch.stack([loss, (predicted == labels).float(), largest.exp(), changed.float()])
        self.noted.index_copy_(1, index, rows.to(self.noted.device))
        self.said.index_copy_(0, index, predicted.to(self.said.device))

    def ask(self) -> Turn | None:
        """Call it once at the end of each epoch: whether the turning point has passed."""
        loss, agreement, confidence, changed = self.noted[:, ~torch.isnan(self.noted[0])].cpu()
        if len(loss) == 0:
            raise InputError("a watcher must be fed the batches of an epoch before it is asked; got none.")
        self.windows.append(look(loss, agreement.bool(), confidence, len(self.windows), changed))
        self.noted.fill_(torch.nan)
        return self.turn()

    def turn(self) -> Turn | None:
        """What the epochs so far show."""
        return recognise(self.windows, len(self.windows), self.epochs)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.windows, dtype=torch.float64).reshape(-1, len(Window._fields))

    def set_extra_state(self, state: Tensor) -> None:
        self.windows = [Window(*row) for row in state.tolist()]
