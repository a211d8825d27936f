"""A part of the noisy rows that is held out, and the epoch that is best on it: what several papers choose by."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods.base import Method, Net
from selc.seeding import generator
from selc.types import Labels, StagePlan, Sweep, TrainSet


class BestEpoch(Method):
    """Cross entropy that keeps the network, and as its belief the predictions, of its best epoch on ``judges``.

    Best is the largest share of given labels that are predicted, or the smallest mean loss; of several as good the
    first.
    """

    best: nn.Module
    score: Tensor

    def __init__(self, judges: Tensor, by: Literal["accuracy", "loss"]) -> None:
        super().__init__()
        self.judges, self.by = judges, by

    def build(self, net: Net, num_classes: int) -> nn.Module:
        model = net(num_classes)
        self.best = copy.deepcopy(model)
        self.__dict__["model"] = model  # not registered: it is no part of the method
        return model

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given = data.labels
        self.predicted = data.new_store()
        self.register_buffer("score", torch.tensor(-torch.inf))

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        p = sweep()
        measure = agreement if self.by == "accuracy" else likelihood
        score = measure(p, self.given, self.judges)
        if bool(score > self.score):
            self.score.copy_(score)
            for index, rows in p.blocks():
                self.predicted.write(index, rows)
            self.best.load_state_dict(self.__dict__["model"].state_dict())

    def belief(self, sweep: Sweep) -> Store:
        return self.predicted


def hold_out(data: TrainSet, share: float, *key: str | int) -> tuple[Tensor, TrainSet]:
    """Rows to judge by, drawn by ``key``, and the data without them."""
    rows = torch.arange(len(data), device=data.labels.hard.device) if data.rows is None else data.rows
    mixed = rows[torch.randperm(len(rows), generator=generator(*key, "held out", len(rows))).to(rows.device)]
    cut = max(1, int(share * len(rows)))
    return mixed[:cut].sort().values, replace(data, rows=mixed[cut:].sort().values)


def agreement(p: Store, given: Labels, rows: Tensor) -> Tensor:
    """The share of rows whose likeliest class is the given one."""
    return (p.read(rows).argmax(dim=1) == given.hard[rows]).float().mean()


def likelihood(p: Store, given: Labels, rows: Tensor) -> Tensor:
    """The mean log probability of the given labels."""
    q = p.read(rows)
    return torch.xlogy(given.read(rows), q.clamp_min(torch.finfo(q.dtype).tiny)).sum(dim=1).mean()


def check_held_out(share: float, name: str = "held_out") -> float:
    if not 0 < share < 1:
        raise ConfigError(f"{name} must be in (0, 1); got {share}. It is the share of the rows that is held out.")
    return share


def check_leaves_rows(data: TrainSet, share: float, name: str = "held_out") -> None:
    """Refuse data of which nothing would be held out, or nothing left."""
    rows = len(data) if data.rows is None else len(data.rows)
    if not 1 <= int(share * rows) < rows:
        raise ConfigError(f"{name} must hold out a row and leave some to learn from; got {share} of {rows} rows.")
