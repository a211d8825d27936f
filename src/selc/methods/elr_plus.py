"""Liu, Niles-Weed, Razavian and Fernandez-Granda: Early-Learning Regularization Prevents Memorization of Noisy
Labels. NeurIPS 2020 (ELR+)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import check_alpha, log_softmax, soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net
from selc.methods.elr import EDGE, ELR
from selc.methods.parts import Pair, epochs_of, follow, mean_logits, partners, with_fixed_weights
from selc.types import Batch, StagePlan, Step, Sweep, TrainSet

STEPS = 200 * math.ceil(50_000 / 128)  # of the authors' training on CIFAR-10, in which gamma is 0.997
PUBLISHED = 0.997
GROWS = 40_000 / STEPS  # share of the training in which gamma grows to its value


@METHODS.register("elr+")
class ELRPlus(Method):
    """Two networks, each held close to what the mean weights of the other have predicted so far, on mixed inputs.

        theta'_k <- g theta'_k + (1 - g) theta_k      t_k <- beta t_k + (1 - beta) p(x; theta'_j), j the other network
        x' = l x_a + (1 - l) x_b, and so y' and t'_k      l ~ Beta(a, a), l <- max(l, 1 - l)
        q = clamp(p(x'; theta_k), 1e-4, 1 - 1e-4)      L_k = H(y', p) + w lambda log(1 - <t'_k, q>)

    g grows from 0 to ``gamma`` as exp(-5 (1 - s)^2), s from 0 to 1 in the first half of the training, and w from 0 to 1
    in the same way within ``ramp`` (a share of the epochs below 1, else epochs; 0: it is 1 throughout). With
    ``weighed`` the label y' is first multiplied by t'_k and scaled to sum to one. The prediction is the softmax of the
    mean of both networks' logits.

    Deviations: both networks learn from the same batches, mixed in the same way, where the authors shuffle for each;
    partners come from the same shard of the data. The mean weights follow at the beginning of the next step.
    ``gamma="auto"`` remembers the same share of the steps as 0.997 does of the authors' 78,200. The defaults are those
    for symmetric noise on CIFAR-10; on CIFAR-100 the authors use beta 0.9, lambda 7, ramp 0.41 and weighed labels.
    """

    family = "two networks"
    cost = 3.2
    keeps_belief = True
    epochs: int  # of the stage
    steps: int  # of the stage

    def __init__(
        self,
        *,
        beta: float = 0.7,
        lambda_: float = 3.0,
        gamma: float | Literal["auto"] = "auto",
        concentration: float = 1.0,
        ramp: float = 0.0,
        weighed: bool = False,
    ) -> None:
        super().__init__()
        ELR(beta=beta, lambda_=lambda_)  # checks them
        if isinstance(gamma, str) and gamma != "auto":
            raise ConfigError(f"gamma must be a number in [0, 1) or 'auto'; got {gamma!r}.")
        if not 0 <= concentration < math.inf:
            raise ConfigError(f"concentration must be a number from 0; got {concentration}. The authors use 1.")
        if not ramp >= 0:
            raise ConfigError(f"ramp must be at least 0, a share of the epochs or a number of them; got {ramp}.")
        self.beta, self.lambda_, self.concentration = beta, lambda_, concentration
        self.gamma = gamma if isinstance(gamma, str) else check_alpha(gamma, "gamma")
        self.ramp, self.weighed = ramp, weighed

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Followed(net(num_classes), net(num_classes))

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        rows = len(data) if data.rows is None else len(data.rows)
        self.epochs, self.steps = plan.epochs, plan.epochs * math.ceil(rows / plan.batch_size)
        self.first, self.second = (ELR(beta=self.beta, lambda_=self.lambda_) for _ in range(2))  # a table each
        for each in (self.first, self.second):
            each.setup(data, plan)

    def step(self, model: nn.Module, batch: Batch) -> Step:
        followed_in(model).follow(self._gamma(batch.clock))
        weight, partner = self._weight(batch), partners(batch.shard)

        def mixed(rows: Tensor) -> Tensor:
            return weight * rows + (1 - weight) * rows[partner]

        outputs = model(batch.x, mixed(batch.x))  # [4, B, C]
        own, means = outputs[:2], outputs[2:].detach()
        predicted = log_softmax(means).exp()
        losses = [
            self.loss_of(own[k], mixed(batch.target), mixed(table.updated(batch.index, predicted[1 - k])), batch.clock)
            for k, table in enumerate((self.first, self.second))
        ]
        return Step(losses[0] + losses[1], means)

    def loss_of(self, outputs: Tensor, given: Tensor, target: Tensor, clock: float) -> Tensor:
        """The loss of one network on mixed inputs, by their mixed labels and targets, [B]."""
        if self.weighed:
            joint = given * target
            given = joint / joint.sum(dim=1, keepdim=True).clamp_min(torch.finfo(joint.dtype).tiny)
        q = log_softmax(outputs).exp().clamp(EDGE, 1 - EDGE)
        regulariser = (1 - (target * q).sum(dim=1)).log()
        grown = risen(clock, epochs_of(self.ramp, self.epochs))
        return soft_cross_entropy(outputs, given) + grown * self.lambda_ * regulariser

    def log_probs(self, outputs: Tensor) -> Tensor:
        return mean_logits(outputs)

    def belief(self, sweep: Sweep) -> Store:
        result = self.first.store.like()
        for index, rows in self.first.store.blocks():
            result.write(index, (rows + self.second.store.read(index)) / 2)
        return result

    def _gamma(self, clock: float) -> float:
        """The momentum of the mean weights: it grows, as the first weights are worth little."""
        kept = max(0.0, 1 - (1 - PUBLISHED) * STEPS / max(self.steps, 1))
        return (kept if isinstance(self.gamma, str) else self.gamma) * risen(clock, GROWS * self.epochs)

    def _weight(self, batch: Batch) -> float:
        if self.concentration == 0:
            return 1.0
        weight = float(np.random.default_rng(batch.seed).beta(self.concentration, self.concentration))
        return max(weight, 1 - weight)


class Followed(Pair):
    """Two networks, and of each a copy whose weights are a running mean of its own.

    In training the outputs are those of the networks on mixed inputs and of the copies on the inputs, [4, B, C]; in
    eval mode those of the networks, [2, B, C].
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__(first, second)
        self.first_mean, self.second_mean = with_fixed_weights(first), with_fixed_weights(second)

    def forward(self, x: Tensor, mixed: Tensor | None = None) -> Tensor:
        if mixed is None:
            return super().forward(x)
        with torch.no_grad():
            means = [self.first_mean(x), self.second_mean(x)]
        torch.clear_autocast_cache()  # what was cast without gradients must not be trained with
        return torch.stack([self.first(mixed), self.second(mixed), *means])

    def follow(self, gamma: float) -> None:
        """Move the means towards the networks as the last step left them."""
        follow(self.first_mean, self.first, 1 - gamma)
        follow(self.second_mean, self.second, 1 - gamma)


def followed_in(model: nn.Module) -> Followed:
    """The two networks of a model, which may be compiled."""
    return next(module for module in model.modules() if isinstance(module, Followed))


def risen(clock: float, length: float) -> float:
    """exp(-5 (1 - s)^2), with s from 0 to 1 in so many epochs (Laine and Aila 2017)."""
    return math.exp(-5 * (1 - min(clock / length, 1.0)) ** 2) if length > 0 else 1.0
