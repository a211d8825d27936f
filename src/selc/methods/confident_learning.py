"""Northcutt, Jiang and Chuang: Confident Learning: Estimating Uncertainty in Dataset Labels. JAIR 2021."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError, TrainingError
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.seeding import generator
from selc.types import Outcome, StagePlan, TrainSet

Filter = Literal[
    "prune_by_noise_rate",
    "prune_by_class",
    "both",
    "confident_learning",
    "predicted_neq_given",
    "low_normalized_margin",
    "low_self_confidence",
]


@METHODS.register("confident-learning")
class ConfidentLearning(Method):
    """Confident learning: labels that networks trained on other samples contradict are found and left out.

        p_i = prediction of a network that was not trained on sample i (``folds`` trainings)
        t_c = mean p_c of the samples with label c      k_i = argmax of p_ic over the classes with p_ic >= t_c
        C_jk = number of samples with label j and k_i = k      the off-diagonal of C / N says how many labels are wrong

    Which ones is up to ``filter_by``, computed by cleanlab: by default those with the largest p_k - p_j of each pair.
    A fresh network then learns from the others. The belief is p; only labels that were found are changed.

    Deviations: none from cleanlab, which is called; its networks are those of the run, its folds are drawn by us.
    """

    family = "stages"
    needs = "the package cleanlab"
    cost = 4.9

    def __init__(self, *, folds: int = 5, filter_by: Filter = "prune_by_noise_rate") -> None:
        super().__init__()
        if folds < 2:
            raise ConfigError(f"folds must be at least 2; got {folds}. cleanlab uses 5.")
        self.folds, self.filter_by = folds, filter_by

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if find_spec("cleanlab") is None:
            raise ConfigError(
                "method 'confident-learning' needs the package cleanlab; got none. "
                "Install it: pip install 'selc[compare]'."
            )
        rows = len(data) if data.rows is None else len(data.rows)
        if rows < 2 * self.folds:
            raise ConfigError(f"folds must be at most half the number of samples, {rows}; got {self.folds}.")
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        label = data.labels.hard
        rows = torch.arange(len(data), device=label.device) if data.rows is None else data.rows
        fold = folds_of(label[rows].cpu(), self.folds, train.seed).to(rows.device)
        p = data.new_store()
        for k in range(self.folds):
            outcome, out = train(CE(), replace(data, rows=rows[fold != k])), rows[fold == k]
            p.write(out, outcome.probs.read(out))
        wrong = found(label[rows].cpu(), p.read(rows).cpu(), self.filter_by).to(rows.device)
        if bool(wrong.all()):
            raise TrainingError("confident-learning must leave labels to learn from; got all of them in doubt.")
        final = train(CE(), replace(data, rows=rows[~wrong]))
        others = torch.ones_like(label, dtype=torch.bool).index_fill(0, rows, False).nonzero().flatten()
        p.write(others, final.probs.read(others))  # rows that were held out of everything
        changed = torch.zeros_like(label, dtype=torch.bool).index_fill(0, rows[wrong], True)
        return replace(final, target=p, corrected=torch.where(changed, p.argmax(), label))


def folds_of(label: Tensor, folds: int, seed: int) -> Tensor:
    """A fold for each sample, [N]: random, of the same size to a sample, and with the same share of each class."""
    mixed = torch.randperm(len(label), generator=generator("confident-learning", seed, "folds", len(label), folds))
    by_class = mixed[label[mixed].argsort(stable=True)]
    return torch.empty_like(label).scatter_(0, by_class, torch.arange(len(label)) % folds)


def found(label: Tensor, p: Tensor, filter_by: Filter) -> Tensor:
    """Which labels cleanlab takes to be wrong, [N] booleans."""
    from cleanlab.filter import find_label_issues

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "May not flag all label issues")  # a class keeps its only label
        wrong = find_label_issues(label.numpy(), p.double().numpy(), filter_by=filter_by, n_jobs=1)
    return torch.from_numpy(wrong)
