"""Zhang, Zheng, Wu, Goswami and Chen: Learning with Feature-Dependent Label Noise: A Progressive Approach.
ICLR 2021."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, detached_probs
from selc.methods.parts import History, epochs_of
from selc.types import Batch, StagePlan, Sweep, TrainSet
from selc.world import current


@METHODS.register("plc")
class PLC(Method):
    """Progressive label correction: after a warm-up, labels that the network rejects clearly are replaced.

        f = mean of the last ``window`` predictions      y <- argmax f  if  f_y / max f < theta

    theta grows by ``growth``, up to ``limit``, after each epoch that changed fewer than ``quiet`` of the labels that
    are trained on. ``warm_up`` is a share of the epochs if below 1 (8 of 180 in the authors' code), else epochs.
    Deviations: none from the authors' CIFAR code; their text describes the test as a margin.
    """

    family = "relabelling"
    cost = 1.1
    parallel = True
    keeps_belief = True
    epochs: int  # of the stage
    rows: int  # that are trained on
    theta_now: Tensor

    def __init__(
        self,
        *,
        warm_up: float = 8 / 180,
        theta: float = 0.3,
        growth: float = 0.1,
        limit: float = 0.9,
        quiet: float = 0.001,
        window: int = 5,
    ) -> None:
        super().__init__()
        if not 0 < theta <= limit < 1:
            raise ConfigError(f"theta must be in (0, limit] and limit below 1; got {theta} and {limit}.")
        if window < 1 or warm_up < 0:
            raise ConfigError(f"window must be at least 1 and warm_up at least 0; got {window} and {warm_up}.")
        self.warm_up, self.theta, self.growth, self.limit = warm_up, theta, growth, limit
        self.quiet, self.window = quiet, window

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs
        self.history = History(data, self.window)
        self.labels = data.new_store()  # one-hot rows
        for index, rows in data.blocks():
            self.labels.write_labels(index, rows.argmax(dim=1))
        self.rows = len(data) if data.rows is None else len(data.rows)  # what is not trained on never changes
        self.register_buffer("theta_now", torch.tensor(self.theta))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.history.write(int(batch.clock), batch.index, detached_probs(self, outputs))
        return soft_cross_entropy(outputs, self.labels.read(batch.index))

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch < epochs_of(self.warm_up, self.epochs):
            return
        changed = 0
        for index, rows in self.labels.blocks():
            f = self.history.mean(index)
            best, guess = f.max(dim=1)
            label = rows.argmax(dim=1)
            rejected = f.gather(1, label[:, None]).squeeze(1) < self.theta_now * best
            other = rejected & (guess != label)
            self.labels.write_labels(index[other], guess[other])
            changed += int(other.sum())
        if int(current().sum(torch.tensor(changed))) < self.quiet * self.rows:
            self.theta_now.add_(self.growth).clamp_(max=self.limit)

    def belief(self, sweep: Sweep) -> Store:
        return self.labels
