"""Mirzasoleiman, Cao and Leskovec: Coresets for Robust Training of Neural Networks against Noisy Labels.
NeurIPS 2020."""

from __future__ import annotations

import heapq
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net
from selc.methods.parts import epochs_of
from selc.types import Batch, StagePlan, Step, Sweep, TrainSet

LARGEST = 8192  # samples of a class that are compared with each other: 8192 x 8192 distances are 256 MB


@METHODS.register("crust")
class CRUST(Method):
    """Coresets: each epoch trains on the samples of each class whose gradients best stand for those of the class.

        g_i = W^T (p_i - Y_i)      d_ij = |g_i - g_j|      S maximises sum_i max_{j in S} (max d - d_ij)
        w_j = number of samples to which j is the nearest in S      L = sum_j w_j CE_j / sum_j w_j

    W is the head of the network; S is ``share`` of the class, given or predicted (``groups``), and is chosen anew after
    each epoch from ``start`` on (a share of the epochs if below 1, else epochs). From then on each input is mixed with
    another of its given class, by a weight from Beta(1, ``mix``); the target stays. ``selection`` "greedy" is the
    paper's lazy greedy algorithm; "medoid" takes the samples with the smallest sum of distances. With a ``radius``,
    w_j is the number of samples within it.

    Deviations: gradients come from a pass in eval mode and are not divided by a batch size; classes of more than 8192
    samples are cut into parts. The authors' code compares values where the greedy algorithm compares gains, and so
    does "medoid"; it has radius 2, within which all its gradients lie; it groups by the given label (the default
    here), the paper by predictions.
    """

    family = "gradient subset"
    needs = "linear head"
    cost = 1.6
    epochs: int  # of the stage

    def __init__(
        self,
        *,
        share: float = 0.5,
        radius: float = 0.0,
        start: float = 0.042,
        selection: Literal["greedy", "medoid"] = "greedy",
        groups: Literal["label", "prediction"] = "label",
        mix: float = 0.1,
    ) -> None:
        super().__init__()
        if not 0 < share <= 1:
            raise ConfigError(f"share must be in (0, 1]; got {share}. It is the part of each class to train on.")
        if not radius >= 0:
            raise ConfigError(f"radius must be at least 0; got {radius}. With 0 a weight is the size of a cluster.")
        if not (start >= 0 and mix >= 0):
            raise ConfigError(f"start and mix must be at least 0; got {start} and {mix}. Without mixing mix is 0.")
        if selection not in ("greedy", "medoid"):
            raise ConfigError(f"selection must be 'greedy' or 'medoid'; got {selection!r}.")
        if groups not in ("label", "prediction"):
            raise ConfigError(f"groups must be 'label' or 'prediction'; got {groups!r}.")
        self.share, self.radius, self.start = share, radius, start
        self.selection, self.groups, self.mix = selection, groups, mix

    def build(self, net: Net, num_classes: int) -> nn.Module:
        model = net(num_classes)
        self.head = (head_of(model, num_classes),)  # in a tuple, or it would be a part of this module too
        return model

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.epochs = plan.epochs
        self.data = data
        rows = torch.arange(len(data), device=data.labels.hard.device) if data.rows is None else data.rows
        label = data.labels.hard[rows]
        self.by_class = rows[label.argsort(stable=True)]
        self.sizes = torch.bincount(label, minlength=data.num_classes)
        self.offsets = self.sizes.cumsum(0) - self.sizes
        self.places = torch.zeros(len(data), dtype=torch.int64, device=rows.device)  # of a row in ``by_class``
        self.places[self.by_class] = torch.arange(len(rows), device=rows.device)
        self.weight = data.new_store(1)  # zero: not chosen
        self.weight.write(rows, torch.ones(len(rows), 1, device=rows.device))

    def select(self) -> Tensor:
        return self.weight.full().squeeze(1).nonzero().flatten()

    def step(self, model: nn.Module, batch: Batch) -> Step:
        if self.mix == 0 or int(batch.clock) < epochs_of(self.start, self.epochs):
            return super().step(model, batch)
        rng = np.random.default_rng(batch.seed)
        share, turn = rng.beta(1.0, self.mix), rng.random()
        mates = next(iter(self.data.inputs.stream([self.mates(batch.index, turn)], batch.seed)))
        return Step(self.loss(model(share * batch.x + (1 - share) * mates), batch), None)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        weight = self.weight.read(batch.index).squeeze(1)
        weight = weight / weight.mean().clamp_min(torch.finfo(weight.dtype).tiny)  # all zero: none of them was chosen
        return weight * soft_cross_entropy(outputs, batch.target)

    def mates(self, index: Tensor, turn: float) -> Tensor:
        """For each row another of its given class: so far on, as a share of the way, when the class is a ring."""
        label = self.data.labels.hard[index]
        size, offset = self.sizes[label], self.offsets[label]
        ahead = 1 + (turn * (size - 1)).long()
        return self.by_class[offset + (self.places[index] - offset + ahead) % size]

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        if epoch + 1 < epochs_of(self.start, self.epochs):
            return
        # |W^T e| = |R e| for W^T = Q R: distances need C numbers of a sample, not as many as it has features.
        head = self.head[0].weight.detach()
        factor = torch.linalg.qr(head.cpu().float().T, mode="r").R.to(head.device)
        probs = sweep()
        self.weight.write(self.by_class, torch.zeros(len(self.by_class), 1, device=self.by_class.device))
        for members in self._groups(probs):
            parts = -(-len(members) // LARGEST)
            for rows in (members[part::parts] for part in range(parts)):
                gradients = (probs.read(rows) - self.data.labels.read(rows)) @ factor.T
                chosen, weight = coreset(gradients, self.share, self.selection == "greedy", self.radius)
                self.weight.write(rows[chosen], weight.unsqueeze(1))

    def _groups(self, probs: Store) -> list[Tensor]:
        """The rows of each class, given or predicted, that has any."""
        label = probs.argmax() if self.groups == "prediction" else self.data.labels.hard
        rows = self.by_class[label[self.by_class].argsort(stable=True)]
        sizes = torch.bincount(label[self.by_class], minlength=self.data.num_classes).tolist()
        return [members for members in rows.split(sizes) if len(members)]


def coreset(gradients: Tensor, share: float, greedy: bool, radius: float) -> tuple[Tensor, Tensor]:
    """Places of the chosen gradients, and how many each of them stands for."""
    distance = torch.cdist(gradients, gradients, compute_mode="donot_use_mm_for_euclid_dist")
    similarity = distance.max() - distance
    count = max(1, int(share * len(gradients)))
    if greedy:
        chosen = torch.tensor(lazy_greedy(similarity.cpu().numpy(), count), device=gradients.device)
    else:
        chosen = similarity.sum(dim=1).argsort(descending=True, stable=True)[:count]
    if radius > 0:
        return chosen, (distance < radius).sum(dim=1)[chosen].float()
    nearest = distance[:, chosen].argmin(dim=1)
    nearest[chosen] = torch.arange(count, device=chosen.device)  # itself, also where another is the same
    return chosen, torch.bincount(nearest, minlength=count).float()


def lazy_greedy(similarity: np.ndarray[Any, np.dtype[np.float32]], count: int) -> list[int]:
    """Facility location: each step adds the point that raises sum_i max_{j chosen} similarity_ij the most.

    A gain can only fall as points are added, so one computed earlier is a bound: a point whose gain, computed now,
    is no less than the next bound is the best one, and the others need not be looked at.
    """
    covered = np.zeros(len(similarity), dtype=similarity.dtype)
    bounds = [(-float(gain), point) for point, gain in enumerate(similarity.sum(axis=1))]
    heapq.heapify(bounds)
    chosen: list[int] = []
    while len(chosen) < count:
        _, point = heapq.heappop(bounds)
        gain = float(np.maximum(similarity[point] - covered, 0).sum())
        if bounds and gain < -bounds[0][0]:
            heapq.heappush(bounds, (-gain, point))
            continue
        chosen.append(point)
        np.maximum(covered, similarity[point], out=covered)
    return chosen


def head_of(model: nn.Module, num_classes: int) -> nn.Linear:
    """The linear layer that makes the outputs: ``head``, or the last one of a network without."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Linear):
        head = next((module for module in reversed(list(model.modules())) if isinstance(module, nn.Linear)), None)
    if head is None or head.out_features != num_classes:
        raise ConfigError(
            f"method 'crust' needs a network that ends in a linear layer with {num_classes} outputs; "
            f"got {'none' if head is None else f'one with {head.out_features}'}. Name that layer 'head'."
        )
    return head
