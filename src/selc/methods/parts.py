"""Pieces that several methods share."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor, nn

from selc.losses.cross_entropy import handed_out, log_softmax
from selc.memory.store import Store, block_rows
from selc.types import Batch, Labels, TrainSet


def normalised(store: Store, labels: Labels) -> Store:
    """A copy of an ensemble that started at zero, as targets: rows sum to one, rows without an update are given."""
    result = store.like()
    for index, rows in store.blocks():
        result.write(index, handed_out(rows, labels.read(index)))
    return result


def given_for(data: TrainSet, rows: Tensor | None, probs: Store) -> Store:
    """A belief: the given labels at ``rows`` (None: everywhere), ``probs`` elsewhere."""
    result = copy.deepcopy(probs)
    given = result.held_rows() if rows is None else result.among_held(rows)
    for part in given.split(block_rows(probs.columns)):
        result.write(part, data.labels.read(part))
    return result


def mixed_belief(weight: Tensor, given: Labels, p: Store) -> Store:
    """weight * given + (1 - weight) * p, row by row."""
    result = p.like()
    for index, rows in p.blocks():
        result.write(index, torch.lerp(rows, given.read(index), weight[index, None]))
    return result


def labels_belief(labels: Store, data: TrainSet) -> Store:
    """A belief: the classes in a table [N, 1], each for certain."""
    result = data.new_store()
    for index, label in labels.blocks():
        result.write_labels(index, label.flatten())
    return result


class History(nn.Module):
    """The probabilities of the last ``window`` epochs; epochs that have not come yet are zeros."""

    def __init__(self, data: TrainSet, window: int) -> None:
        super().__init__()
        self.epochs = nn.ModuleList(data.new_store() for _ in range(window))

    def write(self, epoch: int, index: Tensor, rows: Tensor) -> None:
        slot = self.epochs[epoch % len(self.epochs)]
        assert isinstance(slot, Store)
        slot.write(index, rows)

    def mean(self, index: Tensor) -> Tensor:
        rows = [slot.read(index) for slot in self.epochs if isinstance(slot, Store)]
        return torch.stack(rows).mean(0)


def epochs_of(value: float, epochs: int) -> int:
    """A time as a share of the epochs (below 1), or as a number of them: published schedules fit short runs so."""
    return round(value * epochs) if value < 1 else int(value)


def cannot_flip(epochs_left: float, alpha: float) -> str | None:
    """A sentence if too few epochs are left for any label to change: its weight alpha^k stays above one half."""
    needed = math.ceil(math.log(0.5) / math.log(alpha)) if alpha > 0 else 1
    if epochs_left >= needed:
        return None
    left = max(epochs_left, 0)
    return (
        f"no label can change: with alpha {alpha:g} that takes {needed} epochs of correction, and {left:g} are left "
        "after the start. Train longer, start earlier, or lower alpha."
    )


def partners(shard: Tensor) -> Tensor:
    """For each place in a batch another place of the same shard, each taken once.

    The order of a batch is random already, so the next one in the cycle of the shard is a random partner.
    """
    order = shard.argsort(stable=True)
    sorted_shard = shard[order]
    following = order.roll(-1)
    last = sorted_shard != sorted_shard.roll(-1)
    last[-1] = True
    following[last] = order[torch.searchsorted(sorted_shard, sorted_shard[last])]
    return torch.empty_like(order).scatter_(0, order, following)


def mixup(batch: Batch, concentration: float) -> tuple[Tensor, Tensor]:
    """Inputs and targets mixed with a partner's, by one weight from Beta(a, a) for the batch (Zhang et al. 2018)."""
    if concentration == 0:
        return batch.x, batch.target
    weight = np.random.default_rng(batch.seed).beta(concentration, concentration)
    partner = partners(batch.shard)
    x = weight * batch.x + (1 - weight) * batch.x[partner]
    return x, weight * batch.target + (1 - weight) * batch.target[partner]


class Pair(nn.Module):
    """Two networks side by side; their outputs are stacked, [2, B, C].

    The sum of their losses gives each the same step as an optimizer of its own would.
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.first(x), self.second(x)])


def mean_logits(outputs: Tensor) -> Tensor:
    """Log probabilities by the mean of two networks' logits; outputs are [2, B, C]."""
    return log_softmax(outputs.float().mean(dim=0))


def from_uniform(log_p: Tensor) -> Tensor:
    """KL(uniform || mean prediction of the batch), []: it keeps the network from giving up on a class."""
    log_mean = log_p.logsumexp(dim=0) - math.log(len(log_p))
    return -log_mean.mean() - math.log(log_p.shape[1])


def looked(model: nn.Module, x: Tensor) -> Tensor:
    """The outputs of a batch in eval mode, without gradients."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        outputs: Tensor = model(x)
    model.train(was_training)
    torch.clear_autocast_cache()  # weights that were cast without gradients must not be trained with
    return outputs


def with_fixed_weights(net: nn.Module) -> nn.Module:
    """A copy whose weights are buffers, which no optimizer sees: for a running mean of them (see `follow`)."""
    result = copy.deepcopy(net)
    for module in result.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            delattr(module, name)
            module.register_buffer(name, weight.detach())
            setattr(module, name, weight.detach())  # recurrent layers have a list of their own, kept by this
    return result


@torch.no_grad()
def follow(mean: nn.Module, net: nn.Module, share: Tensor | float) -> None:
    """Move the weights of such a copy towards the network's by a share of the way."""
    for name, weight in net.named_parameters(remove_duplicate=False):
        mean.get_buffer(name).lerp_(weight, share.to(weight.dtype) if isinstance(share, Tensor) else share)
