"""Zhang, Cisse, Dauphin and Lopez-Paz: mixup: Beyond Empirical Risk Minimization. ICLR 2018."""

from __future__ import annotations

import math

from torch import nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods.base import METHODS, Method
from selc.methods.parts import mixup
from selc.types import Batch, StagePlan, Step, TrainSet


@METHODS.register("mixup")
class Mixup(Method):
    """Training on mixtures of two samples and of their labels.

        x' = l x_i + (1 - l) x_j      L = l H(y_i, p') + (1 - l) H(y_j, p')      l ~ Beta(a, a), one for a batch

    Deviations: partners are drawn within a shard of the data, so that the result does not depend on the number
    of processes. A step has no outputs of unmixed inputs, so no losses on the given labels are recorded.
    """

    parallel = True

    def __init__(self, *, concentration: float = 1.0) -> None:
        super().__init__()
        if not 0 <= concentration < math.inf:
            raise ConfigError(
                f"concentration must be a number from 0; got {concentration}. It is the parameter of the Beta "
                "distribution of the weights; 0 means no mixing, the authors use 1."
            )
        self.concentration = concentration

    def step(self, model: nn.Module, batch: Batch) -> Step:
        x, target = mixup(batch, self.concentration)
        return Step(soft_cross_entropy(model(x), target), None)

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if plan.batch_size > 1:
            return None
        return "nothing can be mixed: mixup takes its partners from the batch, and batch_size is 1. Raise it."
