"""Tanaka, Ikami, Yamasaki and Aizawa: Joint Optimization Framework for Learning with Noisy Labels. CVPR 2018."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import handed_out
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.parts import History, epochs_of
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet


@METHODS.register("joint-opt")
class JointOpt(Method):
    """Joint optimisation: the labels become the network's own mean predictions; then a fresh network learns them.

        L = H(s, p) + alpha L_p + beta H(p, p)      L_p = -sum_c prior_c log(mean over the batch of p_c)
        s <- mean of the last ``window`` predictions, after each epoch from ``begin`` on

    ``begin`` (when labels start to move) and ``second`` (length of the training on the final s) are shares of the
    epochs below 1, else epochs.

    Deviations: the logarithm of the batch mean is a logsumexp; a window that is not full yet counts the epochs that
    there were; the learning rate is the run's (constant in the first stage) where the authors tune it to the noise.
    """

    family = "relabelling"
    needs = "class prior (uniform, or that of the given labels)"
    cost = 1.7
    keeps_belief = True
    epochs: int  # of the stage
    prior_now: Tensor

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 0.5,
        begin: float = 0.35,
        window: int = 10,
        second: float = 0.6,
        prior: Literal["uniform", "given"] = "uniform",
    ) -> None:
        super().__init__()
        if not (alpha >= 0 and beta >= 0):
            raise ConfigError(
                f"alpha and beta must be at least 0; got {alpha} and {beta}. They weigh prior and entropy."
            )
        if not (begin >= 0 and second > 0):
            raise ConfigError(f"begin must be at least 0 and second more than 0; got {begin} and {second}.")
        if window < 1:
            raise ConfigError(f"window must be at least 1 epoch; got {window}. The authors use 10.")
        if prior not in ("uniform", "given"):
            raise ConfigError(f"prior must be 'uniform' or 'given'; got {prior!r}.")
        self.alpha, self.beta, self.begin, self.window = alpha, beta, begin, window
        self.second, self.prior = second, prior

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs
        self.history = History(data, self.window)
        self.labels = data.new_store(labels=True)
        share = torch.ones(data.num_classes)
        if self.prior == "given":
            label = data.labels.hard if data.rows is None else data.labels.hard[data.rows]
            share = torch.bincount(label, minlength=data.num_classes).float()
        self.register_buffer("prior_now", share / share.sum())

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        log_p = self.log_probs(outputs)
        p = log_p.exp()
        self.history.write(int(batch.clock), batch.index, p)
        fits = -(self.labels.read(batch.index) * log_p).sum(dim=1)
        log_mean = log_p.logsumexp(dim=0) - math.log(len(log_p))  # of p over the batch
        towards_prior = -(self.prior_now * log_mean).sum()
        entropy = -(p * log_p).sum(dim=1)
        return fits + self.alpha * towards_prior + self.beta * entropy

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch + 1 < epochs_of(self.begin, self.epochs):
            return
        for index, label in self.labels.blocks():
            self.labels.write(index, handed_out(self.history.mean(index), label))

    def belief(self, sweep: Sweep) -> Store:
        return self.labels

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        begin = epochs_of(self.begin, plan.epochs)
        if begin <= plan.epochs:
            return None
        return f"no label can change: they move from epoch {begin} on, and there are {plan.epochs}. Begin earlier."

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        first = train(self, data, schedule="constant")
        epochs = max(1, epochs_of(self.second, train.epochs))
        second = train(CE(), data.relabel(first.target), epochs=epochs)
        return replace(second, target=first.target)
