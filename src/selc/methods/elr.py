"""Liu, Niles-Weed, Razavian and Fernandez-Granda: Early-Learning Regularization Prevents Memorization of Noisy
Labels. NeurIPS 2020."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import check_alpha, soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method
from selc.types import Batch, StagePlan, Sweep, TrainSet

EDGE = 1e-4  # keeps <t, q> below one, so that the logarithm stays finite (the authors' constant)


@METHODS.register("elr")
class ELR(Method):
    """Early-learning regularisation: predictions are held close to their own running average.

        q = clamp(p, 1e-4, 1 - 1e-4)      t <- beta t + (1 - beta) q / sum_c q_c
        L = H(y, p) + lambda log(1 - <t, q>)

    Deviations: none. t starts at zero, from the first epoch on. The defaults are those for symmetric noise on
    CIFAR-10; the authors use beta 0.9 with lambda 1 (asymmetric noise) and lambda 7 (CIFAR-100).
    """

    family = "memory"
    cost = 1.2
    parallel = True
    keeps_belief = True

    def __init__(self, *, beta: float = 0.7, lambda_: float = 3.0) -> None:
        super().__init__()
        if not lambda_ >= 0:
            raise ConfigError(f"lambda_ must be at least 0; got {lambda_}. It is the weight of the regulariser.")
        self.beta, self.lambda_ = check_alpha(beta, "beta"), lambda_

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.store = data.new_store(labels=True)  # t scaled to sum to one; before the first update the given label
        self.updates = data.new_store(1)  # how many there were: t sums to 1 - beta^updates

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        q = self.probs(outputs).clamp(EDGE, 1 - EDGE)
        target = self.updated(batch.index, (q / q.sum(dim=1, keepdim=True)).detach())
        regulariser = (1 - (target * q).sum(dim=1)).log()
        return soft_cross_entropy(outputs, batch.target) + self.lambda_ * regulariser

    def belief(self, sweep: Sweep) -> Store:
        return self.store

    @torch.no_grad()
    def updated(self, index: Tensor, q: Tensor) -> Tensor:
        """t of the rows at ``index`` after one more update by ``q``, which sums to one."""
        updates = self.updates.read(index) + 1
        total = 1 - self.beta**updates
        scaled = torch.lerp(self.store.read(index), q, (1 - self.beta) / total)
        self.store.write(index, scaled)
        self.updates.write(index, updates)
        return total * scaled
