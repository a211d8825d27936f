"""Noise that depends on the parts of an instance.

Xiaobo Xia, Tongliang Liu, Bo Han, Nannan Wang, Mingming Gong, Haifeng Liu, Gang Niu, Dacheng Tao, Masashi Sugiyama:
Part-dependent Label Noise: Towards Instance-dependent Label Noise. NeurIPS 2020.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from selc.errors import ConfigError
from selc.noise.base import NOISES, Noise, by_class, check_rate, check_supplied, measured


@NOISES.register("part")
def part(labels: Tensor, num_classes: int, rng: Generator, x: Tensor, *, rate: float = 0.4, std: float = 0.1) -> Noise:
    """Each sample has a flip rate of its own, and a random linear view of its input says where to (Xia et al.).

    The flip rate q_i is normal with mean ``rate`` and deviation ``std``, cut off at 0 and 1. Each class y has a matrix
    W_y [D, C] of standard normal numbers. A flipped label is drawn from the softmax of x_i W_y over the other classes,
    so the realised rate is about the mean of q: 0.129 at a rate of 0.1, which the cut raises, and the rate from 0.3 on.

    The scores x_i W_y spread as widely as the vector x_i is long. With pixels from 0 to 255, as in the authors' code,
    that is thousands: the softmax picks one class, and each image has just one wrong label.

    Deviation: a rate of 0 changes nothing; by the formula it would change 8 % of the labels.
    """
    labels = labels.long()
    if num_classes < 2:
        raise ConfigError("noise 'part' needs at least 2 classes; got 1.")
    if not std > 0:
        raise ConfigError(f"std of noise 'part' must be above 0; got {std}. The authors use 0.1.")
    check_supplied("x", x, len(labels))
    if check_rate(rate) == 0:
        return measured(labels, labels.clone(), num_classes)
    q = truncated_normal(len(labels), rate, std, rng)
    flips = torch.rand(len(labels), generator=rng, dtype=torch.float64) < q
    given = labels.clone()
    for y, rows in enumerate(by_class(labels, num_classes)):
        W = torch.randn(
            x.shape[1], num_classes, generator=rng, dtype=torch.float64
        )  # one class at a time: all together can be large
        rows = rows[flips[rows]]
        if len(rows):
            scores = x[rows].double() @ W
            scores[:, y] = -torch.inf
            given[rows] = torch.multinomial(scores.softmax(dim=1), 1, generator=rng).squeeze(1)
    return measured(labels, given, num_classes)


def truncated_normal(count: int, mean: float, std: float, rng: Generator) -> Tensor:
    """Normal draws given that they are in [0, 1], by the inverse of the distribution function."""
    ends = torch.special.ndtr((torch.tensor([0.0, 1.0], dtype=torch.float64) - mean) / std)
    share = ends[0] + (ends[1] - ends[0]) * torch.rand(count, generator=rng, dtype=torch.float64)
    normal: Tensor = torch.special.ndtri(share)
    return (mean + std * normal).clamp(0, 1)  # rounding can pass an end by a bit
