"""What a noise model returns, the registry, and how a model gets what it needs beside the labels."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from selc.errors import ConfigError, InputError
from selc.losses.cross_entropy import checked_labels
from selc.registry import Registry
from selc.seeding import generator


class Noise(NamedTuple):
    """Labels after noise, with what really happened to them."""

    labels: Tensor  # [N] given labels
    rate: float  # share of labels that now differ from those before
    matrix: Tensor  # [C, C] realised transition matrix, P(given = column | before = row); rows sum to one
    facts: Mapping[str, float] = MappingProxyType({})  # what a model found out on the way, such as PMD's factor

    @property
    def digest(self) -> str:
        return label_digest(self.labels)


def label_digest(labels: Tensor) -> str:
    """A hash of labels, the same on every machine."""
    return hashlib.sha256(labels.cpu().numpy().astype("<i8").tobytes()).hexdigest()


# A model is ``f(labels, num_classes, rng, *what it needs, **options)``. Further positional parameters are supplied by
# name: ``mean_probs`` and ``last_probs`` [N, C] of a network trained on the labels, ``x`` [N, D] the raw inputs, or
# ``supply`` for the suppliers themselves. Keyword-only parameters are the user's options.
NOISES: Registry[Callable[..., Noise]] = Registry("noise")

Supply = Mapping[str, Callable[[], Tensor]]  # name of a positional parameter -> what makes it

_ALWAYS = ("labels", "num_classes", "rng")


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


def draw_noise(
    name: str,
    labels: Tensor,
    num_classes: int,
    seed: int,
    options: Mapping[str, Any],
    supply: Supply | None = None,
) -> Noise:
    """Draw a registered noise; it depends on the labels, the seed, the name, the options and what it is supplied with.

    ``supply`` is asked only for what the model needs, and only after its options were found valid: what it makes may
    take a training.
    """
    rng = generator("noise", seed, name)
    return apply(name, checked_labels(labels, num_classes), num_classes, rng, options, supply or {})


def apply(
    name: str, labels: Tensor, num_classes: int, rng: Generator, options: Mapping[str, Any], supply: Supply
) -> Noise:
    """Draw a registered noise from a generator."""
    checked = check(name, options, supply)
    needed = [supply if need == "supply" else supply[need]() for need in needs(name)]
    return NOISES[name](labels, num_classes, rng, *needed, **checked)


def check(name: str, options: Mapping[str, Any], supply: Supply) -> dict[str, Any]:
    """The options as the model takes them, or an error; nothing is drawn or made yet."""
    checked = NOISES.checked(name, options)
    if "rate" in checked:
        check_rate(checked["rate"])
    for need in needs(name):
        if need != "supply" and need not in supply:
            raise ConfigError(
                f"noise {name!r} needs {need} beside the labels; got nothing that makes it. "
                "Pass supply={...} to draw_noise, or make the labels with `selc noise make` and use noise 'file'."
            )
    return checked


def needs(name: str) -> list[str]:
    """What a model must be supplied with beside the labels."""
    parameters = inspect.signature(NOISES[name]).parameters
    return [k for k, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and k not in _ALWAYS]


def check_supplied(name: str, table: Tensor, rows: int, columns: int | None = None) -> Tensor:
    """A table with a row for each sample and finite numbers, or an error."""
    wanted = f"[{rows}, {columns or 'D'}]"
    if table.dim() != 2 or len(table) != rows or (columns is not None and table.shape[1] != columns):
        raise InputError(f"{name} must be of shape {wanted}, a row per sample; got {list(table.shape)}.")
    if table.is_floating_point() and not bool(torch.isfinite(table).all()):
        raise InputError(f"{name} must hold finite numbers; got NaN or infinity.")
    return table


def by_class(labels: Tensor, num_classes: int) -> list[Tensor]:
    """The rows of each class, in row order."""
    order = labels.argsort(stable=True)
    return list(order.split(torch.bincount(labels, minlength=num_classes).tolist()))
