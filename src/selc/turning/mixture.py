"""Two Gaussians, or two centroids, fitted to per-sample losses over a histogram: the cost does not grow with N."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from selc.errors import InputError

BINS = 2048  # resolution of the losses; on [0, 1] a bin is 0.0005 wide
STEPS = 1000  # EM steps at most; a step over the bins takes a tenth of a millisecond
EMPTY = 1e-12  # the weight of a component without samples
VARIANCE_FLOOR = 1e-6  # as in scikit-learn: a component that shrinks to a point would have an infinite likelihood


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


def normalise(losses: Tensor, clip: float = 0.0) -> Tensor:
    """Map losses to [0, 1] by their smallest and largest value, as the paper does.

    With ``clip``, that share of the samples at either end is first moved to the quantile there, so that one huge loss
    does not squeeze all others into one bin.
    """
    losses = _checked(losses)
    if clip > 0:
        ordered = losses.flatten().sort().values  # torch.quantile refuses more than 16 million values
        edge = int(clip * (len(ordered) - 1))
        losses = losses.clamp(ordered[edge], ordered[len(ordered) - 1 - edge])
    low, high = losses.min(), losses.max()
    return (losses - low) / (high - low).clamp_min(torch.finfo(losses.dtype).tiny)


@torch.no_grad()
def fit_mixture(
    losses: Tensor,
    bins: int = BINS,
    steps: int = STEPS,
    tolerance: float = 1e-8,
    variance_floor: float = VARIANCE_FLOOR,
) -> Mixture:
    """Fit two Gaussians to losses in [0, 1] by EM; the same losses always give the same mixture.

    EM finds a local maximum, so it starts from several splits of the losses in two at once, and the likeliest end is
    taken. ``variance_floor`` is added to the variance of either, as scikit-learn's ``reg_covar`` is.
    """
    x, share = _histogram(losses, bins)
    cuts = [float(_two_means(x, share).mean())] + [float(_quantile(x, share, q)) for q in (0.25, 0.5, 0.75, 0.9)]
    upper = torch.stack([(x > cut).double() for cut in cuts])
    responsibility = torch.stack([1.0 - upper, upper], dim=1)  # [starts, 2, bins]
    centre = (share * x).sum()  # where an empty component stays: it is no distance away from anything
    before = torch.full((len(cuts),), -math.inf, dtype=torch.float64, device=x.device)
    for _ in range(steps):
        mass = responsibility * share
        weight = mass.sum(-1).clamp_min(EMPTY)
        mean = torch.where(weight > EMPTY, (mass * x).sum(-1) / weight, centre)
        apart = (x - mean[..., None]).square_()
        variance = (mass * apart).sum(-1) / weight + variance_floor
        scale = (weight / (2 * math.pi * variance).sqrt()).log()
        log_joint = scale[..., None] - apart / (2 * variance[..., None])
        log_total = torch.logaddexp(log_joint[:, 0], log_joint[:, 1])
        responsibility = (log_joint - log_total[:, None]).exp_()
        likelihood = log_total @ share
        if bool((likelihood - before < tolerance).all()):
            break
        before = likelihood
    best = int(likelihood.argmax())
    order = mean[best].argsort()
    (w1, w2), (m1, m2) = (weight[best] / weight[best].sum())[order].tolist(), mean[best][order].tolist()
    s1, s2 = variance[best][order].sqrt().tolist()
    return Mixture((w1, w2), (m1, m2), (s1, s2))


@torch.no_grad()
def two_means(losses: Tensor, bins: int = BINS) -> tuple[float, float]:
    """The centroids of the two clusters with the smallest sum of squares, the smaller first. Losses are in [0, 1]."""
    low, high = _two_means(*_histogram(losses, bins)).tolist()
    return low, high


def _two_means(x: Tensor, share: Tensor) -> Tensor:
    """The best of all cuts between two bins: in one dimension there are few enough to try them all."""
    weight, total = share.cumsum(0), (share * x).cumsum(0)
    below, above = total / weight, (total[-1] - total) / (weight[-1] - weight).clamp_min(1e-300)
    # The sum of squares within clusters is smallest where that between them is largest.
    between = weight * (1 - weight) * (above - below) ** 2
    between[-1] = 0.0  # everything below the cut: no second cluster
    cut = int(between.argmax())
    second = above[cut] if len(x) > 1 else below[cut]
    return torch.stack([below[cut], second])


def _histogram(losses: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The mean loss in each bin that is not empty, and its share of the samples."""
    losses = _checked(losses).flatten()
    low, high = float(losses.min()), float(losses.max())
    if low < 0 or high > 1:
        raise InputError(f"losses must be in [0, 1]; got {low:g} to {high:g}. Normalise them first.")
    place = (losses * bins).long().clamp_(max=bins - 1)
    count = torch.bincount(place, minlength=bins)
    total = torch.zeros(bins, dtype=torch.float64, device=losses.device).index_add_(0, place, losses.double())
    filled = count > 0
    return total[filled] / count[filled], count[filled].double() / losses.numel()


def _quantile(x: Tensor, share: Tensor, q: float) -> Tensor:
    return x[torch.searchsorted(share.cumsum(0), q)]


def _checked(losses: Tensor) -> Tensor:
    if losses.numel() == 0 or not bool(torch.isfinite(losses).all()):
        raise InputError(
            "losses must be a non-empty tensor of finite numbers; "
            f"got {losses.numel()} values, {int((~torch.isfinite(losses)).sum())} of them not finite."
        )
    return losses if losses.is_floating_point() else losses.float()
