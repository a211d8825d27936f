"""Small data and trainings that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc.callbacks import Callback, EpochRecord
from selc.data import ArrayInputs
from selc.methods import Method
from selc.training import Plan, Trainer
from selc.types import EvalSet, Labels, Outcome, TrainSet

CLASSES = 3


def blobs(rows: int = 90, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three well separated clouds of points in four dimensions."""
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(rows) % CLASSES
    centre = 3 * torch.eye(CLASSES, 4)
    return centre[label] + 0.5 * torch.randn(rows, 4, generator=rng), label


def train_set(rows: int = 90, wrong: int = 9) -> TrainSet:
    """The clouds, with the first ``wrong`` labels shifted by one class."""
    x, label = blobs(rows)
    given = label.clone()
    given[:wrong] = (given[:wrong] + 1) % CLASSES
    return TrainSet(ArrayInputs(x), Labels(given, CLASSES))


def small_net(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, outputs))


def trainer(folder: Path | None = None, callback: Callback | None = None, **plan: Any) -> Trainer:
    settings = {"epochs": 6, "lr": 0.05, "batch_size": 16, "shards": 4, "schedule": "constant", **plan}
    x, label = blobs(30, seed=1)
    tests = {"test": EvalSet(ArrayInputs(x), label)}
    return Trainer(Plan(**settings), small_net, tests=tests, folder=folder, callbacks=[callback] if callback else [])


def fit(method: Method, folder: Path | None = None, callback: Callback | None = None, **plan: Any) -> Outcome:
    return trainer(folder, callback, **plan).fit(method, train_set())


class BrokenOffError(Exception):
    """Raised by `StopAfter`."""


class StopAfter(Callback):
    """Breaks a training off after a number of epochs."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenOffError


def results(outcome: Outcome) -> dict[str, Any]:
    """Everything about an outcome that must not depend on interruptions: all but the time."""
    history = [{k: v for k, v in e.items() if k not in ("seconds", "samples_per_second")} for e in outcome.history]
    tensors = {f"model/{k}": v for k, v in outcome.model.state_dict().items()}
    tensors |= {"target": outcome.target.full(), "probs": outcome.probs.full()}
    tensors |= {"losses": outcome.losses, "predictions": outcome.predictions}
    tensors |= {"confidences": outcome.confidences, "beliefs": outcome.beliefs}
    return {"history": history, **tensors}


def assert_same_bits(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if isinstance(value, Tensor):
            same = torch.equal(torch.nan_to_num(value, nan=-1.0), torch.nan_to_num(theirs[name], nan=-1.0))
            assert same, f"{name} differs"
        else:
            assert value == theirs[name], f"{name} differs"
