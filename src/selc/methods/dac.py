"""Thulasidasan, Bhattacharya, Bilmes, Chennupati and Mohd-Yusof: Combating Label Noise in Deep Learning Using
Abstention. ICML 2019."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.core.loss import soft_cross_entropy
from selc.core.store import Store, block_rows
from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Net, Train
from selc.methods.ce import CE
from selc.methods.co_teaching import Rate, check_rate, known_rate
from selc.methods.parts import epochs_of, given_for
from selc.types import Batch, Labels, Outcome, Sweep, TrainSet

MOMENTUM = 0.95  # of the running average that the first penalty is taken from (the authors' constant)


@METHODS.register("dac")
class DAC(Method):
    """Deep abstaining classifier: an extra output to abstain by; what it abstains from is left out the second time.

        a = p_{C+1}      h = H(y, softmax over the C classes)      L = (1 - a) h - A log(1 - a)

    Cross entropy over the C + 1 outputs for ``warm_up`` (a share of the epochs if below 1, else epochs). Then A, the
    price of abstaining, grows from 1 / ``factor`` of the running average of (1 - a) h to ``final``, linearly over the
    epochs. The share ``remove`` of the samples from which the network abstained most often, "auto": as many as labels
    seem to be wrong, is left out; with ``retrain`` a fresh network learns the rest with CE.

    Deviations: the paper leaves out what the network abstains from at one time. As A grows it abstains from ever less
    and in the end from nothing, so we count over all epochs, in the training pass, and have to know how many to remove.
    log(1 - a) is computed without the authors' clamp.
    """

    family = "extra class"
    needs = "noise rate (estimated)"
    cost = 2.0
    keeps_belief = True
    epochs: int = 200  # of the run; `check` is told
    average: Tensor
    first_price: Tensor

    def __init__(
        self,
        *,
        remove: Rate = "auto",
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
        self.remove, self.warm_up, self.retrain = check_rate(remove, "remove"), warm_up, retrain
        self.factor, self.final = factor, final

    def check(self, data: TrainSet, epochs: int, batch_size: int) -> str | None:
        self.epochs = epochs
        if self.start >= epochs:
            raise ConfigError(
                f"warm_up must end before the {epochs} epochs do; got {self.warm_up:g}. Abstaining comes after it."
            )
        return None

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return net(num_classes + 1)

    def setup(self, data: TrainSet) -> None:
        self.data, self.given = data, data.labels
        self.times = data.new_store(1)  # epochs in which the network abstained from the sample
        self.register_buffer("average", torch.tensor(torch.nan))
        self.register_buffer("first_price", torch.tensor(torch.nan))

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
        abstains = outputs.detach().argmax(dim=1, keepdim=True) == outputs.shape[1] - 1
        self.times.write(batch.index, self.times.read(batch.index) + abstains)
        return answered - price * log_answer

    def log_probs(self, outputs: Tensor) -> Tensor:
        return super().log_probs(outputs[..., :-1])

    def belief(self, sweep: Sweep) -> Store:
        """The given label as far as the network answered, and nothing in particular as far as it abstained."""
        result = self.data.new_store()
        for index, times in self.times.blocks(block_rows(result.columns)):
            share = (times / max(self.epochs - self.start, 1)).clamp(max=1.0)
            result.write(index, (1 - share) * self.given.read(index) + share / self.given.num_classes)
        return result

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        remove = known_rate(self.remove, data, train)
        first = train(self, data)
        kept = kept_rows(abstained(first.target, data.labels), data, remove)
        last = train(CE(), replace(data, rows=kept)) if self.retrain else first
        return replace(last, target=given_for(data, kept, last.probs))

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


def abstained(belief: Store, given: Labels) -> Tensor:
    """The share of epochs in which the network abstained from each sample, read off what it believes, [N]."""
    shares = []
    for index, rows in belief.blocks():
        away = 1 / given.num_classes - given.read(index)
        size = (away * away).sum(dim=1).clamp_min(1e-12)  # zero for a label that is uniform itself
        shares.append(((rows - given.read(index)) * away).sum(dim=1) / size)
    return torch.cat(shares)


def kept_rows(share: Tensor, data: TrainSet, remove: float) -> Tensor:
    """The rows to go on with: all but so many of those from which the network abstained most often."""
    rows = torch.arange(len(data), device=share.device) if data.rows is None else data.rows
    ranked = rows[share[rows].argsort(descending=True, stable=True)]
    count = min(round(remove * len(rows)), int((share[rows] > 0).sum()), len(rows) - 1)  # never all of them
    return ranked[count:].sort().values
