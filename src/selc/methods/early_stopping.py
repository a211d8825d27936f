"""Toner and Storkey: Noisy Early Stopping for Noisy Labels. arXiv 2409.06830, 2024. Why noisy rows may judge: Chen, Ye,
Chen, Zhao and Heng: Robustness of Accuracy Metric and its Inspirations in Learning with Noisy Labels. AAAI 2021."""

from __future__ import annotations

from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.judge import judge
from selc.methods.selc import Until
from selc.types import Outcome, TrainSet


@METHODS.register("early-stopping")
class EarlyStopping(Method):
    """Cross entropy that ends in the epoch in which most given labels of held-out rows were predicted.

        T = argmax_e share of held-out rows with argmax p_e = y      L = H(y, p) for T epochs

    A wrong label cannot be predicted, only learnt by heart: the accuracy on noisy rows that are not trained on is
    largest where that on clean ones is, if in each class most labels are right. What is held out, and how often it is
    looked at, is as for SELC (`selc.methods.judge`), so the two differ by what happens after the turning point alone.

    Deviations: the accuracy is the mean over three neighbouring looks; where there is time for it, five parts are held
    out in turn and a sixth training on all rows ends in the epoch that they found, so that no row is lost. A training
    that only ever rose goes on to its end.
    """

    family = "stopping"
    needs = "a part of the rows is held out"
    cost = 1.2

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        judged = judge(data, train)
        if judged.evidence is None:  # too few rows to hold any out
            return train(CE(), data)
        best = min(max(1, round(judged.decision.best)), train.epochs)
        train.tell(f"Held-out rows were predicted best after {best} of {train.epochs} epochs: the training ends there.")
        if judged.watched is None:
            return train(CE(), judged.data, callbacks=[Until(best)])
        return train(CE(), judged.data, start_from=(judged.watched, best - 1), callbacks=[Until(best)])
