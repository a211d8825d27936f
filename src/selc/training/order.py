"""The order of the data: a function of (seed, epoch, shards) and of nothing else.

Rows are dealt once to the shards. Each epoch permutes every shard on its own and takes from all of them evenly, so
that a process which owns some of the shards can work out its part of every batch, whatever the others do.

An epoch may also be a part of the rows, with as many of each class as can be: what Clothing1M is trained with. Which
rows those are follows from the labels, the seed and the epoch, so that every process finds the same; a row stays in
its shard and keeps its number, and with it its place in the memory of a method.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from selc.errors import InputError
from selc.seeding import generator


def deal(num_rows: int, seed: int, shards: int, labels: Tensor | None = None) -> Tensor:
    """The shard of each row, [N]; sizes differ by at most one, with ``labels`` also those of each class."""
    rows = torch.randperm(num_rows, generator=generator("deal", seed))
    if labels is not None:
        rows = rows[labels.cpu()[rows].argsort(stable=True)]
    shard = torch.empty(num_rows, dtype=torch.int64)
    shard[rows] = torch.arange(num_rows) % shards
    return shard


def own_part(batches: Sequence[Tensor], shard: Tensor, rank: int, size: int) -> list[Tensor]:
    """What a process takes of each batch: the rows of its shards, which are every ``size``-th from ``rank`` on."""
    if size == 1:
        return list(batches)
    order = torch.cat(list(batches))
    mine = shard.index_select(0, order) % size == rank
    number = torch.arange(len(batches), device=order.device)
    owner = number.repeat_interleave(torch.tensor([len(batch) for batch in batches], device=order.device))
    counts = torch.bincount(owner[mine], minlength=len(batches))
    return list(order[mine].split(counts.tolist()))


class Order:
    """The order of some rows (None = all), epoch after epoch: each of them exactly once.

    With ``samples``, an epoch has only that many of them, balanced over the classes of ``labels``. ``stratified``
    spreads each class evenly over the epoch, so that every batch has its share of it.
    """

    def __init__(
        self,
        shard: Tensor,
        rows: Tensor | None,
        seed: int,
        labels: Tensor | None = None,
        samples: int = 0,
        stratified: bool = False,
    ) -> None:
        chosen = torch.arange(len(shard)) if rows is None else rows.cpu()
        if len(chosen) == 0:
            raise InputError("the rows of an epoch must not be empty; got none. The method chose no sample.")
        self.seed, self.shard = seed, shard
        self.strata = labels.cpu() if stratified and labels is not None else None
        self.balanced: Balanced | None = None
        if samples and labels is not None and samples < len(chosen):
            self.balanced = Balanced(labels.cpu(), samples, seed, chosen)
        else:
            self.place(chosen)

    @property
    def samples(self) -> int:
        """Rows in an epoch."""
        return len(self.evenly) if self.balanced is None else self.balanced.count

    def place(self, chosen: Tensor) -> None:
        """Where in an epoch each shard has its turns."""
        shard = self.shard[chosen]
        self.pieces = [chosen[shard == k] for k in range(int(self.shard.max()) + 1)]
        places = [(torch.arange(len(mine), dtype=torch.float64) + 0.5) / max(len(mine), 1) for mine in self.pieces]
        self.evenly = torch.cat(places).argsort(stable=True)  # takes from all shards at the same pace

    def batches(self, epoch: int, batch_size: int, device: torch.device) -> list[Tensor]:
        """The rows of each batch. A last batch of one row joins the one before it: batch norm cannot take it."""
        if self.balanced is not None:
            self.place(self.balanced.rows(epoch))
        mixed = [
            mine[torch.randperm(len(mine), generator=generator("order", self.seed, epoch, k))]
            for k, mine in enumerate(self.pieces)
        ]
        if self.strata is not None:
            mixed = [mine[evenly_by_class(self.strata[mine], k / len(mixed))] for k, mine in enumerate(mixed)]
        order = torch.cat(mixed)[self.evenly].to(device)
        batches = list(torch.split(order, batch_size))
        if batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches


def evenly_by_class(labels: Tensor, phase: float) -> Tensor:
    """An order in which each class comes at an even pace; shards with other phases have its rows in between."""
    by_class = labels.argsort(stable=True)
    sizes = torch.bincount(labels)
    label = labels[by_class]
    rank = torch.arange(len(labels)) - (sizes.cumsum(0) - sizes)[label]
    place = (rank + (label / len(sizes) + phase) % 1) / sizes[label]
    return by_class[place.argsort(stable=True)]


class Balanced:
    """Epochs of ``count`` rows, as even over the classes as can be without repeating a row within an epoch.

    A class that is smaller than its part gives all it has, and the others share the rest. Each class is put in a
    random order once, and every epoch goes on in it where the last one stopped, around and around: over any number of
    epochs, no row of a class comes more than once more often than another of that class. (Drawn anew in each epoch, as
    in the paper, one image of Clothing1M in sixty would never be seen.)
    """

    def __init__(self, labels: Tensor, count: int, seed: int, rows: Tensor | None = None) -> None:
        pool = torch.arange(len(labels)) if rows is None else rows
        self.count = min(count, len(pool))
        mixed = pool.sort().values[torch.randperm(len(pool), generator=generator("balanced", seed))]
        by_class = mixed[labels[mixed].argsort(stable=True)]
        sizes = torch.bincount(labels[by_class])
        self.classes = [piece for piece in by_class.split(sizes.tolist()) if len(piece)]
        whole = sorted(map(len, self.classes))
        # The level up to which every class is drawn: what the small ones cannot give goes to the others.
        left = self.count
        self.level = 0
        for number, size in enumerate(whole):
            share = left // (len(whole) - number)
            self.level = share
            if size > share:
                break
            left -= size
        self.extra = self.count - sum(min(size, self.level) for size in whole)  # one more for so many classes
        larger = [k for k, piece in enumerate(self.classes) if len(piece) > self.level]
        turn = torch.randperm(len(larger), generator=generator("balanced", seed, "turns")).tolist()
        self.turn = dict(zip(larger, turn, strict=True))

    def rows(self, epoch: int) -> Tensor:
        """The rows of an epoch, in the order of their numbers."""
        return torch.cat([self.part(k, epoch) for k in range(len(self.classes))]).sort().values

    def part(self, k: int, epoch: int) -> Tensor:
        piece: Tensor = self.classes[k]
        before, after = self.drawn(k, epoch), self.drawn(k, epoch + 1)
        return piece[torch.arange(before, after) % len(piece)]

    def drawn(self, k: int, epochs: int) -> int:
        """Rows of a class that come in the first ``epochs`` epochs, with repetitions."""
        total = epochs * min(len(self.classes[k]), self.level)
        if k in self.turn:  # the larger classes take turns in giving the odd rows
            total += max(0, -(-(epochs * self.extra - self.turn[k]) // len(self.turn)))
        return total
