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


def epoch_batches(
    shard: Tensor, rows: Tensor | None, batch_size: int, seed: int, epoch: int, device: torch.device
) -> list[Tensor]:
    """The rows of each batch of an epoch: every one of ``rows`` (None = all) exactly once.

    A last batch of one row joins the batch before it, because batch norm cannot take it.
    """
    chosen = torch.arange(len(shard)) if rows is None else rows.cpu()
    if len(chosen) == 0:
        raise InputError("the rows of an epoch must not be empty; got none. The method chose no sample to train on.")
    pieces, places = [], []
    for k in range(int(shard.max()) + 1):
        mine = chosen[shard[chosen] == k]
        mixed = torch.randperm(len(mine), generator=generator("order", seed, epoch, k))
        pieces.append(mine[mixed])
        places.append((torch.arange(len(mine), dtype=torch.float64) + 0.5) / max(len(mine), 1))
    order = torch.cat(pieces)[torch.cat(places).argsort(stable=True)]
    batches = list(torch.split(order.to(device), batch_size))
    if batch_size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
