"""Zheng, Wu, Goswami, Goswami, Metaxas and Chen: Error-Bounded Correction of Noisy Labels. ICML 2020 (LRT, AdaCorr)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from selc.errors import ConfigError
from selc.memory.store import Store, block_rows
from selc.methods.base import METHODS, Method, detached_probs
from selc.methods.parts import History, epochs_of, labels_belief
from selc.types import Batch, StagePlan, Sweep, TrainSet

SPILL = 1e-4  # weight of every other class in the retroactive term (the authors' constant)


@METHODS.register("lrt")
class LRT(Method):
    """Likelihood ratio test: a label that the network's mean prediction rejects is flipped.

        f = mean of the last ``window`` predictions      y <- argmax f  if  max f / f_y > delta
        L = -log p_y - sum_c a_c log p_c      a = 0.9 at an earlier label of the sample, 0.0001 at the other classes

    delta grows from ``delta`` at epoch ``update``, the first that flips, to ``last`` in the last epoch. The second
    term joins at epoch ``start``; the earlier label is that of the epoch before it, taken anew ``interval`` epochs
    later. These three are shares of the epochs below 1, else epochs. ``retro=0`` drops the second term.

    Deviations: delta is scaled to the length of the run (at 180 epochs it is the authors' 1.2 + 0.02 per epoch); the
    retroactive term is what their code computes, by one old label per sample; the optional second training is left out.
    """

    family = "relabelling"
    cost = 1.1
    parallel = True
    keeps_belief = True
    epochs: int  # of the stage

    def __init__(
        self,
        *,
        update: float = 30 / 180,
        delta: float = 1.2,
        last: float = 4.2,
        window: int = 10,
        retro: float = 0.9,
        start: float = 25 / 180,
        interval: float = 40 / 180,
    ) -> None:
        super().__init__()
        if not 1 <= delta <= last:
            raise ConfigError(f"delta must be at least 1 and at most last; got {delta} and {last}.")
        if window < 1 or not (update >= 0 and start >= 0 and interval >= 0):
            raise ConfigError(
                "window must be at least 1, and update, start and interval at least 0; got "
                f"{window}, {update}, {start} and {interval}."
            )
        if not retro >= 0:
            raise ConfigError(f"retro must be at least 0; got {retro}. The authors' weight of earlier labels is 0.9.")
        self.update, self.delta, self.last, self.window = update, delta, last, window
        self.retro, self.start, self.interval = retro, start, interval

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.num_classes, self.epochs = data, data.num_classes, plan.epochs
        self.history = History(data, self.window)
        self.labels, self.earlier = (data.new_store(1, dtype=torch.int64) for _ in range(2))
        for index, rows in data.blocks():
            for store in (self.labels, self.earlier):
                store.write(index, rows.argmax(dim=1, keepdim=True))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.history.write(int(batch.clock), batch.index, detached_probs(self, outputs))
        target = self._target(self.labels, batch)
        if self.retro > 0 and int(batch.clock) >= epochs_of(self.start, self.epochs):
            full = self.retro - SPILL / (self.num_classes - 1)
            target = target + SPILL + (full - SPILL) * self._target(self.earlier, batch)
        return -(target * self.log_probs(outputs)).sum(dim=1)

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        start = epochs_of(self.start, self.epochs)
        if epoch + 1 in (start, start + epochs_of(self.interval, self.epochs)):
            for index, label in self.labels.blocks():
                self.earlier.write(index, label)
        if epoch < epochs_of(self.update, self.epochs):
            return
        for index, label in self.labels.blocks(block_rows(self.num_classes)):
            f = self.history.mean(index)
            best, guess = f.max(dim=1, keepdim=True)
            # A product, as f_y may be 0; a row that was never seen has 0 on both sides and stays.
            rejected = best > self.threshold(epoch) * f.gather(1, label)
            self.labels.write(index, torch.where(rejected, guess, label))

    def threshold(self, epoch: int) -> float:
        """The likelihood ratio from which on a label is flipped after this epoch."""
        update = epochs_of(self.update, self.epochs)
        return self.delta + (self.last - self.delta) * (epoch - update + 1) / max(self.epochs - update, 1)

    def belief(self, sweep: Sweep) -> Store:
        return labels_belief(self.labels, self.data)

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        update = epochs_of(self.update, plan.epochs)
        if update < plan.epochs:
            return None
        return (
            f"no label can change: they are tested from epoch {update} on, and there are {plan.epochs}. Update earlier."
        )

    def _target(self, labels: Store, batch: Batch) -> Tensor:
        """The labels of the batch as rows; one that is still the given label stays soft if it was given so."""
        label = labels.read(batch.index)
        flipped = label != batch.target.argmax(dim=1, keepdim=True)
        return torch.where(flipped, F.one_hot(label.flatten(), self.num_classes).float(), batch.target)
