"""What a noise model returns, and the registry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from selc.core.seeding import generator
from selc.errors import ConfigError
from selc.registry import Registry


class NoiseModel(Protocol):
    def __call__(self, labels: Tensor, num_classes: int, rng: Generator, **options: Any) -> Noise: ...


class Noise(NamedTuple):
    """Labels after noise, with what really happened to them."""

    labels: Tensor  # [N] given labels
    rate: float  # share of labels that now differ from the true ones
    matrix: Tensor  # [C, C] realised transition matrix, P(given = column | true = row); rows sum to one

    @property
    def digest(self) -> str:
        return digest_of(self.labels)


def digest_of(labels: Tensor) -> str:
    """A hash of labels, the same on every machine."""
    return hashlib.sha256(labels.cpu().numpy().astype("<i8").tobytes()).hexdigest()


NOISES: Registry[Callable[..., Noise]] = Registry("noise")


def measured(true: Tensor, given: Tensor, num_classes: int) -> Noise:
    """The realised rate and transition matrix of a pair of labellings."""
    true, given = true.long(), given.long()  # labels of fewer bits would overflow in the product
    counts = torch.bincount(true * num_classes + given, minlength=num_classes**2)
    counts = counts.view(num_classes, num_classes).double()
    total = counts.sum(1, keepdim=True)
    # A class without samples keeps its label: its row is that of the identity.
    matrix = torch.where(total > 0, counts / total.clamp_min(1), torch.eye(num_classes, dtype=torch.float64))
    return Noise(given, float((true != given).double().mean()), matrix)


def check_rate(rate: float) -> float:
    if not 0.0 <= rate <= 1.0:
        raise ConfigError(f"rate must be in [0, 1]; got {rate}. It is the share of labels to change.")
    return rate


def draw_noise(name: str, labels: Tensor, num_classes: int, seed: int, options: Mapping[str, Any]) -> Noise:
    """Draw a registered noise; it depends on the seed, the name and the options alone."""
    return NOISES[name](labels.long(), num_classes, generator("noise", seed, name), **NOISES.checked(name, options))
