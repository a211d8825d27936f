"""Xu, Cao, Kong and Wang: L_DMI: A Novel Information-theoretic Loss Function for Training Deep Nets Robust to Label
Noise. NeurIPS 2019."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Train
from selc.methods.noisy_validation import BestEpoch, check_held_out, check_leaves_rows, hold_out
from selc.methods.parts import epochs_of
from selc.types import Batch, Outcome, StagePlan, TrainSet

RIDGE = 1e-3  # keeps the determinant off zero, where its logarithm is not finite; the authors add as much to |det M|
ENOUGH = 5  # samples of each class in a batch, on average: it then lacks a given class once in e^5 batches


@METHODS.register("dmi")
class DMI(Method):
    """Cross entropy, then from its best epoch on mutual information of labels and predictions by a determinant.

        M = sum_i y_i p_i^T / B      L = -log |det M|

    Noise that depends on the class only multiplies M by its transition matrix, so it adds a constant to L. CE trains
    for the run's epochs; its best one is that with the highest accuracy on ``held_out``, a share of the noisy rows that
    neither stage trains on (10,000 of 50,000 in the authors' code). ``tuning`` is the time of the second stage: a share
    of the epochs if below 1 (100 to 120 of CE in the paper), else epochs.

    Deviations: a class that a batch lacks is left out of M, which would else have no gradient. Columns of M are
    divided by their sums before the determinant is taken (which the sum of their logarithms makes up for), and 1e-3
    is added to the diagonal, not to |det M|. Batches are stratified, and incomplete ones are used.
    """

    family = "stages"
    needs = "batches with every class; a fifth of the rows is held out"
    cost = 2.0

    def __init__(self, *, held_out: float = 0.2, tuning: float = 100 / 120, lr: float = 1e-6) -> None:
        super().__init__()
        if not tuning > 0 or not lr > 0:
            raise ConfigError(f"tuning and lr must be above 0; got {tuning} and {lr}.")
        self.held_out, self.tuning, self.lr = check_held_out(held_out), tuning, lr

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        # Double precision: a determinant of many classes is tiny, and autocast leaves its products alone.
        log_p, target = self.log_probs(outputs).cpu().double(), batch.target.cpu().double()
        there = target.sum(dim=0) > 0
        total = log_p.logsumexp(dim=0)  # log sum_i p_ic; without it a class that is hardly predicted is no problem
        eye = torch.eye(len(total), dtype=torch.float64)
        shares = torch.where(there[:, None], target.T @ (log_p - total).exp(), eye)
        means = total[there] - math.log(len(target))
        log_det: Tensor = torch.linalg.slogdet(shares + RIDGE * eye).logabsdet
        return -(means.sum() + log_det).float().to(outputs.device)

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        label = data.labels.hard if data.rows is None else data.labels.hard[data.rows]
        classes, together = len(label.unique()), min(plan.batch_size, len(label))
        if together < classes:
            raise ConfigError(
                f"a batch must hold every class for dmi; got batches of {together} for {classes} classes. "
                f"Set batch_size to {ENOUGH * classes} or more."
            )
        check_leaves_rows(data, self.held_out)
        if together < ENOUGH * classes:
            return (
                f"batches of {together} will often lack one of the {classes} classes, which dmi then learns nothing "
                f"about. A batch_size of {ENOUGH * classes} or more is better."
            )
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        tuning = max(1, epochs_of(self.tuning, train.epochs))
        judges, data = hold_out(data, self.held_out, "dmi", train.seed)
        plain = BestEpoch(judges, by="accuracy")
        train(plain, data)
        return train(self, data, model=plain.best, epochs=tuning, lr=self.lr, schedule="constant", stratified=True)
