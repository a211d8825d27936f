"""Han et al.: Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels. NeurIPS 2018."""

from __future__ import annotations

import math

from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import log_softmax, soft_cross_entropy
from selc.methods.base import METHODS, Method, Net, Train
from selc.methods.judge import Rate, check_rate, known_rate
from selc.methods.parts import Pair, epochs_of
from selc.types import Batch, Outcome, StagePlan, TrainSet


@METHODS.register("co-teaching")
class CoTeaching(Method):
    """Two networks; each learns from the samples on which the other has a small loss.

        keep = 1 - forget_rate min(epoch / ramp, 1)
        L = mean CE(net 1, small of net 2) + mean CE(net 2, small of net 1)

    ``forget_rate`` should be near the noise rate; ``"auto"`` estimates that from a short training with CE (see
    `estimated_rate`). ``ramp`` is a share of the epochs if below 1 (10 of 200 in the paper), else epochs.

    Deviations: the mean is taken once (the authors' code divides by the number of kept samples twice), training
    begins with epoch 0, the ramp is the paper's (their code spreads it over ramp - 1 epochs), predictions are the
    mean of the two networks', and at least one sample is kept.
    """

    family = "two networks"
    needs = "noise rate (estimated)"
    cost = 2.0
    epochs: int  # of the stage

    def __init__(self, *, forget_rate: Rate = "auto", ramp: float = 0.05) -> None:
        super().__init__()
        self.forget_rate, self.ramp = check_rate(forget_rate, "forget_rate"), check_ramp(ramp)

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Pair(net(num_classes), net(num_classes))

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        return never_reached(self.ramp, plan.epochs)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        losses = soft_cross_entropy(outputs, batch.target)  # [2, B]
        share = kept_share(self.forget_rate, epochs_of(self.ramp, self.epochs), int(batch.clock))
        return exchanged(losses, max(1, int(share * losses.shape[1])))  # never nobody

    def log_probs(self, outputs: Tensor) -> Tensor:
        return mean_of_two(outputs)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        if isinstance(self.forget_rate, str):
            return train(CoTeaching(forget_rate=known_rate(self.forget_rate, data, train), ramp=self.ramp), data)
        return train(self, data)


def check_ramp(ramp: float) -> float:
    if not ramp > 0:
        raise ConfigError(f"ramp must be above 0, a share of the epochs or a number of them; got {ramp}.")
    return ramp


def never_reached(ramp: float, epochs: int) -> str | None:
    """A sentence if the training is over before the forget rate has its value."""
    if epochs_of(ramp, epochs) < epochs:
        return None
    return f"the forget rate is reached after {ramp:g} epochs, and there are {epochs}. Train longer, or lower ramp."


def kept_share(forget_rate: Rate, ramp: int, epoch: int) -> float:
    """The share of samples to learn from. A rate that is not known yet ("auto") forgets nobody."""
    forget = 0.0 if isinstance(forget_rate, str) else forget_rate
    return 1 - forget * min(epoch / max(ramp, 1), 1.0)


def exchanged(losses: Tensor, keep: Tensor | int, among: Tensor | None = None) -> Tensor:
    """Each network's mean loss over the ``keep`` samples with the smallest loss of the other; the two are summed.

    ``losses`` are [2, B]; ``among`` [B] says which samples may be kept, and ``keep`` is at most their number. Nobody
    kept gives a loss of zero.
    """
    known = losses.detach()
    if among is not None:
        known = known.masked_fill(~among, math.inf)
    rank = known.argsort(dim=1, stable=True).argsort(dim=1)
    kept = (rank < keep).flip(0)
    total = losses.where(kept, losses.new_zeros(())).sum()
    return total / (keep.clamp_min(1) if isinstance(keep, Tensor) else max(keep, 1))


def mean_of_two(outputs: Tensor) -> Tensor:
    """Log of the mean of two networks' probabilities; outputs are [2, B, C]."""
    return log_softmax(outputs).logsumexp(dim=0) - math.log(2)
