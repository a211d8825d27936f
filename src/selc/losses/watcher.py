"""The turning point for training loops that are not ours, which have no held-out rows: by changes of mind.

Yuan, Feng and Liu: Early Stopping Against Label Noise Without Validation Data (Label Wave). ICLR 2024.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from selc.errors import InputError

TOGETHER = 3  # epochs that are averaged
PATIENCE = 0.1  # of all epochs: so long a turning point must lie back
LEAST = 2  # epochs that it is waited for in a short training


class Turn(NamedTuple):
    """When the network changed its mind about its training samples least, and when that was known."""

    peak: float  # epochs after which it changed least: it had learnt the pattern, and not yet the wrong labels
    known: int  # epochs after which that was clear


def waited(epochs: float) -> float:
    """For how many epochs of so many a turning point must lie back before it counts."""
    return max(LEAST, PATIENCE * epochs) if math.isfinite(epochs) else TOGETHER + LEAST


class Watcher(nn.Module):
    """Watches a training whose loop is not ours: feed it every batch, ask it after every epoch.

    A network changes its predictions of the training samples ever less while it learns the pattern; when it begins to
    learn wrong labels by heart, it changes them more often again. The first minimum is taken for the turning point.

    Parameters
    ----------
    samples : int
        Number N of training samples.
    epochs : float, optional
        Length of the training: a minimum counts once it lies a tenth of it back. Without it, five epochs.

    References
    ----------
    Yuan, Feng and Liu: Early Stopping Against Label Noise Without Validation Data (Label Wave). ICLR 2024.

    Examples
    --------
    Six samples; in the third and fourth epoch fewest predictions change.

    >>> import torch
    >>> from selc import Watcher
    >>> watcher = Watcher(6, epochs=10)
    >>> predicted = [[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0],
    ...              [1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0], [1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0]]
    >>> for classes in predicted:
    ...     outputs = torch.nn.functional.one_hot(torch.tensor(classes), 2).float()
    ...     watcher.feed(torch.arange(6), outputs)
    ...     turn = watcher.ask()
    >>> turn.peak  # epochs after which predictions had changed least
    4.0
    """

    said: Tensor
    counts: Tensor

    def __init__(self, samples: int, epochs: float = math.inf) -> None:
        super().__init__()
        self.epochs = epochs
        self.changes: list[float] = []  # share of the samples whose prediction changed in an epoch, from the second on
        self.register_buffer("said", torch.full((samples,), -1))  # the class that was predicted last
        self.register_buffer("counts", torch.zeros(3, dtype=torch.int64))  # of this epoch: seen, seen before, changed

    @torch.no_grad()
    def feed(self, index: Tensor, outputs: Tensor) -> None:
        """Take down a batch of the training pass: rows and logits."""
        index, predicted = index.to(self.said.device), outputs.detach().argmax(dim=-1).to(self.said.device)
        before = self.said[index]
        known = before >= 0
        self.counts += torch.stack([torch.ones_like(known), known, known & (before != predicted)]).sum(dim=1)
        self.said.index_copy_(0, index, predicted)

    def ask(self) -> Turn | None:
        """Call it once at the end of each epoch: whether the turning point has passed."""
        seen, before, changed = self.counts.tolist()
        if seen == 0:
            raise InputError("a watcher must be fed the batches of an epoch before it is asked; got none.")
        if before:
            self.changes.append(changed / before)
        self.counts.zero_()
        return self.turn()

    def turn(self) -> Turn | None:
        """What the epochs so far show."""
        return first_minimum(self.changes, waited(self.epochs))

    @property
    def earliest(self) -> int:
        """Epochs before which no turning point is known, whatever they show."""
        return math.ceil(waited(self.epochs)) + TOGETHER + 1

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.changes, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.changes = state.tolist()


def first_minimum(changes: list[float], patience: float) -> Turn | None:
    """The first minimum of the mean over three epochs that was not undercut for ``patience`` epochs.

    ``changes`` begin with those between the first and the second epoch.
    """
    if len(changes) < TOGETHER:
        return None
    means = torch.tensor(changes, dtype=torch.float64).unfold(0, TOGETHER, 1).mean(dim=1).tolist()
    least = 0
    for place, mean in enumerate(means):
        if mean < means[least]:
            least = place
        elif place - least >= patience:
            return Turn(least + TOGETHER // 2 + 2.0, place + TOGETHER + 1)
    return None
