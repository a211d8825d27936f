"""Thulasidasan, Bhattacharya, Bilmes, Chennupati and Mohd-Yusof: Combating Label Noise in Deep Learning Using
Abstention. ICML 2019."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net, Train
from selc.methods.ce import CE
from selc.methods.noisy_validation import check_held_out, check_leaves_rows, hold_out
from selc.methods.parts import epochs_of, mixed_belief
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet

MOMENTUM = 0.95  # of the running average that the first penalty is taken from (the authors' constant)


@METHODS.register("dac")
class DAC(Method):
    """Deep abstaining classifier: an extra output to abstain by; what it abstains from is left out the second time.

        a = p_{C+1}      h = H(y, softmax over the C classes)      L = (1 - a) h - A log(1 - a)

    Cross entropy over the C + 1 outputs for ``warm_up`` (a share of the epochs if below 1, else epochs). Then A, the
    price of abstaining, grows from 1 / ``factor`` of the running average of (1 - a) h to ``final``, linearly over the
    epochs. What the network abstains from at its best epoch, by its accuracy without abstaining on ``held_out``, a
    share of the rows that is never trained on, is left out; with ``retrain`` a fresh network learns the rest with CE.

    Deviations: the held-out labels are noisy (the authors' are clean), and a class that would lose all of its samples
    keeps them. log(1 - a) is computed without the authors' clamp. The belief is (1 - a) y + a p, our own.
    """

    family = "extra class"
    needs = "a tenth of the rows is held out"
    cost = 2.2
    epochs: int  # of the stage
    judges: Tensor | None = None  # rows that are held out
    average: Tensor
    first_price: Tensor
    best: Tensor

    def __init__(
        self,
        *,
        held_out: float = 0.1,
        warm_up: float = 0.1,
        factor: float = 64.0,
        final: float = 1.0,
        retrain: bool = True,
    ) -> None:
        super().__init__()
        if not warm_up >= 0:
            raise ConfigError(f"warm_up must be at least 0; got {warm_up}. The authors use 20 of 200 epochs.")
        if not (factor > 0 and final > 0):
            raise ConfigError(f"factor and final must be above 0; got {factor} and {final}. The authors use 64 and 1.")
        self.held_out, self.warm_up, self.retrain = check_held_out(held_out), warm_up, retrain
        self.factor, self.final = factor, final

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if epochs_of(self.warm_up, plan.epochs) >= plan.epochs:
            raise ConfigError(
                f"warm_up must end before the {plan.epochs} epochs do; got {self.warm_up:g}. Abstaining comes after it."
            )
        if self.judges is None:
            check_leaves_rows(data, self.held_out)
        return None

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return net(num_classes + 1)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given, self.epochs = data.labels, plan.epochs
        self.abstained = data.new_store(2)  # a at the best epoch, and whether abstaining was likeliest
        self.register_buffer("average", torch.tensor(torch.nan))
        self.register_buffer("first_price", torch.tensor(torch.nan))
        self.register_buffer("best", torch.tensor(-1.0))  # accuracy on the rows that are held out

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        log_answer = log_answering(outputs)  # log(1 - a)
        h = soft_cross_entropy(outputs[..., :-1], batch.target)
        answered = log_answer.exp() * h
        self._set(self.average, answered.detach().mean(), MOMENTUM)
        epoch = int(batch.clock)
        if epoch < self.start:
            return h - log_answer  # cross entropy over all C + 1 outputs
        self._set(self.first_price, self.average / self.factor, 1.0)
        share = (epoch - self.start) / max(self.epochs - 1 - self.start, 1)
        price = self.first_price + share * (self.final - self.first_price)
        return answered - price * log_answer

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch < self.start:
            return
        seen = sweep(looked_at)
        rows = slice(None) if self.judges is None else self.judges
        accuracy = seen.full()[rows, 2].mean()
        if bool(accuracy > self.best):
            self.best.copy_(accuracy)
            for index, block in seen.blocks():
                self.abstained.write(index, block[:, :2])

    def log_probs(self, outputs: Tensor) -> Tensor:
        return super().log_probs(outputs[..., :-1])

    def belief(self, sweep: Sweep) -> Store:
        """The given label as far as the network answers, and its prediction as far as it abstains."""
        return mixed_belief(1 - self.abstained.full()[:, 0], self.given, sweep())

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        self.judges, data = hold_out(data, self.held_out, "dac", train.seed)
        first = train(self, data)
        a, abstains = self.abstained.full().T
        left_out = with_every_class(abstains > 0, data)
        last = train(CE(), replace(data, rows=kept_rows(left_out, data))) if self.retrain else first
        return replace(last, target=mixed_belief(torch.where(left_out, 0.0, 1 - a), data.labels, last.probs))

    @property
    def start(self) -> int:
        """The first epoch in which the network may abstain."""
        return epochs_of(self.warm_up, self.epochs)

    @staticmethod
    def _set(value: Tensor, now: Tensor, momentum: float) -> None:
        """Move a running value; the first one counts whole."""
        value.copy_(torch.where(value.isnan(), now, torch.lerp(now, value, momentum)))


def log_answering(outputs: Tensor) -> Tensor:
    """log(1 - a), the logarithm of the probability not to abstain, exact at both ends."""
    z = outputs if outputs.dtype == torch.float64 else outputs.float()
    return F.logsigmoid(z[..., :-1].logsumexp(dim=-1) - z[..., -1])


def looked_at(outputs: Tensor, target: Tensor) -> Tensor:
    """a, whether abstaining is likeliest, and whether the likeliest class is the given one, [B, 3]."""
    a = -torch.expm1(log_answering(outputs))
    abstains = outputs.argmax(dim=1) == outputs.shape[1] - 1
    right = outputs[:, :-1].argmax(dim=1) == target.argmax(dim=1)
    return torch.stack([a, abstains.to(a.dtype), right.to(a.dtype)], dim=1)


def with_every_class(left_out: Tensor, data: TrainSet) -> Tensor:
    """Who is left out, [N], but for classes of which nobody would be left to train on."""
    rows = slice(None) if data.rows is None else data.rows
    given = data.labels.hard
    left = torch.bincount(given[rows], weights=(~left_out[rows]).float(), minlength=data.num_classes)
    return left_out & (left[given] > 0)


def kept_rows(left_out: Tensor, data: TrainSet) -> Tensor:
    """The rows to train on that are not left out."""
    rows = torch.arange(len(data), device=left_out.device) if data.rows is None else data.rows
    return rows[~left_out[rows]]
