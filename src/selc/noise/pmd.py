"""Noise near the decision boundary: polynomial margin diminishing (PMD).

Yikai Zhang, Songzhu Zheng, Pengxiang Wu, Mayank Goswami, Chao Chen: Learning with Feature-Dependent Label Noise: A
Progressive Approach (the paper of PLC). ICLR 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Generator, Tensor

from selc.errors import ConfigError
from selc.noise.base import NOISES, Noise, check_rate, check_supplied, measured

HALVINGS = 100  # of the interval of log F: enough to tell any two floats apart
TINY = 1e-100  # in place of zero, to divide by and to take the logarithm of


@NOISES.register("pmd")
def pmd(
    labels: Tensor,
    num_classes: int,
    rng: Generator,
    last_probs: Tensor,
    *,
    type: Literal[1, 2, 3] = 1,
    rate: float = 0.35,
    factor: float = 0.0,
    teacher_epochs: int = 0,
) -> Noise:
    """Samples near a network's decision boundary get its second choice (PLC's noise, types 1 to 3).

    With u and s the first and second class of the network's probabilities and D the margin between them, the label is
    u with probability min(1, kappa / F) and s otherwise, where kappa = 1 - tau and

        type 1: tau = 1/2 - D^2 / 2    type 2: tau = 1 - D^3    type 3: tau = 1 - (D + D^2 + D^3) / 3

    The true label enters only in the rate, which therefore also counts the network's own errors. ``factor`` gives F;
    0 finds the F at which ``rate`` is reached, by bisection with the same draws at each step. The network that draws
    is trained for ``teacher_epochs``, 0: for those of the run. A network that has learnt every label by heart has
    margins of one everywhere, and then the draw no longer depends on them; the authors train 25 epochs of 180.

    Deviations: as in the authors' code F divides the probability to keep u (the paper multiplies tau); they choose F
    by hand. Below an F of max kappa the probability stays at one.
    """
    labels = labels.long()
    check_rate(rate)
    if teacher_epochs < 0:
        raise ConfigError(
            f"teacher_epochs of noise 'pmd' must be at least 1, or 0 for those of the run; got {teacher_epochs}."
        )
    if not (factor >= 0 and math.isfinite(factor)):
        raise ConfigError(f"factor of noise 'pmd' must be above 0, or 0 to find it from the rate; got {factor}.")
    probs = check_supplied("last_probs", last_probs, len(labels), num_classes).double()
    if num_classes < 2:
        raise ConfigError("noise 'pmd' needs at least 2 classes; got 1.")
    (first, second), (u, s) = (part.unbind(1) for part in probs.topk(2, dim=1))
    kappa = keep(first - second, type)
    draws = torch.rand(len(labels), generator=rng, dtype=torch.float64)

    def drawn(factor: float) -> Tensor:
        return torch.where(draws * factor < kappa, u, s)

    def wrong(factor: float) -> float:
        return float((drawn(factor) != labels).double().mean())

    factor = factor or find_factor(rate, wrong, kappa / draws.clamp_min(TINY), 1 / len(labels))
    return measured(labels, drawn(factor), num_classes)._replace(facts={"factor": factor})


def keep(margin: Tensor, type: int) -> Tensor:
    """kappa = 1 - tau: the probability to keep the first choice at F = 1."""
    if type == 1:
        return 0.5 + 0.5 * margin**2
    return margin**3 if type == 2 else (margin + margin**2 + margin**3) / 3


def find_factor(rate: float, wrong: Callable[[float], float], critical: Tensor, sample: float) -> float:
    """The factor at which the share of wrong labels crosses the rate, to a ``sample``.

    A sample goes over to its second choice at its ``critical`` factor and stays there. So the share rises with the
    factor, but for samples whose second choice is right; that there is a crossing between the ends does not need it.
    """
    low, high = float(critical.min().clamp_min(TINY)) / 2, float(critical.max().clamp_min(TINY)) * 2
    least, most = wrong(low), wrong(high)
    if not least - sample <= rate <= most + sample:
        raise ConfigError(
            f"rate of noise 'pmd' must be from {least:.4g}, the share of labels that the network gets wrong by "
            f"itself, to {most:.4g}, that of wrong second choices; got {rate}. Train the network longer for a lower "
            "rate, or take another rate."
        )
    for _ in range(HALVINGS):
        middle = math.sqrt(low) * math.sqrt(high)
        if wrong(middle) <= rate:
            low = middle
        else:
            high = middle
    return min(low, high, key=lambda factor: abs(wrong(factor) - rate))
