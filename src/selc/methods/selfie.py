"""Song, Kim and Lee: SELFIE: Refurbishing Unclean Samples for Robust Deep Learning. ICML 2019."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store, block_rows
from selc.methods.base import METHODS, Method, Train
from selc.methods.judge import Rate, check_rate, known_rate
from selc.methods.parts import epochs_of
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet

DOUBT = 1e-6  # that a row keeps which was not refurbished: so only refurbished rows are one-hot
DOUBT_IN_HALF = 2**-10  # the same in a table of 16 bits, where less would be rounded away


@METHODS.register("selfie")
class SELFIE(Method):
    """Learns from samples with a small loss, and from those whose predictions agree, with the predicted label.

        v_c = share of class c in the last ``history`` predictions      F = -sum_c v_c log v_c / log C
        refurbished R: argmax_c v_c  if  F <= ``epsilon``               clean S: the (1 - noise_rate) B smallest losses
        L = 1 / |R u S| (sum_R CE(p, argmax v) + sum_(S \\ R) CE(p, y))

    A sample that was refurbished once stays so. After ``warm_up`` epochs of plain CE it begins; the whole is repeated
    ``restarts`` times with a fresh network, which begins with the refurbished labels; the noise rate is then at most
    the share of samples that were not refurbished. Times are shares of the epochs if below 1, else epochs.

    Deviations: one forward pass instead of two, so that batch norm sees the whole batch; a sample needs a full history;
    every sample comes once per epoch (the authors draw batches at random); the noise rate is estimated.
    """

    family = "relabelling"
    needs = "noise rate (estimated)"
    cost = 3.5
    epochs: int  # of the stage
    carried: Tensor | None = None  # [N] labels that were refurbished before a restart, + 1; 0 for none

    def __init__(
        self,
        *,
        noise_rate: Rate = "auto",
        warm_up: float = 0.25,
        history: float = 0.15,
        epsilon: float = 0.05,
        restarts: int = 2,
    ) -> None:
        super().__init__()
        if not 0 <= epsilon <= 1:
            raise ConfigError(
                f"epsilon must be in [0, 1]; got {epsilon}. It is the largest entropy; the paper uses 0.05."
            )
        if not (warm_up >= 0 and history > 0 and restarts >= 0):
            raise ConfigError(
                "warm_up and restarts must be at least 0 and history above 0; "
                f"got {warm_up}, {restarts} and {history}. The paper uses 25 and 15 of 100 epochs, and 2 restarts."
            )
        self.noise_rate = check_rate(noise_rate, "noise_rate")
        self.warm_up, self.history, self.epsilon, self.restarts = warm_up, history, epsilon, restarts

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs
        small = torch.int16 if data.num_classes < 2**15 else torch.int32
        self.votes = data.new_store(max(1, epochs_of(self.history, self.epochs)), dtype=small)  # class + 1; 0: none
        self.visits = data.new_store(1, dtype=torch.int64)
        self.refurbished = data.new_store(1, dtype=torch.int64)  # class + 1; 0: not
        if self.carried is not None:
            rows = data.own_rows()
            self.refurbished.write(rows, self.carried.to(rows.device)[rows, None])
        self.data, self.num_classes = data, data.num_classes

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        index, selects = batch.index, int(batch.clock) >= epochs_of(self.warm_up, self.epochs)
        if selects:
            certain, label = self._certain(index)
            self.refurbished.write(index, torch.where(certain, label + 1, self.refurbished.read(index)))
        label = self.refurbished.read(index)
        known = label > 0  # [B, 1]
        target = torch.where(known, self._one_hot(label.flatten() - 1), batch.target)
        losses = soft_cross_entropy(outputs, target)
        if selects:
            given = soft_cross_entropy(outputs, batch.target).detach()
            rank = given.argsort(stable=True).argsort()
            used = (rank < self._clean(len(rank))) | known.flatten()
            losses = losses * used * (len(used) / used.sum())  # the mean over the batch is that over those used
        self._vote(index, outputs.detach().argmax(dim=1))
        return losses

    def belief(self, sweep: Sweep) -> Store:
        """The refurbished labels, and the network's probabilities of other samples; only the former are certain."""
        result = self.data.new_store()
        probs, doubt = sweep(), DOUBT_IN_HALF if result.form == "half" else DOUBT
        for index, label in self.refurbished.blocks(block_rows(self.num_classes)):
            unsure = (1 - doubt) * probs.read(index) + doubt / self.num_classes
            result.write(index, torch.where(label > 0, self._one_hot(label.flatten() - 1), unsure))
        return result

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        rate = known_rate(self.noise_rate, data, train)
        carried = None
        for _ in range(self.restarts + 1):
            run = SELFIE(
                noise_rate=rate,
                warm_up=self.warm_up,
                history=self.history,
                epsilon=self.epsilon,
                restarts=self.restarts,
            )
            run.carried = carried
            outcome = train(run, data)
            carried = refurbished_in(outcome.target)
            trained = carried if data.rows is None else carried[data.rows]
            rate = min(rate, float((trained == 0).float().mean()))
        return outcome

    def _certain(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the predictions of each sample agree, and on which class, [B, 1] each."""
        votes = self.votes.read(index).long()
        counts = votes.new_zeros(len(index), self.num_classes + 1).scatter_add_(1, votes, torch.ones_like(votes))
        share = counts[:, 1:] / votes.shape[1]
        entropy = -torch.xlogy(share, share).sum(dim=1) / math.log(self.num_classes)
        certain = (counts[:, 0] == 0) & (entropy <= self.epsilon)
        return certain[:, None], share.argmax(dim=1, keepdim=True)

    def _clean(self, batch_size: int) -> int:
        rate = 0.0 if isinstance(self.noise_rate, str) else self.noise_rate
        return max(1, math.ceil((1 - rate) * batch_size - 1e-9))  # 0.3 x 10 is a little more than 3 in a computer

    def _vote(self, index: Tensor, predicted: Tensor) -> None:
        votes, visits = self.votes.read(index), self.visits.read(index)
        self.votes.write(index, votes.scatter(1, visits % votes.shape[1], (predicted[:, None] + 1).to(votes.dtype)))
        self.visits.write(index, visits + 1)

    def _one_hot(self, label: Tensor) -> Tensor:
        return F.one_hot(label.clamp_min(0), self.num_classes).float()


def refurbished_in(target: Store) -> Tensor:
    """The labels in a belief of SELFIE that were refurbished, + 1; 0 for the others, [N]."""
    parts = [torch.where(rows.amax(dim=1) == 1, rows.argmax(dim=1) + 1, 0) for _, rows in target.blocks()]
    return torch.cat(parts)
