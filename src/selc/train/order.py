"""The order of the data: a function of (seed, epoch, shards) and of nothing else.

Rows are dealt once to the shards. Each epoch permutes every shard on its own and takes from all of them evenly, so
that a process which owns some of the shards can work out its part of every batch, whatever the others do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from selc.core.seeding import generator
from selc.errors import InputError


def deal(num_rows: int, seed: int, shards: int) -> Tensor:
    """The shard of each row, [N]; sizes differ by at most one."""
    shard = torch.empty(num_rows, dtype=torch.int64)
    shard[torch.randperm(num_rows, generator=generator("deal", seed))] = torch.arange(num_rows) % shards
    return shard


class Order:
    """The order of some rows (None = all), epoch after epoch: each of them exactly once."""

    def __init__(self, shard: Tensor, rows: Tensor | None, seed: int) -> None:
        chosen = torch.arange(len(shard)) if rows is None else rows.cpu()
        if len(chosen) == 0:
            raise InputError("the rows of an epoch must not be empty; got none. The method chose no sample.")
        self.seed = seed
        self.pieces = [chosen[shard[chosen] == k] for k in range(int(shard.max()) + 1)]
        places = [(torch.arange(len(mine), dtype=torch.float64) + 0.5) / max(len(mine), 1) for mine in self.pieces]
        self.evenly = torch.cat(places).argsort(stable=True)  # takes from all shards at the same pace

    def batches(self, epoch: int, batch_size: int, device: torch.device) -> list[Tensor]:
        """The rows of each batch. A last batch of one row joins the one before it: batch norm cannot take it."""
        mixed = [
            mine[torch.randperm(len(mine), generator=generator("order", self.seed, epoch, k))]
            for k, mine in enumerate(self.pieces)
        ]
        order = torch.cat(mixed)[self.evenly].to(device)
        batches = list(torch.split(order, batch_size))
        if batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
            batches[-2:] = [torch.cat(batches[-2:])]
        return batches
