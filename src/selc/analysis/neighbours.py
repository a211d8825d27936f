"""Samples that are nearly the same, and samples that are far from all others, by rows of features.

Both are told by distances to the nearest rows, against what is usual among these very rows; r_k is the distance of a
row to its k-th nearest. Tails are followed beyond what was seen by a power law, as is usual for extremes:

- Nearly the same: d < c r_K, where fewer than one of N rows would have r_1 / r_K < c. About a row the others lie as if
  thrown, in m dimensions, so the volume out to r_1 is a share v = (r_1 / r_K)^m of that out to r_K with
  P(v < s) = 1 - (1 - s)^(K - 1), about (K - 1) s: a power law with index m, however dense the place is (E. Facco et
  al., Scientific Reports 2017, for K = 2). The index is measured between the quantiles at 10 and 40 %, less two
  standard errors. Groups of up to K - 1 copies are seen so, and copies of up to a tenth of all rows do not blur it.
- Far from all others: r_K beyond what fewer than one of N rows would reach, by the quantiles at 75 and 95 %.

The result is exact for these limits, in memory that does not grow with N^2: distances to a thousand rows bound r_K from
above, a projection bounds distances from below, and what the bounds leave open is computed in full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

K = 5  # neighbours: up to four copies of one thing are told from a dense place
SAMPLE = 1_000  # rows whose distances to all others say what is usual
FEWEST = 100  # rows of which something can be said
AXES = (32, 128, 512)  # of the projection: the fewest that leave few pairs open
OPEN = 20  # such pairs a row, at most
ROWS, COLUMNS = 1_024, 8_192  # of a block of distances
BELOW, ABOVE = (0.1, 0.4), (0.75, 0.95)  # the quantiles that tails are followed from
SLACK = 1e-5  # of squared norms: what rounding may take from a bound


@dataclass(frozen=True)
class Neighbours:
    """What stands out, each nearest or farthest first."""

    same: list[list[int]]  # groups of rows that are equal in every number
    near: list[tuple[int, int, float]]  # pairs that are nearly the same, with their distance
    far: list[tuple[int, float]]  # rows without company, with the distance of the nearest
    usual: float = math.nan  # the median distance of a row from its nearest


@dataclass(frozen=True)
class _Limits:
    """What is near and what is far, from a sample of rows."""

    share: float  # c: of the distance to the K-th neighbour
    far: float  # distance to the K-th neighbour
    usual: float
    above: Tensor  # [N] no less than the distance to the K-th neighbour of each row


def neighbours(x: Tensor, *, near: bool = True, seed: int = 0) -> Neighbours:
    """What stands out among rows [N, D]; ``near=False``: only equal rows, where distances are steps between levels."""
    x = x.detach().float().cpu() + 0.0  # so that there is one zero
    same, first = _equal(x)
    rows = x[first] - x.mean(dim=0)
    if not near or len(rows) < FEWEST:
        return Neighbours(same, [], [])
    draw = torch.from_numpy(np.random.default_rng(seed).permutation(len(rows)))
    limits = _limits(rows, draw[:SAMPLE])
    pairs = _near(rows, limits, draw[:SAMPLE]) if limits.share > 0 else []
    alone = _far(rows, limits, draw) if math.isfinite(limits.far) else []
    names = first.tolist()
    return Neighbours(
        same,
        sorted(((names[a], names[b], d) for a, b, d in pairs), key=lambda pair: (pair[2], pair)),
        sorted(((names[a], d) for a, d in alone), key=lambda row: (-row[1], row)),
        limits.usual,
    )


def _equal(x: Tensor) -> tuple[list[list[int]], Tensor]:
    """Groups of equal rows, and the first row of each group or single row, in order."""
    factors = torch.from_numpy(np.random.default_rng(1).integers(1, 2**62, x.shape[1]) * 2 + 1)
    # Whole numbers, wrapped at 64 bits: equal rows have equal sums, others but with a chance of 2^-64.
    bits = (block.contiguous().view(torch.int32).long() for block in x.split(ROWS))
    keys = torch.cat([(block * factors).sum(dim=1) for block in bits]).numpy()
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.r_[True, keys[order][1:] != keys[order][:-1]])
    groups = [group for group in np.split(order, starts[1:]) if len(group) > 1]
    first = torch.from_numpy(np.sort(order[starts]))
    return sorted(group.tolist() for group in groups), first


def _squared(a: Tensor, b: Tensor, norms_a: Tensor, norms_b: Tensor) -> Tensor:
    """Squared distances [A, B]; rounding leaves about 1e-6 of the norms."""
    return torch.addmm(norms_b[None] + norms_a[:, None], a, b.T, alpha=-2).clamp_(min=0)


def _limits(x: Tensor, sample: Tensor) -> _Limits:
    norms, some = x.square().sum(dim=1), x[sample]
    nearest = torch.full((len(sample), K), torch.inf)
    above = torch.empty(len(x))
    place = torch.full((len(x),), -1)
    place[sample] = torch.arange(len(sample))
    for columns in torch.arange(len(x)).split(COLUMNS):
        block = _squared(some, x[columns], norms[sample], norms[columns])
        there = place[columns]
        block[there[there >= 0], (there >= 0).nonzero().flatten()] = torch.inf  # a row is not its own neighbour
        above[columns] = block.topk(K, dim=0, largest=False).values[-1].sqrt()
        nearest = torch.cat([nearest, block], dim=1).topk(K, dim=1, largest=False).values
    first, last = nearest[:, 0].sqrt().double(), nearest[:, -1].sqrt().double()
    return _Limits(_share(first, last, len(x)), _beyond(last, len(x)), float(first.median()), above)


def _share(first: Tensor, last: Tensor, count: int) -> float:
    """The ratio r_1 / r_K that one of ``count`` rows would have by chance; 0 where distances do not tell."""
    low, high = ((first / last.clamp(min=1e-30)).quantile(q) for q in BELOW)
    if not 0 < low < high < 1:
        return 0.0
    index = math.log(BELOW[1] / BELOW[0]) / math.log(high / low)
    index *= 1 - 2 / math.sqrt((BELOW[1] - BELOW[0]) * len(first))  # as many rows lie between the two
    return float(low * (BELOW[0] * count) ** (-1 / index)) if index > 0 else 0.0


def _beyond(last: Tensor, count: int) -> float:
    """The distance to the K-th neighbour that one of ``count`` rows would exceed by chance."""
    low, high = (float(last.quantile(q)) for q in ABOVE)
    if low <= 0:
        return math.inf
    index = math.log(high / low) / math.log((1 - ABOVE[0]) / (1 - ABOVE[1]))
    return float(low * ((1 - ABOVE[0]) * count) ** index)


def _near(x: Tensor, limits: _Limits, sample: Tensor) -> list[tuple[int, int, float]]:
    """The pairs with d < c r_K of either row."""
    most = limits.share * limits.above
    pairs = [pair for block in _candidates(x, most, sample) for pair in block]
    rows = sorted({row for a, b, _ in pairs for row in (a, b)})
    place = {row: k for k, row in enumerate(rows)}
    limit = (limits.share * _nearest(x, torch.tensor(rows, dtype=torch.long))[:, -1]).tolist()
    return [(a, b, d) for a, b, d in pairs if d < max(limit[place[a]], limit[place[b]])]


def _candidates(x: Tensor, most: Tensor, sample: Tensor) -> Iterator[list[tuple[int, int, float]]]:
    """Pairs that are nearer than the larger of what ``most`` [N] says of both."""
    order = most.argsort(descending=True, stable=True)
    low, limit = _low(x, sample, most)[order], most[order].square()
    norms = low.square().sum(dim=1) * (1 - SLACK)
    for rows in torch.arange(len(x)).split(ROWS):
        start = int(rows[0])
        for columns in torch.arange(start, len(x)).split(COLUMNS):
            bound = torch.addmm(
                (norms[rows] - limit[rows])[:, None] + norms[columns], low[rows], low[columns].T, alpha=-2
            )
            if not bool((found := bound < 0).any()):
                continue
            a, b = found.nonzero(as_tuple=True)
            a, b = a + start, b + int(columns[0])
            a, b = a[a < b], b[a < b]
            for one, other in zip(a.split(COLUMNS), b.split(COLUMNS), strict=True):
                distance = (x[order[one]] - x[order[other]]).norm(dim=1)
                kept = (distance < most[order[one]]).nonzero().flatten()
                pair = torch.stack([order[one[kept]], order[other[kept]]]).sort(dim=0).values.tolist()
                yield list(zip(*pair, distance[kept].tolist(), strict=True))


def _low(x: Tensor, sample: Tensor, most: Tensor) -> Tensor:
    """Rows of few numbers, no two farther apart than they are in truth; all numbers where few would not tell."""
    some = x[sample].double()
    values, vectors = torch.linalg.eigh(some @ some.T)
    used = values > 1e-9 * values[-1]
    axes = some.T @ vectors[:, used]  # the main one is the last
    looked = sample[:200]
    for count in AXES:
        if count >= min(x.shape[1], axes.shape[1]):
            break
        low = _projected(x, torch.linalg.qr(axes[:, -count:]).Q.float())
        found = torch.cdist(low[looked], low[sample]) < most[looked][:, None]
        if int(found.sum()) - len(looked) < OPEN * found.numel() / len(x):  # a row meets itself
            return low
    return x


def _projected(x: Tensor, axes: Tensor) -> Tensor:
    """Rows on some axes, and the length of what is left."""
    low = x @ axes
    left = (x.square().sum(dim=1) - low.square().sum(dim=1)).clamp(min=0).sqrt()
    return torch.cat([low, left[:, None]], dim=1)


def _nearest(x: Tensor, rows: Tensor) -> Tensor:
    """Distances [B, K] of the nearest of all others."""
    norms = x.square().sum(dim=1)
    parts = []
    for some in rows.split(ROWS):
        best = torch.full((len(some), K), torch.inf)
        for columns in torch.arange(len(x)).split(COLUMNS):
            block = _squared(x[some], x[columns], norms[some], norms[columns])
            block.masked_fill_(some[:, None] == columns[None], torch.inf)
            best = torch.cat([best, block], dim=1).topk(K, dim=1, largest=False).values
        parts.append(best.sqrt())
    return torch.cat(parts) if parts else torch.empty(0, K)


def _far(x: Tensor, limits: _Limits, draw: Tensor) -> list[tuple[int, float]]:
    """The rows with r_K beyond the limit, with r_1: a row goes as soon as it has met K others that are near enough."""
    left = (limits.above > limits.far).nonzero().flatten()
    norms = x.square().sum(dim=1)
    met = torch.zeros(len(left), dtype=torch.long)
    for columns in draw.split(ROWS):
        within = torch.cat(
            [
                (_squared(x[some], x[columns], norms[some], norms[columns]) <= limits.far**2).sum(dim=1)
                for some in left.split(COLUMNS)
            ]
            or [torch.zeros(0, dtype=torch.long)]
        )
        met += within
        stay = met <= K  # itself is among them
        left, met = left[stay], met[stay]
    found = _nearest(x, left)
    return list(zip(left.tolist(), found[:, 0].tolist(), strict=True))
