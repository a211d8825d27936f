"""The asymmetric noise of CIFAR-10 and CIFAR-100: classes that look alike, or that the literature takes for such."""

from __future__ import annotations

from typing import Literal

from torch import Generator, Tensor

from selc.errors import ConfigError
from selc.noise.base import NOISES, Noise
from selc.noise.class_conditional import moved

# Truck to automobile, bird to airplane, deer to horse, cat and dog to each other (Patrini et al. 2017).
FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}

# The superclass of each of CIFAR-100's classes; both are numbered in alphabetical order.
SUPERCLASS = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7),
    *(6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10),
    *(16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16),
    *(12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)


@NOISES.register("asymmetric-cifar10")
def asymmetric_cifar10(
    labels: Tensor, num_classes: int, rng: Generator, *, rate: float = 0.4, exact: bool = True
) -> Noise:
    """CIFAR-10: truck to automobile, bird to airplane, deer to horse, cat and dog to each other.

    As in the paper the samples are chosen over all ten classes, so an affected class has about ``rate`` noise and
    the whole set about half of it.
    """
    _check_count("asymmetric-cifar10", "CIFAR-10", 10, num_classes)
    return moved(labels, [FLIPS.get(c, c) for c in range(10)], rng, rate, exact)


@NOISES.register("asymmetric-cifar100")
def asymmetric_cifar100(
    labels: Tensor,
    num_classes: int,
    rng: Generator,
    *,
    rate: float = 0.4,
    grouping: Literal["index-block", "superclass"] = "index-block",
    exact: bool = True,
) -> Noise:
    """CIFAR-100: each class becomes the next one of its group of five, the last of a group the first.

    The literature says "superclass" but groups five consecutive numbers, and the numbers are alphabetical: only 6 of
    its 100 flips stay in a superclass. ``index-block`` is that, ``superclass`` what it says.
    """
    _check_count("asymmetric-cifar100", "CIFAR-100", 100, num_classes)
    return moved(labels, next_in_group(grouping), rng, rate, exact)


def next_in_group(grouping: Literal["index-block", "superclass"]) -> list[int]:
    """The class that each of CIFAR-100's classes becomes."""
    group = SUPERCLASS if grouping == "superclass" else tuple(c // 5 for c in range(100))
    members: dict[int, list[int]] = {}
    for c, g in enumerate(group):
        members.setdefault(g, []).append(c)
    following = {five[k]: five[(k + 1) % 5] for five in members.values() for k in range(5)}
    return [following[c] for c in range(100)]


def _check_count(name: str, data: str, wanted: int, got: int) -> None:
    if got != wanted:
        raise ConfigError(
            f"noise {name!r} needs the {wanted} classes of {data}; got {got}. "
            "For other data give your own flips: noise 'map', such as to={3=5, 5=3}."
        )
