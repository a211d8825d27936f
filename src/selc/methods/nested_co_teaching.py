"""Chen, Shen, Hu and Suykens: Boosting Co-teaching with Compression Regularization for Label Noise.
CVPR workshops 2021 (both stages)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods.base import METHODS, Net, Train
from selc.methods.judge import Rate, check_rate, known_rate
from selc.methods.nested import Nested, NestedNet, Sigma, drawn_width, nets_in
from selc.methods.parts import Pair, epochs_of, mean_logits
from selc.types import Batch, Outcome, Step, TrainSet


@METHODS.register("nested-co-teaching")
class NestedCoTeaching(Nested):
    """Two nested networks, then each is tuned on the samples of which the other is sure.

        half 1: judged by net 1, learnt by net 2      half 2: judged by net 2, learnt by net 1
        L = mean CE(net 2 with a random k, small of half 1) + mean CE(net 1 with a random k, small of half 2)

    The judge uses its best K channels and keeps the share 1 - ``forget_rate`` with the smallest losses; batch norm is
    frozen. ``tune`` is the length of the second stage (a share of the epochs if below 1) and ``lr`` its learning rate
    relative to that of the first, to be divided by 10 after half of it. Predictions come from the mean of the logits.

    Deviations: those of ``nested``; ``forget_rate`` is estimated (the authors: 0.2, or 0.3 on Clothing1M); in the first
    epoch each network judges with its own K, where the authors first look for one for both; at least one sample of a
    half is kept, and an odd one is not dropped.
    """

    family = "two networks"
    needs = "features and head, noise rate (estimated)"
    cost = 3.7

    def __init__(
        self,
        *,
        forget_rate: Rate = "auto",
        sigma: Sigma = "auto",
        held_out: float = 0.1,
        tune: float = 0.29,
        lr: float = 0.1,
    ) -> None:
        super().__init__(sigma=sigma, held_out=held_out)
        if not tune > 0 or not lr > 0:
            raise ConfigError(
                f"tune and lr must be above 0; got {tune} and {lr}. The authors use 100 of 350 epochs and 0.01 to 0.1."
            )
        self.forget_rate, self.tune, self.lr = check_rate(forget_rate, "forget_rate"), tune, lr

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Pair(NestedNet(net(num_classes)), NestedNet(net(num_classes)))

    def step(self, model: nn.Module, batch: Batch) -> Step:
        self.nets = nets = nets_in(model)
        half = (len(batch.index) + 1) // 2
        parts = list(zip(batch.x.split(half), batch.target.split(half), nets, reversed(nets), strict=False))
        model.eval()
        with torch.no_grad():
            seen = [judge(x) for x, _, judge, _ in parts]
        model.train()
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
        width = drawn_width(nets[0].head, self.sigma, batch)  # one for both, as the authors draw it
        losses = []
        for outputs, (x, target, _, learner) in zip(seen, parts, strict=True):
            order = soft_cross_entropy(outputs, target).argsort(stable=True)
            small = order[: max(1, int((1 - self._forget()) * len(x)))]
            losses.append(soft_cross_entropy(learner(x[small], width), target[small]).mean())
        # Each half is recorded as its judge saw it: two equal rows, whose mean is that.
        return Step(torch.stack(losses).sum(), torch.cat(seen).expand(2, -1, -1))

    def log_probs(self, outputs: Tensor) -> Tensor:
        return mean_logits(outputs)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        epochs = max(1, epochs_of(self.tune, train.epochs))
        rate = known_rate(self.forget_rate, data, train)
        first, second = (Nested(sigma=self.sigma, held_out=self.held_out).fit(data, train) for _ in range(2))
        model = Pair(first.model, second.model)
        frozen = [p for m in model.modules() if isinstance(m, _BatchNorm) for p in m.parameters() if p.requires_grad]
        for parameter in frozen:
            parameter.requires_grad_(False)
        tuned = NestedCoTeaching(forget_rate=rate, sigma=self.sigma, held_out=self.held_out, tune=self.tune, lr=self.lr)
        rates = {"lr": self.lr * first.history[0]["lr"], "milestones": [max(1, epochs // 2)], "gamma": 0.1}
        outcome = train(tuned, data, model=model, epochs=epochs, schedule="step", **rates)
        for parameter in frozen:
            parameter.requires_grad_(True)
        return outcome

    def _forget(self) -> float:
        return 0.0 if isinstance(self.forget_rate, str) else self.forget_rate
