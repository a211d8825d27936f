"""What a network predicts of its training samples in an epoch, taken down batch by batch without waiting for a GPU."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from selc.errors import InputError
from selc.losses.cross_entropy import are_probabilities, log_softmax

AT_ONCE = 2**16  # outputs of small batches that wait for each other to be worked on in one call
OFTEN = 4  # visits for each sample that came, from which on the index or the epoch is likely to be wrong
ROWS_AT_ONCE = 2**13  # rows whose predictions wait for each other to be written in one call


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


def said(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of outputs [B, C] the log probabilities of the labels [B, 1], the predicted classes, and the logarithm of theirs.

    Each is [B, 1]. What follows from these few numbers is left to `finished`, for many batches at once: of a small
    network every call counts.
    """
    log_p = log_softmax(logits)  # one pass, and of many classes faster than the exponentials alone
    # Between two steps of a network nothing is in the cache: one call is faster than `largest_of`, which makes ten.
    largest, predicted = log_p.max(dim=1, keepdim=True)
    return log_p.gather(1, labels), predicted, largest


def finished(given: Tensor, predicted: Tensor, largest: Tensor) -> Seen:
    """What `said` leaves to be done; not finite where the outputs were not."""
    return Seen(-given[:, 0], predicted[:, 0], largest[:, 0].exp())


class Tables:
    """The epoch that is going on, where the outputs are; one row more than samples takes what belongs nowhere."""

    def __init__(self, labels: Tensor, seen: Seen, num_classes: int, device: torch.device) -> None:
        self.rows, self.num_classes = len(labels), num_classes
        self.labels = torch.cat([labels, labels[:1]])[:, None].to(device)  # [N + 1, 1]
        self.seen = Seen(*(torch.cat([part, part[:1]]).to(device) for part in seen))
        self.visit = torch.zeros(self.rows + 1, dtype=torch.int64, device=device)  # the last one of each row
        self.visits = 0
        self.written = torch.zeros((), dtype=torch.int64, device=device)  # visits that could be written
        self.waiting: list[tuple[Tensor, tuple[Tensor, Tensor, Tensor]]] = []
        self.waits = 0  # rows in it
        self.outside = torch.zeros((), dtype=torch.int64, device=device)  # how many belonged nowhere
        self.others = torch.zeros((), dtype=torch.int64, device=device)  # labels that are not those of the table
        self.softmaxed: Tensor | None = None  # whether the first outputs were probabilities
        self.doubts: list[str] = []  # of what was read, what is likely to be a mistake

    def write(self, rows: Tensor, logits: Tensor, index: Tensor, theirs: Tensor) -> None:
        """Take down a batch. What it shows waits for that of others, so that the tables are written in fewer calls.

        ``theirs`` are labels that somebody says the samples at ``index`` have; there may be none.
        """
        if self.softmaxed is None:
            self.softmaxed = are_probabilities(logits)
        rows = rows.clamp(-1, self.rows)  # a copy; what belongs nowhere stays so, and has the label of the last row
        self.waiting.append((rows, said(logits, self.labels[rows])))
        self.waits += len(rows)
        if len(index):
            self.others += (self.labels.index_select(0, index.clamp(0, self.rows))[:, 0] != theirs).sum()
        if self.waits >= ROWS_AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Write what waits."""
        if not self.waiting:
            return
        rows = torch.cat([rows for rows, _ in self.waiting])
        seen = finished(*(torch.cat(part) for part in zip(*(told for _, told in self.waiting), strict=True)))
        self.waiting, self.waits = [], 0
        inside = (rows >= 0) & (rows < self.rows)
        self.outside += (~inside).sum()
        finite = torch.isfinite(seen.losses) & torch.isfinite(seen.confidences)
        rows = torch.where(inside & finite, rows, self.rows)
        # Of a row that comes twice the last visit is written, all of it: which of two writes wins is not defined.
        visit = torch.arange(self.visits + 1, self.visits + len(rows) + 1, device=rows.device)
        self.visits += len(rows)
        self.written += (rows < self.rows).sum()
        self.visit.scatter_reduce_(0, rows, visit, "amax")
        rows = torch.where(self.visit[rows] == visit, rows, self.rows)
        for table, values in zip(self.seen, seen, strict=True):
            table.index_copy_(0, rows, values.to(table.dtype))

    def read(self) -> Seen:
        self.settle()
        came = (self.visit[:-1] > 0).sum()
        softmaxed = self.others.new_tensor(0) if self.softmaxed is None else self.softmaxed.long()
        told = torch.stack([self.outside, self.others, self.written, came, softmaxed])
        outside, others, visits, came, softmaxed = told.tolist()
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
        if softmaxed:
            self.doubts.append("it must be given logits; got what sums to one. Leave out the softmax.")
        if visits and visits >= OFTEN * came:
            self.doubts.append(
                f"a sample should come once or twice in an epoch; got {visits} visits of {came} samples. The index "
                "must be the place in the dataset, not in the batch, and set_epoch be called before each epoch."
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
