"""Gui, Wang and Tian: Towards Understanding Deep Learning from Noisy Labels with Small-Loss Criterion. IJCAI 2021."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from selc.analysis.label_analysis import judgements
from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.judge import Judged, judge
from selc.methods.parts import given_for
from selc.types import Outcome, StagePlan, Sweep, TrainSet

Rates = float | tuple[float, ...] | Literal["auto"]


@METHODS.register("rsl")
class RSL(Method):
    """Trains once, keeps the samples of each class with the smallest mean loss, and trains again on those.

        prop_i = max(1 - (1 + beta) eta_i, (1 - beta) (1 - eta_i))      z_i = prop_i n_i / p_i
        quota_i = min(gamma p_i min z, prop_i n_i)                      gamma = 1 + balance (max z / min z - 1)

    n_i samples are labelled i, the share eta_i of them wrongly, and p_i is the share of class i in truth. The losses
    are those of all epochs of the first training. ``noise_rate`` is eta: for all classes, for each, or ``"auto"``.

    Deviations: eta and p are estimated from rows that were held out (the authors use the true ones); the losses are
    those of the training pass (the authors sweep after each epoch; so does ``train.losses="sweep"``). It is the plain
    variant, without MixMatch.
    """

    family = "selection"
    needs = "noise rate of each class (estimated)"
    cost = 1.8
    parallel = True

    def __init__(self, *, noise_rate: Rates = "auto", beta: float = 0.2, balance: float = 0.5) -> None:
        super().__init__()
        if not (0 <= beta < 1 and 0 <= balance <= 1):
            raise ConfigError(f"beta must be in [0, 1) and balance in [0, 1]; got {beta} and {balance}.")
        rates = (noise_rate,) if isinstance(noise_rate, float | int) else noise_rate
        if noise_rate != "auto" and not all(isinstance(rate, float | int) and 0 <= rate < 1 for rate in rates):
            raise ConfigError(
                "noise_rate must be in [0, 1), one for all classes or one for each, or 'auto'; "
                f"got {noise_rate!r}. It is the share of wrong labels."
            )
        self.noise_rate, self.beta, self.balance = noise_rate, beta, balance

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if isinstance(self.noise_rate, tuple | list) and len(self.noise_rate) != data.num_classes:
            raise ConfigError(
                f"noise_rate must be one number, or one for each of the {data.num_classes} classes; "
                f"got {len(self.noise_rate)}."
            )
        return None

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data = data

    def belief(self, sweep: Sweep) -> Store:
        """The given labels of the samples that were kept, and the network's probabilities of the others."""
        return given_for(self.data, self.data.rows, sweep())

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        eta, prior = estimated(judge(data, train), data)
        first = train(CE(), data)
        if not isinstance(self.noise_rate, str):
            eta = torch.tensor(self.noise_rate, dtype=torch.float64).expand(data.num_classes)
        rows = torch.arange(len(data)) if data.rows is None else data.rows.cpu()
        labels = data.labels.hard.cpu()[rows]
        counts = torch.bincount(labels, minlength=data.num_classes)
        quota = quotas(counts, eta, prior, self.beta, self.balance)
        chosen = rows[smallest(first.losses.nanmean(dim=0)[rows], labels, quota)]
        return train(self, replace(data, rows=chosen.to(data.labels.hard.device)))


def quotas(counts: Tensor, eta: Tensor, prior: Tensor, beta: float, balance: float) -> Tensor:
    """How many samples of each class to keep, [C]; at least one of every class that is there."""
    prop = torch.maximum(1 - (1 + beta) * eta, (1 - beta) * (1 - eta))
    available = prop * counts
    z = (available / prior)[counts > 0]
    gamma = 1 + balance * (z.max() / z.min() - 1)
    quota = torch.minimum(gamma * prior * z.min(), available)
    return (quota + 1e-9).long().clamp_min(1).minimum(counts)  # 0.7 x 10 may be a little less than 7 in a computer


def smallest(losses: Tensor, labels: Tensor, quota: Tensor) -> Tensor:
    """The places of the ``quota`` smallest losses of each class, in increasing order."""
    by_loss = losses.argsort(stable=True)
    order = by_loss[labels[by_loss].argsort(stable=True)]  # class by class, each by its losses
    sizes = torch.bincount(labels, minlength=len(quota))
    rank = torch.arange(len(labels)) - (sizes.cumsum(0) - sizes)[labels[order]]
    return order[rank < quota[labels[order]]].sort().values


def estimated(judged: Judged, data: TrainSet) -> tuple[Tensor, Tensor]:
    """The share of wrong labels in each given class, and the share of each class in truth, [C] each.

    They are read off rows that were held out. More of their labels are contradicted than are wrong, because some rows
    are hard, so the shares are scaled to the estimate of the noise rate; a class without a prediction counts as if it
    had one.
    """
    given, C = data.labels.hard.cpu(), data.num_classes
    if judged.evidence is None:
        prior = (torch.bincount(given, minlength=C) + 1).double()
        return torch.zeros(C, dtype=torch.float64), prior / prior.sum()
    found = judgements(judged.evidence, judged.decision, None, given)
    rate = found.noise(C).rate.likely
    labels, wrong = judged.evidence.labels, found.held_contradicted
    share = torch.bincount(labels[wrong], minlength=C) / torch.bincount(labels, minlength=C).clamp_min(1).double()
    scale = rate / max(float(wrong.double().mean()), 1e-9)
    prior = (torch.bincount(found.held_predicted, minlength=C) + 1).double()
    return (scale * share).clamp(max=1 - 1 / C), prior / prior.sum()
