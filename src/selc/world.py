"""The processes that train together, as far as anything but the engine needs to know of them.

``current()`` is the world of torch.distributed where it is initialised, else the world of one, in which every function
is the identity. Plain values travel as JSON and rows as bytes: nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


class World:
    """A number of processes, and which of them this is. This one is alone."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that speaks and writes."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        return values

    def gather(self, rows: Tensor) -> list[Tensor]:
        """The rows [B, ...] of every process, by rank; their numbers may differ, not the rest of the shape."""
        return [rows]

    def gather_rows(self, index: Tensor, rows: Tensor, total: int) -> Tensor:
        """A table [total, ...] with the rows of all processes at their ``index``, in every process.

        ``index`` is sorted and no two processes share a row; rows that nobody has are zeros.
        """
        if len(rows) == total:
            return rows
        return rows.new_zeros(total, *rows.shape[1:]).index_copy_(0, index, rows)

    def broadcast(self, value: Any) -> Any:
        """The value of the first process; anything that JSON can hold."""
        return value

    def barrier(self) -> None:
        """Wait until every process is here."""

    def in_turn(self, make: Callable[[], T]) -> T:
        """What ``make`` returns, made where it may write files that the others then find.

        The first process makes it first, then the first on each machine, then the others.
        """
        return make()


class Many(World):
    """The processes of an initialised torch.distributed."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def sum(self, values: Tensor) -> Tensor:
        total = _carried(values.detach().clone())
        dist.all_reduce(total)
        return total.to(values.device)

    def gather(self, rows: Tensor) -> list[Tensor]:
        shape = rows.shape[1:]
        wide = rows.detach().reshape(len(rows), shape.numel()).contiguous()
        sent = _carried(wide).view(torch.uint8)  # as bytes: not every backend knows every type
        counts = _carried(torch.zeros(self.size, dtype=torch.int64))
        counts[self.rank] = len(rows)
        dist.all_reduce(counts)
        sizes = counts.tolist()
        longest = max(sizes)
        padded = sent.new_zeros(longest, sent.shape[1])
        padded[: len(rows)] = sent
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return [
            part[:size].contiguous().view(rows.dtype).reshape(size, *shape).to(rows.device)
            for part, size in zip(parts, sizes, strict=True)
        ]

    def gather_rows(self, index: Tensor, rows: Tensor, total: int) -> Tensor:
        table = rows.new_zeros(total, *rows.shape[1:])
        for places, part in zip(self.gather(index), self.gather(rows), strict=True):
            table.index_copy_(0, places, part)
        return table

    def broadcast(self, value: Any) -> Any:
        text = json.dumps(value).encode() if self.leads else b""
        length = _carried(torch.tensor([len(text)]))
        dist.broadcast(length, src=0)
        data = _carried(torch.zeros(int(length), dtype=torch.uint8))
        if self.leads:
            data.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        dist.broadcast(data, src=0)
        return json.loads(bytes(data.tolist()))

    def barrier(self) -> None:
        self.sum(torch.zeros(1))  # not dist.barrier: on a GPU that guesses a device

    def in_turn(self, make: Callable[[], T]) -> T:
        turn = 0 if self.leads else 1 if local_rank() == 0 else 2
        for _ in range(turn):
            self.barrier()
        made = make()
        for _ in range(2 - turn):
            self.barrier()
        return made


ALONE = World()


def current() -> World:
    """The world that this process is in."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return Many()
    return ALONE


def local_rank() -> int:
    """Which of the processes on this machine this is, as torchrun says."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def _carried(values: Tensor) -> Tensor:
    """``values`` on a device that the backend can send from: NCCL alone knows no CPU."""
    if values.device.type == "cpu" and "cpu" not in str(dist.get_backend_config()):
        return values.cuda()
    return values
