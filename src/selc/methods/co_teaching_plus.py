"""Yu, Han, Yao, Niu, Tsang and Sugiyama: How does Disagreement Help Generalization against Label Corruption?
ICML 2019."""

from __future__ import annotations

from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods.base import METHODS, Train
from selc.methods.co_teaching import CoTeaching, exchanged, kept_share
from selc.methods.judge import Rate, known_rate
from selc.methods.parts import epochs_of
from selc.types import Batch, Outcome, TrainSet

ROUNDING = 1e-4  # keep share x samples is rounded down; float32 may be a little below the whole number that is meant


@METHODS.register("co-teaching+")
class CoTeachingPlus(CoTeaching):
    """Co-teaching on the samples alone about which the two networks disagree.

        D = {i: argmax p1_i != argmax p2_i}      keep = 1 - forget_rate min(epoch / ramp, 1)
        L = mean CE(net 1, small of net 2 in D) + mean CE(net 2, small of net 1 in D)

    For the first ``warm_up`` epochs it is Co-teaching. A batch without disagreement is learnt whole until ``agreed``
    and skipped afterwards. All three times are shares of the epochs if below 1, else epochs.

    Deviations: the losses are of the logits (the authors' code takes the softmax twice once disagreement begins), the
    mean is taken once, predictions are the mean of the two networks', and at least one sample of D is kept.
    """

    cost = 2.1

    def __init__(
        self, *, forget_rate: Rate = "auto", ramp: float = 0.05, warm_up: float = 0.1, agreed: float = 0.064
    ) -> None:
        super().__init__(forget_rate=forget_rate, ramp=ramp)
        if not (warm_up >= 0 and agreed >= 0):
            raise ConfigError(f"warm_up and agreed must be at least 0; got {warm_up} and {agreed}.")
        self.warm_up, self.agreed = warm_up, agreed

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        losses = soft_cross_entropy(outputs, batch.target)  # [2, B]
        epoch = int(batch.clock)
        share = kept_share(self.forget_rate, epochs_of(self.ramp, self.epochs), epoch)
        if epoch < epochs_of(self.warm_up, self.epochs):
            return exchanged(losses, max(1, int(share * losses.shape[1])))
        first, second = outputs.detach().argmax(dim=2)
        disagree = first != second
        count = disagree.sum()
        keep = (share * count + ROUNDING).floor().clamp_min(1).minimum(count)  # a tensor: nothing waits for the GPU
        plus = exchanged(losses, keep, disagree)
        if epoch < epochs_of(self.agreed, self.epochs):
            return plus.where(count > 0, losses.mean(dim=1).sum())
        return plus

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        if isinstance(self.forget_rate, str):
            rate = known_rate(self.forget_rate, data, train)
            options = {"ramp": self.ramp, "warm_up": self.warm_up, "agreed": self.agreed}
            return train(CoTeachingPlus(forget_rate=rate, **options), data)
        return train(self, data)
