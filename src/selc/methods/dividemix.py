"""Li, Socher and Hoi: DivideMix: Learning with Noisy Labels as Semi-supervised Learning. ICLR 2020."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import log_softmax, soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net
from selc.methods.parts import Pair, epochs_of, from_uniform, looked, mean_logits
from selc.turning.mixture import fit_mixture, normalise
from selc.types import Batch, StagePlan, Step, Sweep, TrainSet

VARIANCE = 5e-4  # that is added to the variance of either component, as the authors do
STILL = 1e-6  # gain in mean log likelihood below which the mixture is taken to stand still


@METHODS.register("dividemix")
class DivideMix(Method):
    """Two networks divide the samples for each other into labelled and unlabelled ones, and learn by MixMatch.

        w_k = P(small component | loss of network k), of two Gaussians; network k learns with w = w_j of the other one
        labelled (w > threshold):  t = sharpen(w y + (1 - w) p_k)      unlabelled:  t = sharpen((p_1 + p_2) / 2)
        p over both views; sharpen(q) ~ q^(1/T)      x' = l x_a + (1 - l) x_b, and so t'      l <- max(l, 1 - l)
        L_k = mean_labelled H(t', p') + lambda_u mean_unlabelled |p' - t'|^2 / C + KL(uniform || mean p')

    l ~ Beta(``concentration``, ``concentration``), one for a batch and network; partners are any of the batch's views.
    Cross entropy until ``warm_up``; then lambda_u grows from 0 in the time ``ramp``. Both are a share of the epochs if
    below 1, else epochs (10 and 16 of 300 in the paper; 30 of 300 on CIFAR-100). ``penalised`` adds sum_c p_c log p_c
    in the warm-up, which the authors do for asymmetric noise. The prediction is the softmax of the mean of the logits.

    Deviations: lambda_u is one value, where the authors look it up by the true noise rate (0 to 150). A batch is drawn
    from all samples, so that it holds labelled and unlabelled ones as the data do, not as many of each. Guesses are
    made in eval mode. The mixture is fitted until it stands still, from several starts (the authors: ten steps). The
    two views are two augmentations; inputs that are not augmented get noise of ``jitter`` times the standard deviation
    of each column of the batch. Mixing does not respect shards. Losses are not averaged over epochs at extreme noise.
    """

    family = "two networks"
    cost = 6.0
    keeps_belief = True
    epochs: int  # of the stage

    def __init__(
        self,
        *,
        warm_up: float = 10 / 300,
        ramp: float = 16 / 300,
        lambda_u: float = 25.0,
        threshold: float = 0.5,
        temperature: float = 0.5,
        concentration: float = 4.0,
        jitter: float = 0.1,
        penalised: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("warm_up", warm_up), ("ramp", ramp), ("lambda_u", lambda_u), ("jitter", jitter)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be a number from 0; got {value}.")
        if not 0 <= threshold < 1:
            raise ConfigError(f"threshold must be in [0, 1); got {threshold}. The authors use 0.5.")
        if not 0 < temperature <= 1:
            raise ConfigError(f"temperature must be in (0, 1]; got {temperature}. The authors use 0.5.")
        if not 0 < concentration < math.inf:
            raise ConfigError(f"concentration must be a number above 0; got {concentration}. The authors use 4.")
        self.warm_up, self.ramp, self.lambda_u = warm_up, ramp, lambda_u
        self.threshold, self.temperature, self.concentration = threshold, temperature, concentration
        self.jitter, self.penalised = jitter, penalised

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Pair(net(num_classes), net(num_classes))

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        first = epochs_of(self.warm_up, plan.epochs)
        if first < plan.epochs:
            return None
        return f"nothing is divided: the warm-up takes {first} epochs, and there are {plan.epochs}."

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.data, self.epochs = data, plan.epochs
        self.store = data.new_store(labels=True)  # what it believes
        self.right = data.new_store(2)  # w of either network; before the first division every label is right
        for index, rows in self.right.blocks():
            self.right.write(index, torch.ones_like(rows))

    def step(self, model: nn.Module, batch: Batch) -> Step:
        if batch.clock < self._first():
            outputs = model(batch.x)
            return Step(self.warm_up_loss(outputs, batch.target).sum(dim=0), outputs)
        views = torch.stack(self._views(batch))  # [2, B, ...]
        guesses = looked(model, views.flatten(0, 1))  # [2, 2 B, C]
        p = log_softmax(guesses).exp().unflatten(1, (2, -1)).mean(dim=1)  # of each network over both views, [2, B, C]
        pair = next(module for module in model.modules() if isinstance(module, Pair))
        right = self.right.read(batch.index)
        losses = []
        for k, net in enumerate((pair.first, pair.second)):
            w = right[:, 1 - k]
            target = self.targets(p[k], p.mean(dim=0), batch.target, w)
            weight, partner = self._mixing(batch.seed, k, 2 * len(batch.index))
            every, aims = views.flatten(0, 1), torch.cat([target, target])
            outputs = net(weight * every + (1 - weight) * every[partner])
            aims = weight * aims + (1 - weight) * aims[partner]
            losses.append(self.mixed_loss(outputs, aims, (w > self.threshold).repeat(2), batch.clock))
        return Step(torch.stack(losses).sum(), guesses[:, : len(batch.index)])

    def warm_up_loss(self, outputs: Tensor, given: Tensor) -> Tensor:
        losses = soft_cross_entropy(outputs, given)
        if not self.penalised:
            return losses
        log_p = log_softmax(outputs)
        return losses + (log_p.exp() * log_p).sum(dim=-1)

    def targets(self, own: Tensor, both: Tensor, given: Tensor, right: Tensor) -> Tensor:
        """What a network learns: of labelled samples the label and its own guess, of others the guess of both."""
        w = right[:, None]
        sharp = torch.where(w > self.threshold, w * given + (1 - w) * own, both) ** (1 / self.temperature)
        return sharp / sharp.sum(dim=1, keepdim=True)

    def mixed_loss(self, outputs: Tensor, target: Tensor, labelled: Tensor, clock: float) -> Tensor:
        """The loss of one network on mixed inputs, []; ``labelled`` is of the first of each two that were mixed."""
        log_p = log_softmax(outputs)
        supervised = mean_where(-(target * log_p).sum(dim=1), labelled)
        guessed = mean_where((log_p.exp() - target).square().mean(dim=1), ~labelled)
        return supervised + self._lambda(clock) * guessed + from_uniform(log_p)

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch + 1 < self._first():
            return
        seen = sweep(_losses_and_probs)
        losses = torch.cat([rows[:, :2] for _, rows in seen.blocks()])
        rows = slice(None) if self.data.rows is None else self.data.rows
        right = torch.stack([self._right(losses[:, k], rows) for k in range(2)], dim=1)
        if self.data.verified is not None:
            right[self.data.verified] = 1.0
        for index, found in seen.blocks():
            self.right.write(index, right[index])
            weight = right[index].mean(dim=1, keepdim=True)
            self.store.write(index, torch.lerp(found[:, 2:], self.data.labels.read(index), weight))

    def log_probs(self, outputs: Tensor) -> Tensor:
        return mean_logits(outputs)

    def belief(self, sweep: Sweep) -> Store:
        return self.store

    def _right(self, losses: Tensor, rows: slice | Tensor) -> Tensor:
        """The probability that a label is right, by its loss among those of all samples that are trained on, [N]."""
        trained = losses[rows]
        low, high = trained.min(), trained.max()
        scaled = ((losses - low) / (high - low).clamp_min(torch.finfo(losses.dtype).tiny)).clamp(0, 1)
        density = fit_mixture(normalise(trained), tolerance=STILL, variance_floor=VARIANCE).density(scaled.double())
        return (density[0] / density.sum(dim=0).clamp_min(torch.finfo(torch.float64).tiny)).to(losses.dtype)

    def _views(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Two augmentations of each input; of inputs that are not augmented, two that differ by noise."""
        other = next(iter(self.data.inputs.stream([batch.index], seed=batch.seed))).to(batch.x)
        if not torch.equal(other, batch.x):
            return batch.x, other
        size = self.jitter * batch.x.std(dim=0, correction=0)
        draws = torch.Generator().manual_seed(batch.seed)
        first, second = (torch.randn(batch.x.shape, generator=draws).to(batch.x) for _ in range(2))
        return batch.x + size * first, batch.x + size * second

    def _mixing(self, seed: int, network: int, rows: int) -> tuple[float, Tensor]:
        """How a batch is mixed for a network: one weight, and a partner for each row."""
        draws = np.random.default_rng([seed, network])
        weight = float(draws.beta(self.concentration, self.concentration))
        return max(weight, 1 - weight), torch.from_numpy(draws.permutation(rows)).to(self.right.device)

    def _first(self) -> int:
        """The first epoch after the warm-up."""
        return epochs_of(self.warm_up, self.epochs)

    def _lambda(self, clock: float) -> float:
        ramp = self.ramp * self.epochs if self.ramp < 1 else self.ramp
        return self.lambda_u * (min(max((clock - self._first()) / ramp, 0.0), 1.0) if ramp > 0 else 1.0)


def mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean of the chosen values, []; of none it is zero."""
    return values.where(chosen, values.new_zeros(())).sum() / chosen.sum().clamp_min(1)


def _losses_and_probs(outputs: Tensor, target: Tensor) -> Tensor:
    """The losses of both networks on the given labels, and what they predict together, [B, 2 + C]."""
    losses = soft_cross_entropy(outputs, target)  # [2, B]
    return torch.cat([losses.T, mean_logits(outputs).exp()], dim=1)
