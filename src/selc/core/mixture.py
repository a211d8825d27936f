"""Two Gaussians fitted to per-sample losses: the shape from which the turning point is read."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from selc.errors import InputError

BINS = 2048  # resolution of the losses; on [0, 1] a bin is 0.0005 wide
STEPS = 200  # EM steps at most; a pass over the bins costs microseconds
VARIANCE_FLOOR = (1.0 / BINS) ** 2  # a component is never narrower than a bin


class Mixture(NamedTuple):
    """Two weighted Gaussians in one dimension; the component with the smaller mean comes first."""

    weight: tuple[float, float]
    mean: tuple[float, float]
    std: tuple[float, float]

    def density(self, x: Tensor) -> Tensor:
        """The densities of the two weighted components at ``x``, [2, ...]."""
        return torch.stack(
            [
                w * torch.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))
                for w, m, s in zip(self.weight, self.mean, self.std, strict=True)
            ]
        )


def normalise(losses: Tensor) -> Tensor:
    """Map losses to [0, 1] by their smallest and largest value, as the paper does."""
    losses = _checked(losses)
    low, high = losses.min(), losses.max()
    return (losses - low) / (high - low).clamp_min(torch.finfo(losses.dtype).tiny)


def _checked(losses: Tensor) -> Tensor:
    if losses.numel() == 0 or not bool(torch.isfinite(losses).all()):
        raise InputError(
            "losses must be a non-empty tensor of finite numbers; "
            f"got {losses.numel()} values, {int((~torch.isfinite(losses)).sum())} of them not finite."
        )
    return losses if losses.is_floating_point() else losses.float()


@torch.no_grad()
def fit_mixture(losses: Tensor, bins: int = BINS, steps: int = STEPS, tolerance: float = 1e-7) -> Mixture:
    """Fit two Gaussians to losses in [0, 1] by EM over a histogram: the cost per step does not grow with N.

    It starts from the two halves of the losses on either side of their mean, so the same losses always give
    the same mixture.
    """
    losses = _checked(losses)
    if float(losses.min()) < 0 or float(losses.max()) > 1:
        raise InputError(
            f"losses must be in [0, 1]; got {float(losses.min()):g} to {float(losses.max()):g}. Normalise them first."
        )
    counts = torch.histc(losses.double().flatten(), bins=bins, min=0.0, max=1.0)
    share = counts / counts.sum()
    x = (torch.arange(bins, dtype=torch.float64, device=share.device) + 0.5) / bins
    upper = (x > (share * x).sum()).double()
    responsibility = torch.stack([1.0 - upper, upper])
    before = -math.inf
    for _ in range(steps):
        mass = responsibility * share
        weight = mass.sum(1).clamp_min(1e-12)  # an empty component keeps a place to grow from
        mean = (mass * x).sum(1) / weight
        variance = (mass * (x - mean[:, None]) ** 2).sum(1) / weight
        variance = variance.clamp_min(VARIANCE_FLOOR)
        log_joint = (
            weight.log()[:, None]
            - 0.5 * (2 * math.pi * variance[:, None]).log()
            - 0.5 * (x - mean[:, None]) ** 2 / variance[:, None]
        )
        log_total = log_joint.logsumexp(0)
        responsibility = (log_joint - log_total).exp()
        likelihood = float((share * log_total).sum())
        if likelihood - before < tolerance:
            break
        before = likelihood
    order = mean.argsort()
    (w1, w2), (m1, m2) = (weight / weight.sum())[order].tolist(), mean[order].tolist()
    s1, s2 = variance[order].sqrt().tolist()
    return Mixture((w1, w2), (m1, m2), (s1, s2))
