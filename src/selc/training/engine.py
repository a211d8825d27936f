"""The network as several processes train it: DDP, or FSDP2, which splits the weights too.

With one process the network is left as it is. A method and its tables are never inside: the engine would send them
from process to process, and each has its own.

Batch norm takes the statistics of the rows that a process has of a batch, so a network with it depends on the number
of processes; its running averages are averaged over the processes at the end of each epoch. ``sync_batchnorm`` takes
the statistics of the whole batch, on GPUs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from selc.training.checkpoints.packing import pack, pack_optimizer, unpack, unpack_optimizer
from selc.training.plan import Plan
from selc.training.uncompiled import plain_step
from selc.world import World

BUCKET = 25  # megabytes of gradients that are sent at once


class Engine:
    """One network, and how the processes of the world share the work on it."""

    def __init__(self, model: nn.Module, plan: Plan, world: World, device: torch.device) -> None:
        self.world = world
        self.split = world.size > 1 and plan.engine == "fsdp"  # then every pass through the network is a joint one
        if world.size > 1 and plan.sync_batchnorm:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        self.plain = copy.deepcopy(model).cpu() if self.split else model  # of ordinary weights, to hand out
        if self.split:
            _fully_shard(model)
        self.model = model
        self.forward = cast(nn.Module, torch.compile(model)) if plan.compile else model
        if world.size > 1 and not self.split:
            self.forward = _data_parallel(self.forward, device)
        self.optimizer = plan.make_optimizer(model, fused=not self.split)
        self.step = plain_step(self.optimizer)
        self.norms = [
            m for m in model.modules() if isinstance(m, _BatchNorm) and not isinstance(m, nn.SyncBatchNorm)
        ] * (world.size > 1)

    @contextmanager
    def for_rows(self, count: int) -> Iterator[None]:
        """Batch norm cannot take statistics of a single row: there it uses its running averages."""
        calm = [norm for norm in self.norms if norm.training] if count < 2 else []
        for norm in calm:
            norm.eval()
        try:
            yield
        finally:
            for norm in calm:
                norm.train()

    def share_buffers(self) -> None:
        """At the end of an epoch: running averages are those of all processes."""
        buffers = [b for b in self.model.buffers() if b.is_floating_point()] if self.world.size > 1 else []
        if not buffers:
            return
        mean = self.world.sum(torch.cat([b.detach().flatten().double() for b in buffers])) / self.world.size
        for buffer, part in zip(buffers, mean.split([b.numel() for b in buffers]), strict=True):
            buffer.copy_(part.view_as(buffer))

    def packed(self, prefix: str) -> dict[str, Tensor]:
        """The weights, whole, in every process."""
        if not self.split:
            return pack(prefix, self.model)
        return {f"{prefix}/{name}": _whole(value) for name, value in self.model.state_dict().items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        if not self.split:
            self.model.load_state_dict(weights)
            return
        mine = self.model.state_dict()
        self.model.load_state_dict({name: _placed(value, mine[name]) for name, value in weights.items()})

    def packed_optimizer(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return pack_optimizer(self.optimizer, _whole if self.split else None)

    def load_optimizer(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        if not self.split:
            unpack_optimizer(self.optimizer, tensors, values)
            return
        weights = [p for group in self.optimizer.param_groups for p in group["params"]]
        placed = {}
        for name, value in tensors.items():
            if name.startswith("optimizer/"):
                weight = weights[int(name.split("/")[1])]
                placed[name] = _placed(value, weight) if value.shape == weight.shape else value
        unpack_optimizer(self.optimizer, placed, values)

    def finished(self) -> nn.Module:
        """The trained network, of ordinary weights."""
        if self.split:
            self.plain.load_state_dict(unpack("", self.packed("")))
        return self.plain


def _data_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """Gradients are averaged; buffers are not sent at each step: a process would lose its own (see `share_buffers`)."""
    known = inspect.signature(DistributedDataParallel).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"  # its older name
    options: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True}
    if device.type == "cpu":  # by default the last layers are sent on their own, while the others are worked on: that
        options["bucket_cap_mb"] = BUCKET  # pays on a GPU, but here the same cores do both, and each message is a wait
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None, **options)


def _fully_shard(model: nn.Module) -> None:
    """Split the weights over the processes, layer by layer, so that a process holds one whole layer at a time."""
    from torch.distributed.fsdp import fully_shard

    for child in model.children():
        if any(True for _ in child.parameters()) and not isinstance(child, nn.ModuleList | nn.ModuleDict):
            fully_shard(child)
    fully_shard(model)


def _whole(value: Tensor) -> Tensor:
    """A tensor that is split over the processes, as one on the CPU."""
    from torch.distributed.tensor import DTensor

    return (value.full_tensor() if isinstance(value, DTensor) else value).detach().cpu().clone()


def _placed(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, split over the processes as ``like`` is."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
