"""Noise that depends on the class alone."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from selc.noise.base import NOISES, Noise, check_rate, measured


@NOISES.register("none")
def none(labels: Tensor, num_classes: int, rng: Generator) -> Noise:
    """The labels as they are."""
    return measured(labels, labels.clone(), num_classes)


@NOISES.register("symmetric")
def symmetric(
    labels: Tensor, num_classes: int, rng: Generator, *, rate: float = 0.4, include_true: bool = True
) -> Noise:
    """Labels of a random share of the samples are replaced by uniform ones.

    Exactly int(rate N) samples are chosen over the whole set. With ``include_true``, as in the paper, the new
    label may be the true one, so the realised rate is about rate (C - 1) / C; without, it is the rate.
    """
    labels = labels.long()
    chosen = _choose(labels, rate, rng)
    given = labels.clone()
    if include_true:
        given[chosen] = torch.randint(num_classes, (len(chosen),), generator=rng)
    else:
        given[chosen] = (labels[chosen] + torch.randint(1, num_classes, (len(chosen),), generator=rng)) % num_classes
    return measured(labels, given, num_classes)


@NOISES.register("pair")
def pair(labels: Tensor, num_classes: int, rng: Generator, *, rate: float = 0.4) -> Noise:
    """Labels of a random share of the samples become the next class, the last one the first."""
    labels = labels.long()
    chosen = _choose(labels, rate, rng)
    given = labels.clone()
    given[chosen] = (labels[chosen] + 1) % num_classes
    return measured(labels, given, num_classes)


def _choose(labels: Tensor, rate: float, rng: Generator) -> Tensor:
    """Exactly int(rate N) rows."""
    return torch.randperm(len(labels), generator=rng)[: int(check_rate(rate) * len(labels))]
