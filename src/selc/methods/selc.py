"""Lu and He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022."""

from __future__ import annotations

from torch import Tensor

from selc.core.loss import (
    Option,
    check_alpha,
    check_option,
    check_start,
    confidence_weights,
    soft_cross_entropy,
)
from selc.core.store import Store
from selc.methods.base import METHODS, Method, detached_probs
from selc.methods.parts import label_store, normalised
from selc.types import Batch, Sweep, TrainSet


@METHODS.register("selc")
class SELC(Method):
    """Self-ensemble label correction: targets are a running average of the given label and own predictions.

        t <- alpha t + (1 - alpha) p      L = -sum_c t_c log p_c

    Deviations: none from the paper's Eq. 4 and 6. ``start`` counts epochs of plain CE from 0 and may have a
    fraction. ``weighted`` adds the weight of self-adaptive training. The authors' code takes log(softmax),
    which is not finite for large logits, and looks ``start`` up by the true noise rate.
    """

    family = "memory"
    keeps_belief = True

    def __init__(self, *, start: float = 10, alpha: float = 0.9, option: Option = "II", weighted: bool = False) -> None:
        super().__init__()
        self.start, self.alpha = check_start(start), check_alpha(alpha)
        self.option, self.weighted = check_option(option), weighted

    def setup(self, data: TrainSet) -> None:
        self.given = data.labels
        self.store = label_store(data.labels) if self.option == "II" else Store(len(data), data.num_classes)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if batch.clock < self.start:
            return soft_cross_entropy(outputs, batch.target)
        target = self.store.ema(batch.index, detached_probs(self, outputs), self.alpha)  # Eq. 4
        loss = soft_cross_entropy(outputs, target)  # Eq. 6
        return confidence_weights(target) * loss if self.weighted else loss

    def belief(self, sweep: Sweep) -> Store:
        return self.store if self.option == "II" else normalised(self.store, self.given)
