"""Chen, Shen, Hu and Suykens: Boosting Co-teaching with Compression Regularization for Label Noise.
CVPR workshops 2021 (its first stage)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method, Net
from selc.seeding import generator
from selc.types import Batch, StagePlan, Step, Sweep, TrainSet

Sigma = float | Literal["auto"]
PENALTY = 1e-5  # accuracy that one more channel must bring (the authors' constant)
LEAST_SIGMA = 10.0  # for "auto", as the authors have it on CIFAR-10; a channel or so per class above
PACE = 1.1  # widths that are compared grow by a tenth: all of them up to 20, and 45 for 512 channels


@METHODS.register("nested")
class Nested(Method):
    """Ordered dropout: the head sees only the first k channels of the features, with another k in each batch.

        P(k) ~ exp(-(k / sigma)^2), k = 1..D      L = CE(W [phi_1, ..., phi_k, 0, ..., 0], y)

    What is worth most comes to lie in the first channels. The network predicts with the K channels that are best, by
    accuracy less 1e-5 K, on ``held_out``, a share of the rows that it is not trained on; their labels are noisy, too.
    With ``held_out=0`` it is the accuracy on the training rows. ``sigma="auto"`` is the number of classes, at least 10.

    Deviations: K comes from noisy rows (the authors have a clean validation set) and is looked for among fewer widths;
    the last layer alone is nested (they mask two of VGG's); no warm-up of the learning rate.
    """

    family = "compression"
    needs = "features and head"
    cost = 1.4

    def __init__(self, *, sigma: Sigma = "auto", held_out: float = 0.1) -> None:
        super().__init__()
        self.sigma, self.held_out = check_sigma(sigma), check_held_out(held_out)

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return NestedNet(net(num_classes))

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        check_rows(data, self.held_out)
        return None

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.trained, self.judges = parted(data, self.held_out, plan.seed)

    def select(self) -> Tensor:
        return self.trained

    def step(self, model: nn.Module, batch: Batch) -> Step:
        self.nets = nets_in(model)  # a tuple: a network as an attribute would become a part of the method
        outputs = model(batch.x, drawn_width(self.nets[0].head, self.sigma, batch))
        return Step(self.loss(outputs, batch), outputs)

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        choose_width(self.nets, sweep, self.judges)


class NestedNet(nn.Module):
    """Features, an ordered mask, and a head without bias; ``width`` is the number K of channels that it uses."""

    width: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.features, self.head = split(net)
        self.head.register_parameter("bias", None)  # a bias would know the classes without any channel
        self.register_buffer("width", torch.tensor(self.head.in_features))
        self.all_widths = False  # outputs for every width that is compared, [widths, B, C]

    def forward(self, x: Tensor, width: Tensor | None = None) -> Tensor:
        features = self.features(x)
        if self.all_widths:
            return self.compared(features)
        channel = torch.arange(self.head.in_features, device=features.device)
        outputs: Tensor = self.head(features * (channel < (self.width if width is None else width)))
        return outputs

    def compared(self, features: Tensor) -> Tensor:
        """Outputs for each of `widths`: those of one width are those of the one before, and the channels between."""
        outputs, first = [torch.zeros((), device=features.device)], 0
        for width in widths(self.head.in_features):
            part = F.linear(features[:, first:width], self.head.weight[:, first:width])
            outputs.append(outputs[-1] + part.float())
            first = width
        return torch.stack(outputs[1:])


def nets_in(model: nn.Module) -> tuple[NestedNet, ...]:
    """The nested networks of a model, which may be compiled or a pair."""
    return tuple(module for module in model.modules() if isinstance(module, NestedNet))


def split(net: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """A network as features and head: its two parts of these names, or all before the last layer of a sequence."""
    parts = dict(net.named_children())
    if parts.keys() == {"features", "head"} and isinstance(parts["head"], nn.Linear):
        return parts["features"], parts["head"]
    layers = list(net) if isinstance(net, nn.Sequential) else []
    while layers and isinstance(layers[-1], nn.Sequential):
        layers[-1:] = list(layers[-1])
    if len(layers) > 1 and isinstance(layers[-1], nn.Linear):
        return nn.Sequential(*layers[:-1]), layers[-1]
    raise ConfigError(
        "a nested network must consist of `features` and a linear `head`, or be an nn.Sequential that ends in an "
        f"nn.Linear; got {type(net).__name__} with {', '.join(parts) or 'no parts'}."
    )


def widths(channels: int) -> list[int]:
    """The widths that are compared: all small ones, then steps of a tenth, and all channels."""
    found, width = [], 1
    while width < channels:
        found.append(width)
        width = max(width + 1, int(PACE * width))
    return [*found, channels]


def width_weights(channels: int, sigma: float) -> Tensor:
    """exp(-(k / sigma)^2) for k = 1..channels; relative to k = 1, so that the sum is never zero."""
    k = torch.arange(1, channels + 1, dtype=torch.float64)
    return torch.exp((1 - k**2) / sigma**2)


def drawn_width(head: nn.Linear, sigma: Sigma, batch: Batch) -> Tensor:
    """The k of a batch."""
    scale = max(LEAST_SIGMA, head.out_features) if isinstance(sigma, str) else sigma
    weights = width_weights(head.in_features, scale)
    drawn = torch.multinomial(weights, 1, generator=torch.Generator().manual_seed(batch.seed))
    return (drawn[0] + 1).to(head.weight.device)


@torch.no_grad()
def choose_width(nets: Sequence[NestedNet], sweep: Sweep, rows: Tensor) -> None:
    """Give the networks the width with which they, or the mean of their outputs, are right most often on ``rows``."""

    def right(outputs: Tensor, target: Tensor) -> Tensor:
        mean = outputs.mean(dim=0) if outputs.dim() == 4 else outputs  # [widths, B, C]
        return target.gather(1, mean.argmax(dim=2).T)

    for net in nets:
        net.all_widths = True
    try:
        share = sweep(right).read(rows).double().mean(dim=0).cpu()
    finally:
        for net in nets:
            net.all_widths = False
    compared = torch.tensor(widths(nets[0].head.in_features))
    for net in nets:
        net.width.fill_(int(compared[(share - PENALTY * compared).argmax()]))


def parted(data: TrainSet, held_out: float, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to train on, and rows to choose K by; the same ones in every stage of a run."""
    device = data.labels.hard.device
    rows = torch.arange(len(data), device=device) if data.rows is None else data.rows
    if held_out == 0:
        return rows, rows
    held = max(1, round(held_out * len(rows)))
    order = torch.randperm(len(rows), generator=generator("nested", seed, "held out", len(rows))).to(device)
    return rows[order[held:]].sort().values, rows[order[:held]].sort().values


def check_sigma(sigma: Sigma) -> Sigma:
    if sigma == "auto" or (not isinstance(sigma, str) and sigma >= 1):
        return sigma
    raise ConfigError(f"sigma must be at least 1 channel, or 'auto'; got {sigma!r}. The authors use 10 and 100.")


def check_held_out(held_out: float) -> float:
    if not 0 <= held_out < 1:
        raise ConfigError(f"held_out must be in [0, 1); got {held_out}. It is the share of rows to choose K by.")
    return held_out


def check_rows(data: TrainSet, held_out: float) -> None:
    left = len(parted(data, held_out, seed=0)[0])
    if left < 2:
        raise ConfigError(f"held_out must leave at least 2 rows to train on; got {held_out}, which leaves {left}.")
