"""Arazo, Ortego, Albert, O'Connor and McGuinness: Unsupervised Label Noise Modeling and Loss Correction. ICML 2019."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import log_softmax, soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method
from selc.methods.beta_mixture import fit_beta_mixture
from selc.methods.parts import epochs_of, from_uniform, looked, mixup, partners
from selc.types import Batch, StagePlan, Step, Sweep, TrainSet

CUT = 0.05  # share of the losses at either end that the mixture does not see
BINS = 100  # of the table of posteriors
CLEAR = 1e-4  # no label is taken to be right or wrong for certain: two certainly wrong samples could not be mixed
GUIDED = 5 / 300  # "dynamic": the share of the epochs in which samples are mixed by the posterior, labels as given
COOLING = 89 / 300  # "dynamic": the share of the epochs after that in which the temperature falls from 1 to COLD
COLD = 0.001


@METHODS.register("m-correction")
class MCorrection(Method):
    """Two Beta distributions tell small losses from large ones; samples with large ones learn from the network.

        w = P(wrong | loss)      t = (1 - w) y + w guess      x' = l x_i + (1 - l) x_j      l ~ Beta(a, a)
        L = l H(t_i, p') + (1 - l) H(t_j, p') + prior KL(uniform || mean p')

    The guess is the predicted class (``"hard"``, M-DYR-H) or the prediction p (``"soft"``, M-DYR-S). ``"dynamic"``
    (MD-DYR-SH) mixes by 1 - w in the place of l, halves labels, and goes from soft to hard by a temperature.

    Deviations: one look at the unmixed batch, in eval mode, gives both w and the guess; the authors take the guess in
    training mode from a look of its own. The mixture is fitted from the epoch before ``start`` on, on inputs that are
    not augmented; where it cannot be fitted the last one stays. P(wrong | loss) never falls as the loss grows, in
    their code only after its maximum. "soft" weighs labels by l, as their code does since July 2020 (before, by one
    half). Partners come from the same shard of the data.
    """

    family = "relabelling"
    cost = 1.5
    keeps_belief = True
    epochs: int  # of the stage
    table: Tensor
    ends: Tensor

    def __init__(
        self,
        *,
        variant: Literal["hard", "soft", "dynamic"] = "hard",
        start: float = 0.35,
        concentration: float = 32.0,
        prior: float = 1.0,
    ) -> None:
        super().__init__()
        if variant not in ("hard", "soft", "dynamic"):
            raise ConfigError(f"variant must be 'hard', 'soft' or 'dynamic'; got {variant!r}.")
        if not start >= 0 or not prior >= 0:
            raise ConfigError(f"start and prior must be at least 0; got {start} and {prior}.")
        if not 0 <= concentration < math.inf:
            raise ConfigError(f"concentration must be a number from 0; got {concentration}. The authors use 32.")
        self.variant, self.start, self.concentration, self.prior = variant, start, concentration, prior

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given, self.rows, self.verified = data.labels, data.rows, data.verified
        self.epochs = plan.epochs
        self.store = data.new_store(labels=True)
        self.register_buffer("table", torch.zeros(BINS))  # P(wrong) of a loss; before the first fit nothing is wrong
        self.register_buffer("ends", torch.tensor([0.0, 1.0]))  # losses that count as 0 and 1

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        first = epochs_of(self.start, plan.epochs)
        if first < plan.epochs:
            return None
        return f"no label can change: correction starts after {first} epochs, and there are {plan.epochs}."

    def step(self, model: nn.Module, batch: Batch) -> Step:
        if batch.clock < self._first():
            x, target = mixup(batch, self.concentration)
            return Step(soft_cross_entropy(model(x), target), None)
        outputs = looked(model, batch.x)
        wrong = self._unless_verified(self.wrong(soft_cross_entropy(outputs, batch.target)), batch.index)
        guided = self.variant == "dynamic" and batch.clock < self._bootstrap()
        target = batch.target if guided else self.corrected(outputs, batch.target, wrong, batch.clock)
        batch = replace(batch, target=target)
        x, target = _guided(batch, wrong) if self.variant == "dynamic" else mixup(batch, self.concentration)
        log_p = log_softmax(model(x))
        loss = -(target * log_p).sum(dim=1)
        return Step(loss if guided else loss + self.prior * from_uniform(log_p), outputs)

    def wrong(self, losses: Tensor) -> Tensor:
        """The probability that a label with this loss is wrong, [B]."""
        low, high = self.ends
        return self.table[((losses - low) / (high - low) * BINS).clamp(0, BINS - 1).long()]

    def corrected(self, outputs: Tensor, target: Tensor, wrong: Tensor, clock: float) -> Tensor:
        """The given label and the network's guess, weighted by what the loss says of the label, [B, C]."""
        log_p = log_softmax(outputs)
        if self.variant == "hard":
            guess = torch.zeros_like(log_p).scatter_(1, log_p.argmax(dim=1, keepdim=True), 1.0)
        else:
            guess = (log_p / self._temperature(clock)).softmax(dim=1)
        return torch.lerp(target, guess, wrong[:, None])

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch + 1 < self._first():
            return
        seen = sweep(lambda outputs, target: torch.cat([soft_cross_entropy(outputs, target)[:, None], outputs], dim=1))
        losses = torch.cat([rows[:, 0] for _, rows in seen.blocks()])
        self.refit(losses if self.rows is None else losses[self.rows])
        for index, rows in seen.blocks():
            wrong = self._unless_verified(self.wrong(rows[:, 0]), index)
            self.store.write(index, self.corrected(rows[:, 1:], self.given.read(index), wrong, epoch))

    def _unless_verified(self, wrong: Tensor, index: Tensor) -> Tensor:
        """The inputs are mixed, so the loop cannot see to it that verified labels are not corrected."""
        return wrong if self.verified is None else wrong.masked_fill(self.verified.index_select(0, index), 0.0)

    def refit(self, losses: Tensor) -> None:
        """Fit the mixture to losses, [N]; where they cannot be told apart, the last one stays."""
        ordered = losses.sort().values
        ends = torch.stack([_quantile(ordered, CUT), _quantile(ordered, 1 - CUT)])
        low, high = ends
        mixture = fit_beta_mixture((ordered[(ordered >= low) & (ordered <= high)] - low) / (high - low))
        if mixture is not None:
            self.ends.copy_(ends)
            self.table.copy_(mixture.table(BINS).clamp(CLEAR, 1 - CLEAR))

    def belief(self, sweep: Sweep) -> Store:
        return self.store

    def _first(self) -> int:
        """The first epoch of correction."""
        return epochs_of(self.start, self.epochs)

    def _bootstrap(self) -> int:
        """The first epoch in which labels are corrected, not only mixed."""
        return self._first() + (epochs_of(GUIDED, self.epochs) if self.variant == "dynamic" else 0)

    def _temperature(self, clock: float) -> float:
        """From soft to hard in even steps; 1 for the soft variant."""
        if self.variant != "dynamic":
            return 1.0
        steps = max(epochs_of(COOLING, self.epochs) - 1, 1)
        return 1 - (1 - COLD) * min(max(int(clock) - self._bootstrap(), 0) / steps, 1)


def _guided(batch: Batch, wrong: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs mixed with a partner's in proportion to how likely either label is right, and half of either label."""
    partner = partners(batch.shard)
    right = 1 - wrong
    weight = (right / (right + right[partner])).reshape(-1, *(1 for _ in batch.x.shape[1:]))
    x = weight * batch.x + (1 - weight) * batch.x[partner]
    return x, (batch.target + batch.target[partner]) / 2


def _quantile(ordered: Tensor, q: float) -> Tensor:
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below)
