"""Yi and Wu: Probabilistic End-to-end Noise Correction for Learning with Noisy Labels. CVPR 2019."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.parts import epochs_of
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet

BATCH = 128  # the authors' batch: their label step holds 1 / batch, so lambda belongs to that size
STEPS = 130  # epochs in which labels are learnt in the paper; there lambda is 600 for ten classes
FLOOR = 1e-12  # least probability in a fixed label, so that its logarithm is finite


@METHODS.register("pencil")
class PENCIL(Method):
    """Probabilistic end-to-end noise correction: the label of each sample is learnt by gradient descent as well.

        d = softmax(u), u = ``scale`` Y at first      u <- u - lambda dL/du
        L = KL(p || d) / C + alpha H(Y, d) + beta H(p) / C

    CE until ``start``, L until ``freeze``, then KL(p || d) / C with the labels fixed; both times are a share of the
    epochs if below 1, else epochs (70 and 200 of 320 in the paper). The learning rate is constant until ``freeze``,
    then it falls by 10 after each third of what is left, from ``last_lr``, "plan": that of the run.

    Deviations: where alpha C is 1 or more, the best d for a sure p is no nearer to p than to Y; "auto" is 1 / 2 C, the
    paper's 0.1 is 1 / C on CIFAR-10. "auto" for lambda lets labels move as far in a short run as in the published one.
    A label's step does not depend on the size of its batch. The authors' code takes the softmax of d once more in
    H(Y, d), and its learning rate is zero in the last two thirds of the time with fixed labels.
    """

    family = "learned labels"
    cost = 1.1
    parallel = True
    keeps_belief = True
    epochs: int  # of the stage

    def __init__(
        self,
        *,
        start: float = 0.21875,
        freeze: float = 0.625,
        alpha: float | Literal["auto"] = "auto",
        beta: float = 0.4,
        lambda_: float | Literal["auto"] = "auto",
        scale: float = 10.0,
        last_lr: float | Literal["plan"] = "plan",
    ) -> None:
        super().__init__()
        if not (start >= 0 and freeze > 0):
            raise ConfigError(f"start must be at least 0 and freeze above 0; got {start} and {freeze}.")
        for name, value, word in (("alpha", alpha, "auto"), ("lambda_", lambda_, "auto"), ("last_lr", last_lr, "plan")):
            if value != word and (isinstance(value, str) or not value >= 0):
                raise ConfigError(f"{name} must be at least 0, or {word!r}; got {value!r}.")
        if not (beta >= 0 and scale > 0):
            raise ConfigError(f"beta must be at least 0 and scale above 0; got {beta} and {scale}.")
        self.start, self.freeze, self.alpha, self.beta = start, freeze, alpha, beta
        self.lambda_, self.scale, self.last_lr = lambda_, scale, last_lr

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        first, frozen = self.stages(plan.epochs)
        if first >= frozen:
            raise ConfigError(
                f"start must come before freeze, and freeze within the {plan.epochs} epochs; got {self.start:g} and "
                f"{self.freeze:g}, which are epochs {first} and {frozen}. Labels are learnt in between."
            )
        return None

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.epochs = data, plan.epochs
        self.logits = data.new_store(data.num_classes)
        for index, rows in data.blocks():
            self.logits.write(index, self.scale * rows)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        if int(batch.clock) < self.stages(self.epochs)[0]:
            return soft_cross_entropy(outputs, batch.target)
        u = self.logits.read(batch.index)
        log_p = self.log_probs(outputs)
        with torch.no_grad():  # dL/du in closed form: it does not pass through the network
            d, p = u.softmax(dim=1), log_p.exp()
            alpha, step = self.constants(outputs.shape[1], self.epochs)
            self.logits.write(batch.index, u - step * ((d - p) / outputs.shape[1] + alpha * (d - batch.target)))
        entropy = -(log_p.exp() * log_p).sum(dim=1)
        return divergence(log_p, u.log_softmax(dim=1)) + self.beta * entropy / outputs.shape[1]

    def belief(self, sweep: Sweep) -> Store:
        result = self.data.new_store()
        for index, rows in self.logits.blocks():
            result.write(index, rows.softmax(dim=1))
        return result

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        first, frozen = self.stages(train.epochs)
        left = train.epochs - frozen
        alpha, step = self.constants(data.num_classes, train.epochs)
        learner = PENCIL(
            start=first, freeze=frozen, alpha=alpha, beta=self.beta, lambda_=step * BATCH, scale=self.scale
        )
        learnt = train(learner, data, epochs=frozen, schedule="constant")
        if left == 0:
            return learnt
        rates: dict[str, Any] = {"schedule": "step", "milestones": [left // 3, 2 * left // 3], "gamma": 0.1}
        if not isinstance(self.last_lr, str):
            rates["lr"] = self.last_lr
        labels = data.relabel(learnt.target)
        return replace(train(FixedLabels(), labels, model=learnt.model, epochs=left, **rates), target=learnt.target)

    def stages(self, epochs: int) -> tuple[int, int]:
        """The epochs from which labels are learnt, and from which they are fixed."""
        first = epochs_of(self.start, epochs)
        return first, min(max(epochs_of(self.freeze, epochs), 1), epochs)

    def constants(self, num_classes: int, epochs: int) -> tuple[float, float]:
        """alpha, and the step of a label for the gradient of its own loss."""
        alpha = 0.5 / num_classes if isinstance(self.alpha, str) else self.alpha
        if not isinstance(self.lambda_, str):
            return alpha, self.lambda_ / BATCH
        first, frozen = self.stages(epochs)
        published = 600 * (num_classes / 10) / BATCH * STEPS / max(frozen - first, 1)
        return alpha, min(published, 4 / (1 / num_classes + alpha))  # beyond, gradient descent overshoots for ever


class FixedLabels(Method):
    """The last part of PENCIL: KL(p || d) / C, with labels that no longer change."""

    parallel = True

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return divergence(self.log_probs(outputs), batch.target.clamp_min(FLOOR).log())


def divergence(log_p: Tensor, log_d: Tensor) -> Tensor:
    """KL(p || d) / C of each sample, [B]."""
    return (log_p.exp() * (log_p - log_d)).sum(dim=1) / log_p.shape[1]
