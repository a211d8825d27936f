"""Which rows are held out: parts of the data that have no row in common, and nothing that gives one part away."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from selc.seeding import generator

LEAST = 2  # rows of a class in each part; a class with fewer is never held out


def deal_parts(
    labels: Tensor,
    count: int,
    seed: int,
    *,
    among: Tensor | None = None,
    groups: Tensor | None = None,
    time: Tensor | None = None,
) -> Tensor:
    """The part of each row, [N], from 0 to ``count`` - 1; -1: it is never held out.

    ``among`` [N] are the rows that may be held out, as booleans. Rows of one of the ``groups`` [N] share a part. With
    ``time`` [N] a part is a stretch of it, the last one the latest; else each class is spread evenly over the parts.
    """
    labels = labels.cpu()
    may = torch.ones(len(labels), dtype=torch.bool) if among is None else among.cpu().clone()
    sizes = torch.bincount(labels[may], minlength=int(labels.max()) + 1)
    may &= (sizes >= LEAST * count)[labels]
    part = torch.full((len(labels),), -1)
    rows = may.nonzero().flatten()
    if len(rows) == 0:
        return part
    unit = torch.arange(len(rows)) if groups is None else groups.cpu()[rows].unique(return_inverse=True)[1]
    total = int(unit.max()) + 1
    first = torch.full((total,), len(rows)).scatter_reduce(0, unit, torch.arange(len(rows)), "amin")  # of each unit
    by_row = first.argsort()  # so that what a group is called changes nothing
    first, unit = first[by_row], by_row.argsort()[unit]
    if time is not None:
        when = time.cpu()[rows][first].double()
        below = torch.searchsorted(when.sort().values, when)  # equal times share a part
        of_unit = below * count // total
    else:
        mixed = torch.randperm(total, generator=generator("parts", seed))
        order = mixed[labels[rows][first][mixed].argsort(stable=True)]
        of_unit = torch.empty(total, dtype=torch.int64).scatter_(0, order, torch.arange(total) % count)
    part[rows] = of_unit[unit]
    return part


def fingerprints(batches: Iterable[Tensor]) -> Tensor:
    """A number for each input, [N]: the same for identical ones, another for others but for a chance of 2 ** -64."""
    found = []
    weights: Tensor | None = None
    for x in batches:
        bits = x.detach().cpu().float().flatten(1).contiguous().view(torch.int32).long()
        if weights is None:
            weights = torch.randint(-(2**62), 2**62, (bits.shape[1],), generator=generator("fingerprints")) * 2 + 1
        found.append((bits * weights).sum(dim=1))
    return torch.cat(found)


def joined(one: Tensor, other: Tensor) -> Tensor:
    """Groups [N] in which rows are together that share a group of ``one`` or of ``other``."""
    one, other = one.unique(return_inverse=True)[1], other.unique(return_inverse=True)[1]
    group = torch.arange(len(one))
    while True:
        before = group
        for kind in (one, other):
            least = torch.full((int(kind.max()) + 1,), len(group)).scatter_reduce(0, kind, group, "amin")
            group = least[kind]
        if torch.equal(group, before):
            return group
