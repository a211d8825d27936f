"""Evidence as trainings leave it, made up: a network learns, and may forget what it knew."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.turning import Evidence
from tests.helpers import rng


def evidence(
    probabilities: Tensor, labels: Tensor, num_classes: int, seed: int = 0, splits: int = 5, wobble: float = 0.0
) -> Evidence:
    """Looks at which row i is predicted right with the probability [L, M]; a row keeps its luck from look to look.

    ``wobble`` is the standard deviation of what a whole look is better or worse than it should be.
    """
    L, M = probabilities.shape
    luck = torch.rand(M, generator=rng(seed))
    moved = probabilities + wobble * torch.randn(L, 1, generator=rng(seed + 1))
    fresh = torch.rand(L, M, generator=rng(seed + 2))
    hit = torch.where(fresh < 0.1, torch.rand(L, M, generator=rng(seed + 3)), luck) < moved  # a tenth is drawn anew
    other = (labels + 1 + torch.randint(num_classes - 1, (L, M), generator=rng(seed + 4))) % num_classes
    predictions = torch.where(hit, labels, other)
    confidences = torch.full((L, M), 0.8)
    given = torch.where(hit, 0.8, 0.1)
    return Evidence(labels, predictions, confidences, given, num_classes, splits, torch.arange(M))


def learning(looks: int, rows: int, top: float, slowness: float = 5.0) -> Tensor:
    """A share that rises to ``top``, [L, M]."""
    curve = top * (1 - torch.exp(-(torch.arange(looks) + 1) / slowness))
    return curve[:, None].expand(looks, rows).clone()
