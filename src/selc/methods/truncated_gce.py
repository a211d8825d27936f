"""Zhang and Sabuncu: Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels.
NeurIPS 2018 (the truncated loss)."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods.base import METHODS, Method
from selc.methods.parts import epochs_of, given_for
from selc.types import Batch, StagePlan, Sweep, TrainSet
from selc.world import current


@METHODS.register("truncated-gce")
class TruncatedGCE(Method):
    """Generalised cross entropy that leaves out samples whose label is less likely than a threshold.

        L_i = w_i (L_q(p_i) - L_q(k))      L_q(p) = (1 - p_y^q) / q      w_i = 1 if p_y > k else 0

    The weights start at one. From ``start`` on, every ``every`` epochs, a pass over the training set sets them anew.
    Both times are a share of the epochs if below 1, else epochs: 40 and 10 of 120 in the authors' experiments.

    Deviations: the weights come from the current network; the public code takes the best so far, chosen by test
    accuracy. They are set after epoch 40, 50, ..., in the public code before it. If nobody would be left, the weights
    stay as they are. Soft targets t give sum_c t_c L_q(p_c), and are kept where that is below L_q(k).
    """

    family = "selection"
    cost = 1.1
    parallel = True
    epochs: int  # of the stage

    def __init__(self, *, q: float = 0.7, k: float = 0.5, start: float = 0.33, every: float = 0.083) -> None:
        super().__init__()
        if not 0 < q <= 1:
            raise ConfigError(f"q must be in (0, 1]; got {q}. The paper uses 0.7.")
        if not 0 < k < 1:
            raise ConfigError(
                f"k must be in (0, 1); got {k}. Samples with p_y of at most k are left out; 0.5 is usual."
            )
        if not (start >= 0 and every > 0):
            raise ConfigError(f"start must be at least 0 and every above 0; got {start} and {every}.")
        self.q, self.k, self.start, self.every = q, k, start, every

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs
        self.data = data
        self.weight = data.new_store(1)
        for index, rows in self.weight.blocks():
            self.weight.write(index, torch.ones_like(rows))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        p_to_q = (self.q * self.log_probs(outputs)).exp()  # its derivative is finite at p = 0
        weight = self.weight.read(batch.index).squeeze(1)
        return weight * (self._lq(p_to_q, batch.target) - self.limit)

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        start, every = epochs_of(self.start, self.epochs), max(1, epochs_of(self.every, self.epochs))
        if epoch + 1 < start or (epoch + 1) % every:
            return
        probs = sweep()
        kept = [(index, self._lq(p**self.q, self.data.labels.read(index)) < self.limit) for index, p in probs.blocks()]
        if not int(current().sum(torch.tensor(sum(int(keep.sum()) for _, keep in kept)))):
            return
        for index, keep in kept:
            self.weight.write(index, keep.unsqueeze(1))

    def belief(self, sweep: Sweep) -> Store:
        return given_for(self.data, self.weight.full().squeeze(1).nonzero().flatten(), sweep())

    @property
    def limit(self) -> float:
        """The loss at the threshold."""
        return float((1 - self.k**self.q) / self.q)

    def _lq(self, p_to_q: Tensor, target: Tensor) -> Tensor:
        return (target * (1 - p_to_q)).sum(dim=1) / self.q
