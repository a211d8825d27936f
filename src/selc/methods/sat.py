"""Huang, Zhang and Zhang: Self-Adaptive Training: beyond Empirical Risk Minimization. NeurIPS 2020."""

from __future__ import annotations

from torch import Tensor

from selc.losses.cross_entropy import check_alpha, check_start, confidence_weights, soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, detached_probs
from selc.methods.parts import cannot_flip, epochs_of
from selc.types import Batch, StagePlan, Sweep, TrainSet
from selc.world import current


@METHODS.register("sat")
class SAT(Method):
    """Self-adaptive training: the targets of SELC, and samples weighted by how sure their target is.

        t <- alpha t + (1 - alpha) p      w = max_c t_c      L = sum_i w_i H(t_i, p_i) / sum_i w_i

    Before ``start`` (a share of the epochs if below 1: 60 of 200 in the paper; else epochs) the loss is CE.
    Deviations: none.
    """

    family = "memory"
    cost = 1.0
    parallel = True
    keeps_belief = True
    first: float  # epochs of cross entropy, in this stage

    def __init__(self, *, start: float = 0.3, alpha: float = 0.9) -> None:
        super().__init__()
        self.start, self.alpha = check_start(start), check_alpha(alpha)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.store = data.new_store(labels=True)
        self.first = self._start(plan.epochs)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if batch.clock < self.first:
            return soft_cross_entropy(outputs, batch.target)
        target = self.store.ema(batch.index, detached_probs(self, outputs), self.alpha)
        return confidence_weights(target, current()) * soft_cross_entropy(outputs, target)

    def idle(self, outputs: Tensor, clock: float) -> None:
        if clock >= self.first:
            confidence_weights(outputs, current())

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        return cannot_flip(plan.epochs - self._start(plan.epochs), self.alpha)

    def belief(self, sweep: Sweep) -> Store:
        return self.store

    def _start(self, epochs: int) -> float:
        return self.start if self.start >= 1 else epochs_of(self.start, epochs)
