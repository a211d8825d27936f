"""What a network predicts of its training samples in an epoch, taken down batch by batch without waiting for a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from selc.errors import InputError
from selc.losses.cross_entropy import log_softmax

MANY, COLUMNS = 256, 64  # classes from which on a batch is searched by columns, and how many of these
AT_ONCE = 2**16  # outputs of small batches that wait for each other to be worked on in one call


class Seen(NamedTuple):
    """What was predicted of the rows in one epoch, [N] each; NaN and -1 where a row did not come."""

    losses: Tensor  # -log of the probability of the given label
    predictions: Tensor  # predicted class
    confidences: Tensor  # its probability


def class_type(num_classes: int) -> torch.dtype:
    """The narrowest integers that hold a class, or -1 for none."""
    return torch.int16 if num_classes < 2**15 else torch.int32


def unseen(rows: int, num_classes: int) -> Seen:
    """An epoch in which no row has come yet."""
    nothing = torch.full((rows,), torch.nan)
    return Seen(nothing, torch.full((rows,), -1, dtype=class_type(num_classes)), nothing.clone())


def most_likely(scores: Tensor) -> Tensor:
    """The class with the largest score of each row, [B].

    On a CPU argmax looks at one number after the other, which takes longer than the softmax of many classes. So the
    classes are laid out in lines of ``COLUMNS``, whose largest numbers are found by whole registers; then one
    column is left to be searched.
    """
    B, classes = scores.shape
    if classes < MANY or scores.device.type != "cpu":
        return scores.argmax(dim=1)
    lines, rest = divmod(classes, COLUMNS)
    largest = scores[:, : lines * COLUMNS].reshape(B, lines, COLUMNS).amax(dim=1)
    if rest:
        largest[:, :rest] = torch.maximum(largest[:, :rest], scores[:, -rest:])
    column = largest.argmax(dim=1, keepdim=True)
    places = (column + torch.arange(0, classes, COLUMNS)).clamp_(max=classes - 1)
    return places.gather(1, scores.gather(1, places).argmax(dim=1, keepdim=True))[:, 0]


class Tables:
    """The epoch that is going on, where the outputs are; one row more than samples takes what belongs nowhere."""

    def __init__(self, labels: Tensor, seen: Seen, device: torch.device) -> None:
        self.rows = len(labels)
        self.labels = torch.cat([labels, labels[:1]]).to(device)
        self.seen = Seen(*(torch.cat([part, part[:1]]).to(device) for part in seen))
        self.visit = torch.zeros(self.rows + 1, dtype=torch.int64, device=device)  # the last one of each row
        self.visits = 0
        self.outside = torch.zeros((), dtype=torch.int64, device=device)  # how many belonged nowhere
        self.others = torch.zeros((), dtype=torch.int64, device=device)  # labels that are not those of the table

    def write(self, rows: Tensor, logits: Tensor, given: list[tuple[Tensor, Tensor]]) -> None:
        log_p = log_softmax(logits)
        predicted = most_likely(log_p)
        largest = log_p.gather(1, predicted[:, None])[:, 0]
        inside = (rows >= 0) & (rows < self.rows)
        self.outside += (~inside).sum()
        rows = torch.where(inside, rows, self.rows)
        loss = -log_p.gather(1, self.labels[rows][:, None])[:, 0]
        rows = torch.where(torch.isfinite(loss) & torch.isfinite(largest), rows, self.rows)
        # Of a row that comes twice the last visit is written, all of it: which of two writes wins is not defined.
        visit = torch.arange(self.visits + 1, self.visits + len(rows) + 1, device=rows.device)
        self.visits += len(rows)
        self.visit.scatter_reduce_(0, rows, visit, "amax")
        rows = torch.where(self.visit[rows] == visit, rows, self.rows)
        for table, values in zip(self.seen, (loss, predicted, largest.exp()), strict=True):
            table.index_copy_(0, rows, values.to(table.dtype))
        for index, labels in given:
            index = index.to(rows.device).long().clamp(0, self.rows)
            self.others += (self.labels[index] != labels.to(rows.device)).sum()

    def read(self) -> Seen:
        outside, others = torch.stack([self.outside, self.others]).tolist()
        if outside:
            raise InputError(
                f"index must be in 0..{self.rows - 1}, the rows of the label table; got {outside} in this epoch that "
                "are not. Give Recorder the labels of the whole training set, in the order of the dataset."
            )
        if others:
            raise InputError(
                f"labels must be those of the table at index; got {others} in this epoch that differ. The index must "
                "be the place in the dataset, not in the batch: wrap the dataset in IndexedDataset."
            )
        return Seen(*(part[:-1].cpu() for part in self.seen))


def stacked(epochs: list[Seen]) -> Seen:
    """Epochs together, [E, N]."""
    return Seen(*(torch.stack(parts) for parts in zip(*epochs, strict=True)))


def filled(epochs: list[Seen]) -> Seen:
    """Epochs together; where a row did not come it is as it was before, or where it never had come as it was next."""
    epochs = list(epochs)
    for order in (range(1, len(epochs)), range(len(epochs) - 2, -1, -1)):
        for place in order:
            nearest = epochs[place - order.step]
            there = epochs[place].predictions >= 0
            epochs[place] = Seen(*(torch.where(there, *pair) for pair in zip(epochs[place], nearest, strict=True)))
    return stacked(epochs)
