"""Two Beta distributions fitted to per-sample losses in [0, 1]: those of right and of wrong labels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

STEPS = 10  # of EM (the authors' number)
EDGE = 1e-4  # keeps losses off 0 and 1, where densities are 0 or infinite (the authors' constant)
FLOOR = 1e-12  # of weighted densities: no sample is beyond both components (the authors' constant)
TIP = 1e-12  # keeps the ends of a table off 0 and 1 (the authors' constant)
VARIANCE_FLOOR = 1e-6  # of a component that shrinks to a point: its parameters would be infinite
SPREAD = 1e-9  # losses closer together than this are all the same


class BetaMixture(NamedTuple):
    """Two weighted Beta distributions; the component with the smaller mean comes first."""

    weight: tuple[float, float]
    alpha: tuple[float, float]
    beta: tuple[float, float]

    @property
    def mean(self) -> tuple[float, float]:
        first, second = (a / (a + b) for a, b in zip(self.alpha, self.beta, strict=True))
        return first, second

    def log_density(self, x: Tensor) -> Tensor:
        """Logarithms of the densities of the two weighted components at ``x``, [2, ...]; ``x`` is in (0, 1)."""
        weight, alpha, beta = (torch.tensor(part, dtype=torch.float64, device=x.device) for part in self)
        return _log_density(x.double(), weight, alpha, beta)

    def posterior(self, x: Tensor) -> Tensor:
        """The probability that a loss of ``x`` belongs to the second component."""
        first, second = self.log_density(x)
        return torch.sigmoid(second - first)

    def table(self, bins: int) -> Tensor:
        """The same at even steps from 0 to 1, [bins], made never to fall as the loss grows.

        Where one component is wider than the other on both sides, it takes over at both ends: at the smallest losses
        that must not be the second one, at the largest not the first.
        """
        x = torch.linspace(TIP, 1 - TIP, bins, dtype=torch.float64)
        second = self.posterior(x)
        lowest = int(second[x <= self.mean[1]].argmin())
        second[:lowest] = second[lowest]
        return second.cummax(dim=0).values


@torch.no_grad()
def fit_beta_mixture(losses: Tensor, steps: int = STEPS) -> BetaMixture | None:
    """Fit two Beta distributions by EM with moments (Arazo et al., ICML 2019); None if the losses are all the same.

    A step sets the parameters of a component by the mean m and the variance v of its samples:
    alpha = m (m (1 - m) / v - 1) and beta = alpha (1 - m) / m.
    """
    x = losses.flatten().double().clamp(EDGE, 1 - EDGE)
    if x.numel() == 0 or not bool(torch.isfinite(losses).all()) or float(x.max() - x.min()) < SPREAD:
        return None
    weight = torch.tensor([0.5, 0.5], dtype=torch.float64, device=x.device)
    alpha, beta = torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64, device=x.device)
    for _ in range(steps):
        log_joint = _log_density(x, weight, alpha, beta).clamp_min_(math.log(FLOOR))
        share = log_joint.softmax(dim=0)
        total = share.sum(dim=1)
        mean = (share @ x) / total
        variance = (share * (x - mean[:, None]) ** 2).sum(dim=1) / total
        # The variance of numbers inside of (0, 1) is below m (1 - m), so alpha and beta are positive.
        alpha = mean * (mean * (1 - mean) / variance.clamp_min(VARIANCE_FLOOR) - 1)
        beta = alpha * (1 - mean) / mean
        weight = total / total.sum()
    (w1, w2), (a1, a2), (b1, b2) = (part[mean.argsort(stable=True)].tolist() for part in (weight, alpha, beta))
    return BetaMixture((w1, w2), (a1, a2), (b1, b2))


def _log_density(x: Tensor, weight: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    scale = weight.log() + torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)
    columns = (-1, *(1 for _ in x.shape))
    scale, a, b = (part.reshape(columns) for part in (scale, alpha - 1, beta - 1))
    return scale + a * x.log() + b * torch.log1p(-x)
