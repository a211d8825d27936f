"""A table of probabilities of which only the largest entries are kept: for very many classes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from selc.memory.forms import Form, Held

KEPT = 8  # entries of a row
BUDGET = 64  # bytes of a row at most
ROUNDING = 1e-5  # by which a mean of equal numbers may miss them
TINY = torch.finfo(torch.float32).tiny  # keeps a division by a sum of zeros finite
WIDE = 2048  # columns from which on the largest are looked for in two steps
PARTS = 16  # entries of a group at most
HEAP = 64  # columns for each entry from which on torch keeps the largest so far, and passes over smaller ones


class Whole(Form):
    """The form top-k of so few columns that the whole row takes no more than 64 bytes: it is kept as it is."""

    name = "top-k"

    @staticmethod
    def fits(columns: int) -> bool:
        return 4 * columns <= BUDGET


class TopK(Form):
    """The k largest entries of each row, and the sum of all others, which is read as spread evenly over their columns.

    A kept entry takes 4 bytes and its column as many as the number of columns needs, so 8 of them are 44 to 60 bytes
    with the sum; beyond 16 million columns 7 are kept, and up to 16 columns everything (see `Whole`). A column is
    dropped when k others are larger, never before, and its mass stays in the row.

    An update works on the whole rows of the batch, [B, columns]; most of its time goes into finding the largest, so
    that only rows of which another column became one of them are searched. There the sum is spread as the prediction at
    hand is, not evenly: an even spread is a target that smooths labels, and a training follows it. With k columns or
    fewer nothing is spread, and it is the dense form.
    """

    name = "top-k"

    def __init__(self, columns: int, k: int | None = None) -> None:
        super().__init__(columns)
        self.width = next(width for width in range(1, 9) if columns <= 256**width)  # bytes of a column's number
        self.k = min(columns, min(KEPT, (BUDGET - 4) // (4 + self.width)) if k is None else k)
        self.others = max(columns - self.k, 1)

    @property
    def kept_columns(self) -> int:
        return self.k

    def shapes(self, rows: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        return {
            "values": ((rows, self.k), torch.float32),
            "classes": ((rows, self.k, self.width), torch.uint8),
            "rest": ((rows,), torch.float32),
        }

    def make(self, rows: int) -> dict[str, Tensor]:
        held = super().make(rows)
        held["classes"].copy_(self._bytes(torch.arange(self.k)))  # a row has no column twice, not even at first
        return held

    def read(self, held: Held, slot: Tensor) -> Tensor:
        share = held["rest"].index_select(0, slot).div_(self.others).unsqueeze(1)
        rows = share.expand(-1, self.columns).contiguous()
        return rows.scatter_(1, self._numbers(held, slot), held["values"].index_select(0, slot))

    def write(self, held: Held, slot: Tensor, rows: Tensor) -> None:
        self._keep(held, slot, rows.to(torch.float32, copy=True))

    def ema(self, held: Held, slot: Tensor, rows: Tensor, weight: float) -> Tensor:
        p = rows.float()
        if self.columns == self.k:
            updated = self.read(held, slot).lerp_(p, weight)
            self._keep(held, slot, updated)
            return updated
        values, classes = held["values"].index_select(0, slot), self._numbers(held, slot)
        updated, rest = self._others(held, slot, p, classes, values.amin(dim=1, keepdim=True), weight)
        highest = updated.amax(dim=1)
        values.lerp_(p.gather(1, classes), weight)
        updated.scatter_(1, classes, values)
        held["values"].index_copy_(0, slot, values)
        held["rest"].index_copy_(0, slot, rest)
        self._search(held, slot, updated, classes, values.amin(dim=1) < highest)
        return updated

    def write_labels(self, held: Held, slot: Tensor, label: Tensor) -> None:
        classes = torch.arange(self.k, device=label.device).repeat(len(label), 1)
        classes.masked_fill_(classes == label.unsqueeze(1), 0)  # the label changes places with column 0
        classes[:, 0] = label
        values = torch.zeros(len(label), self.k, device=label.device)
        values[:, 0] = 1.0
        self._put(held, slot, values, classes, torch.zeros(len(label), device=label.device))

    def top(self, held: Held, slot: Tensor) -> tuple[Tensor, Tensor]:
        values, classes = held["values"].index_select(0, slot), self._numbers(held, slot)
        largest = values.amax(dim=1)
        first = classes.masked_fill(values < largest.unsqueeze(1), self.columns).amin(dim=1)
        if self.columns == self.k:
            return largest, first
        # The others are no larger than a kept entry; where they are all as large, the first of them may come first.
        share = held["rest"].index_select(0, slot) / self.others
        alike = share >= (1 - ROUNDING) * largest
        place = torch.arange(self.k, device=slot.device)
        missing = (classes.sort(dim=1).values == place).long().cumprod(dim=1).sum(dim=1)  # first column not kept
        return largest, torch.where(alike, torch.minimum(first, missing), first)

    def at(self, held: Held, slot: Tensor, column: Tensor) -> Tensor:
        share = held["rest"].index_select(0, slot) / self.others
        found = self._numbers(held, slot) == column.unsqueeze(1)
        kept = held["values"].index_select(0, slot).masked_fill(~found, 0.0).sum(dim=1)
        return torch.where(found.any(dim=1), kept, share)

    def _others(
        self, held: Held, slot: Tensor, p: Tensor, classes: Tensor, lowest: Tensor, weight: float
    ) -> tuple[Tensor, Tensor]:
        """The others at ``slot`` after an update by ``p``, [B, columns], and their new sums, [B].

        Their old sum is laid out as ``p`` suggests: it has been like that in the updates before. No entry gets more
        than the ``lowest`` one that is kept, as it would have been kept; what is left over is spread evenly. It is one
        pass, in few calls: of a small batch these take longer than the arithmetic.
        """
        rest = held["rest"].index_select(0, slot).unsqueeze(1)
        now = p.scatter(1, classes, 0.0)
        total = now.sum(dim=1, keepdim=True)
        updated = now.mul(rest / total.clamp_min(TINY)).clamp_(max=lowest)
        left = rest.sub(updated.sum(dim=1, keepdim=True)).clamp_min_(0.0)  # before the update, so none stays none
        updated.lerp_(now, weight).add_(left, alpha=(1.0 - weight) / self.others)
        return updated, rest.lerp_(total, weight)[:, 0]

    def _search(self, held: Held, slot: Tensor, rows: Tensor, classes: Tensor, changed: Tensor) -> None:
        """Search the rows that have ``changed``, of which another column than ``classes`` is among the largest now."""
        count = int(changed.sum())
        if count == 0:
            return
        if count <= 0.75 * len(slot):  # of more rows, picking them out takes longer than searching all
            place = changed.nonzero().flatten()
            slot, rows, classes = (whole.index_select(0, place) for whole in (slot, rows, classes))
        self._keep(held, slot, rows, classes)

    def _keep(self, held: Held, slot: Tensor, rows: Tensor, likely: Tensor | None = None) -> None:
        """Store what is kept of ``rows``, which are changed for a moment: a second copy may be large."""
        if self.columns == self.k:
            classes = torch.arange(self.k, device=rows.device).expand(len(rows), -1)
            self._put(held, slot, rows, classes, torch.zeros(len(rows), device=rows.device))
            return
        values, classes = largest(rows, self.k, likely)
        rest = rows.scatter_(1, classes, 0.0).sum(dim=1)  # a difference of two sums could be below zero
        rows.scatter_(1, classes, values)
        self._put(held, slot, values, classes, rest)

    def _put(self, held: Held, slot: Tensor, values: Tensor, classes: Tensor, rest: Tensor) -> None:
        held["values"].index_copy_(0, slot, values)
        held["classes"].index_copy_(0, slot, self._bytes(classes))
        held["rest"].index_copy_(0, slot, rest)

    def _bytes(self, classes: Tensor) -> Tensor:
        """Numbers of columns as bytes, the lowest first, [..., width]."""
        if self.width == 1:
            return classes.to(torch.uint8).unsqueeze(-1)
        return torch.stack([classes >> 8 * byte for byte in range(self.width)], dim=-1).to(torch.uint8)

    def _numbers(self, held: Held, slot: Tensor) -> Tensor:
        """The columns that are kept of the rows at ``slot``, [B, k]."""
        parts = held["classes"].index_select(0, slot).long().unbind(dim=-1)
        number = parts[0]
        for byte, part in enumerate(parts[1:], start=1):
            number = number | part << 8 * byte
        return number


def largest(rows: Tensor, k: int, likely: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k largest entries of each row and their columns, in no order.

    Of many columns the largest entry of each of M groups is found first. The k largest entries lie in the k groups
    with the largest ones, so that only those are searched; it is exact, and several times as fast as one search. Of
    fewer the ``likely`` columns [B, k] are looked at first: hardly any other one is then larger than the k so far.
    """
    B, C = rows.shape
    parts = min(PARTS, math.isqrt(C // k))
    if C < WIDE or parts < 2:
        return rows.topk(k, dim=1, sorted=False) if likely is None or HEAP * k > C else _from(rows, likely)
    M = C // parts
    best = rows[:, : M * parts].unflatten(1, (parts, M)).amax(dim=1).topk(k, dim=1, sorted=False).indices
    steps = torch.arange(parts, device=rows.device).mul_(M)
    places = (best.unsqueeze(1) + steps.unsqueeze(1)).flatten(1)
    if M * parts < C:  # columns that are in no group
        places = torch.cat([places, torch.arange(M * parts, C, device=rows.device).expand(B, -1)], dim=1)
    values, found = rows.gather(1, places).topk(k, dim=1, sorted=False)
    return values, places.gather(1, found)


def _from(rows: Tensor, likely: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entries of each row and their columns, searched from the ``likely`` columns on."""
    k = likely.shape[1]
    others = rows.scatter(1, likely, -torch.inf)
    values, found = torch.cat([rows.gather(1, likely), others], dim=1).topk(k, dim=1, sorted=False)
    return values, torch.where(found < k, likely.gather(1, found.clamp(max=k - 1)), found - k)
