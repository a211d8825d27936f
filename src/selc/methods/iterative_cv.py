"""Chen, Liao, Chen and Zhang: Understanding and Utilizing Deep Neural Networks Trained with Noisy Labels.
ICML 2019 (INCV)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net, Train
from selc.methods.ce import CE
from selc.methods.co_teaching import check_ramp, exchanged, kept_share, mean_of_two, never_reached
from selc.methods.parts import Pair, epochs_of, given_for
from selc.seeding import generator
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet

JOIN, JOIN_LATE = 41 / 200, 81 / 200  # shares of the epochs after which candidates join, as in the authors' code
MUCH = 0.6  # noise rate from which on they join late
MOST_REMOVED = 2.0  # samples that are removed for each that is selected


@METHODS.register("iterative-cv")
class IterativeCV(Method):
    """Two-fold cross validation, again and again, selects samples; two networks then learn from those by Co-teaching.

        S = {}, V = all      repeat: V = V1 + V2;  train on S + V1, move {V2: argmax p = y} to S;  and the other way
        first accuracy on V2 = (1 - e)^2 + e^2 / (C - 1)      forget_rate in S = e^2 / (e^2 + (C - 1) (1 - e)^2)

    e is the noise rate. With ``symmetric``, the samples of a half with the largest losses are removed for good, e /
    (1 - e) for each that is selected; without, none are, and the forget rate has a 1 for the C - 1. Late in the final
    training samples that are still in V join. ``cv_epochs`` and ``ramp`` are shares of the epochs if below 1, else
    epochs.

    Deviations: the last network of a half judges (the authors' code sometimes the best on the noisy half); every half
    begins with other weights; at the end a batch has its usual size when candidates are in it; one forward pass.
    """

    family = "selection"
    needs = "two networks"
    cost = 3.2
    epochs: int  # of the stage
    rate: float = 0.0  # of wrong labels, as the first half shows it
    seed: int  # of the run
    candidates: Tensor | None = None  # rows that are neither selected nor removed
    coming: Tensor

    def __init__(
        self, *, iterations: int = 4, cv_epochs: float = 0.25, ramp: float = 0.05, symmetric: bool = True
    ) -> None:
        super().__init__()
        if iterations < 1 or not cv_epochs > 0:
            raise ConfigError(
                f"iterations must be at least 1 and cv_epochs above 0; got {iterations} and {cv_epochs}. "
                "The authors use 4, and 50 of 200 epochs."
            )
        self.iterations, self.cv_epochs, self.ramp, self.symmetric = iterations, cv_epochs, check_ramp(ramp), symmetric

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Pair(net(num_classes), net(num_classes))

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        rows = len(data) if data.rows is None else len(data.rows)
        if rows < 4 and self.candidates is None:
            raise ConfigError(f"iterative-cv needs at least 4 samples to train on halves; got {rows}.")
        return never_reached(self.ramp, plan.epochs)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.epochs, self.seed = data, plan.epochs, plan.seed
        here = data.labels.hard.device
        self.selected = torch.zeros(len(data), dtype=torch.bool, device=here)
        self.selected[slice(None) if data.rows is None else data.rows] = True
        self.register_buffer("coming", torch.tensor(0))  # the epoch whose rows are to be selected

    def select(self) -> Tensor | None:
        """The selected rows, and late in the training others: half as many at most, other ones in each epoch."""
        rows, others, epoch = self.data.rows, self.candidates, int(self.coming)
        if rows is None or others is None or epoch < self._join():
            return None
        drawn = torch.randperm(len(others), generator=generator("iterative-cv", self.seed, "candidates", epoch))
        return torch.cat([rows, others[drawn[: len(rows) // 2].to(others.device)]])

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        losses = soft_cross_entropy(outputs, batch.target)  # [2, B]
        ramp = epochs_of(self.ramp, self.epochs)
        share = kept_share(selected_rate(self.rate, self._rivals()), ramp, int(batch.clock))
        ours = self.selected[batch.index].sum()  # as many are kept as if there were no candidates
        return exchanged(losses, (share * ours).round().clamp_min(1))

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        self.coming.fill_(epoch + 1)

    def log_probs(self, outputs: Tensor) -> Tensor:
        return mean_of_two(outputs)

    def belief(self, sweep: Sweep) -> Store:
        """The given labels of the samples that were selected, and the networks' probabilities of the others."""
        return given_for(self.data, self.data.rows, sweep())

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        everything = torch.arange(len(data)) if data.rows is None else data.rows.cpu()
        chosen, left = everything[:0], everything
        rate = None
        for iteration in range(self.iterations):
            if len(left) < 2:
                break
            order = torch.randperm(len(left), generator=generator("iterative-cv", train.seed, "halves", iteration))
            halves = left[order].tensor_split(2)
            found, gone = [], []
            for ours, theirs in (halves, halves[::-1]):
                rows = torch.cat([chosen, ours]).sort().values.to(data.labels.hard.device)
                length = max(1, epochs_of(self.cv_epochs, train.epochs))
                judge = train(CE(), replace(data, rows=rows), epochs=length, schedule="cosine")
                right, losses = judged(judge, data, theirs)
                if rate is None:
                    rate = rate_of(float(right.double().mean()), data.num_classes)
                found.append(theirs[right])
                removed = int(min(MOST_REMOVED, rate / (1 - rate)) * int(right.sum())) if self.symmetric else 0
                gone.append(theirs[losses.argsort(descending=True, stable=True)[:removed]])
            chosen = torch.cat([chosen, *found])
            left = left[~torch.isin(left, torch.cat([chosen, *gone]))]
        last = IterativeCV(
            iterations=self.iterations, cv_epochs=self.cv_epochs, ramp=self.ramp, symmetric=self.symmetric
        )
        last.rate = rate or 0.0
        if len(chosen) < 2:  # the halves agreed on nothing: all that is left is Co-teaching on everything
            return train(last, data)
        here = data.labels.hard.device
        last.candidates = left.sort().values.to(here)
        return train(last, replace(data, rows=chosen.sort().values.to(here)))

    def _join(self) -> int:
        late = not self.symmetric or self.rate > MUCH
        return epochs_of(JOIN_LATE if late else JOIN, self.epochs)

    def _rivals(self) -> int:
        return self.data.num_classes - 1 if self.symmetric else 1


def rate_of(accuracy: float, num_classes: int) -> float:
    """The noise rate at which a network that learnt the noise, too, is right on as many noisy labels.

    The smaller solution of (1 - e)^2 + e^2 / (C - 1) = accuracy; below chance it is (C - 1) / C.
    """
    C = num_classes
    return (C - 1) / C * (1 - math.sqrt(max((C * accuracy - 1) / (C - 1), 0.0)))


def selected_rate(rate: float, rivals: int) -> float:
    """The noise rate among samples whose label a network trained on other noisy samples predicts."""
    wrong, right = rate**2, rivals * (1 - rate) ** 2
    return wrong / (wrong + right)


def judged(judge: Outcome, data: TrainSet, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a network predicts the given labels of ``rows``, and its losses on them."""
    here = rows.to(judge.probs.device)
    p, target = judge.probs.read(here), data.labels.read(here)
    losses = -torch.xlogy(target, p.clamp_min(torch.finfo(p.dtype).tiny)).sum(dim=1)  # to compare them: no gradient
    return (p.argmax(dim=1) == target.argmax(dim=1)).cpu(), losses.cpu()
