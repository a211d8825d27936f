"""Noise that depends on the class alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor

from selc.errors import ConfigError
from selc.noise.base import NOISES, Noise, by_class, check_rate, measured

ROUNDING = 1e-6  # by which a row of a matrix may miss one: decimals in a file are rounded


@NOISES.register("none")
def none(labels: Tensor, num_classes: int, rng: Generator) -> Noise:
    """The labels as they are."""
    return measured(labels, labels.clone(), num_classes)


@NOISES.register("symmetric")
def symmetric(
    labels: Tensor,
    num_classes: int,
    rng: Generator,
    *,
    rate: float = 0.4,
    include_true: bool = True,
    exact: bool = True,
) -> Noise:
    """Labels of a random share of the samples are replaced by uniform ones.

    With ``include_true``, as in the paper, the new label may be the true one, so the realised rate is about
    rate (C - 1) / C; without, it is the rate. With ``exact``, as in the paper, int(rate N) samples are chosen over
    the whole set; without, each by a coin of its own.
    """
    labels = labels.long()
    chosen = choose(labels, rate, rng, exact)
    given = labels.clone()
    if include_true:
        given[chosen] = torch.randint(num_classes, (len(chosen),), generator=rng)
    elif num_classes < 2:
        raise ConfigError("symmetric noise without the true class needs at least 2 classes; got 1.")
    else:
        given[chosen] = (labels[chosen] + torch.randint(1, num_classes, (len(chosen),), generator=rng)) % num_classes
    return measured(labels, given, num_classes)


@NOISES.register("pair")
def pair(labels: Tensor, num_classes: int, rng: Generator, *, rate: float = 0.4, exact: bool = True) -> Noise:
    """Labels of a random share of the samples become the next class, the last one the first."""
    return moved(labels, [(c + 1) % num_classes for c in range(num_classes)], rng, rate, exact)


@NOISES.register("map")
def class_map(
    labels: Tensor,
    num_classes: int,
    rng: Generator,
    *,
    to: dict[int, int] | tuple[int, ...] = (),
    rate: float = 0.4,
    exact: bool = True,
) -> Noise:
    """Labels of a random share of the samples go where a map of the classes says.

    ``to`` is a table {class: new class}, in which other classes stay, or a list with an entry for each class. The
    samples are chosen over all classes, so the realised rate is about the rate times the share of mapped classes.
    """
    return moved(labels, _targets(to, num_classes), rng, rate, exact)


@NOISES.register("matrix")
def matrix(labels: Tensor, num_classes: int, rng: Generator, *, rows: tuple[tuple[float, ...], ...] = ()) -> Noise:
    """Each label is drawn from its class's row of a given transition matrix, P(given = column | true = row)."""
    labels = labels.long()
    chances = _chances(rows, num_classes)
    given = labels.clone()
    for chance, index in zip(chances, by_class(labels, num_classes), strict=True):
        if len(index):
            given[index] = torch.multinomial(chance, len(index), replacement=True, generator=rng)
    return measured(labels, given, num_classes)


def moved(labels: Tensor, to: Sequence[int], rng: Generator, rate: float, exact: bool) -> Noise:
    """A random share of the samples, chosen over all classes, with class c become ``to[c]``."""
    labels = labels.long()
    chosen = choose(labels, rate, rng, exact)
    given = labels.clone()
    given[chosen] = torch.tensor(to)[labels[chosen]]
    return measured(labels, given, len(to))


def choose(labels: Tensor, rate: float, rng: Generator, exact: bool) -> Tensor:
    """Exactly int(rate N) rows, or each row with that probability."""
    check_rate(rate)
    if exact:
        return torch.randperm(len(labels), generator=rng)[: int(rate * len(labels))]
    return (torch.rand(len(labels), generator=rng) < rate).nonzero().flatten()


def _targets(to: Mapping[int, int] | Sequence[int], num_classes: int) -> list[int]:
    if isinstance(to, Mapping):
        pairs = dict(to)
    elif len(to) == num_classes:
        pairs = dict(enumerate(to))
    else:
        raise ConfigError(
            f"to of noise 'map' must be a table such as {{3=5, 5=3}}, or a list with an entry for each of the "
            f"{num_classes} classes; got {len(to)} entries."
        )
    outside = [c for pair in pairs.items() for c in pair if not 0 <= c < num_classes]
    if outside or not pairs:
        got = f"class {outside[0]}" if outside else "an empty table"
        raise ConfigError(f"to of noise 'map' must name classes in 0..{num_classes - 1}; got {got}.")
    return [pairs.get(c, c) for c in range(num_classes)]


def _chances(rows: Sequence[Sequence[float]], num_classes: int) -> Tensor:
    shape = sorted({len(row) for row in rows})
    if len(rows) != num_classes or shape != [num_classes]:
        raise ConfigError(
            f"rows of noise 'matrix' must be {num_classes} lists of {num_classes} probabilities, a row for each true "
            f"class; got {len(rows)} of {' or '.join(map(str, shape)) or 'no'} numbers."
        )
    chances = torch.tensor(rows, dtype=torch.float64)
    total = chances.sum(1)
    for c in range(num_classes):
        if not bool((chances[c] >= 0).all()):
            raise ConfigError(f"rows of noise 'matrix' must be probabilities; got {list(rows[c])} in row {c}.")
        if not abs(float(total[c]) - 1) <= ROUNDING:
            raise ConfigError(
                f"rows of noise 'matrix' must sum to one; got {float(total[c]):g} in row {c}. A row belongs to a true "
                "class; if the columns sum to one, transpose it."
            )
    return chances
