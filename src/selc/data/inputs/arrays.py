"""Inputs that are held in memory: whole batches by index, no loader, no work per sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from selc.errors import InputError

Augment = Callable[[Tensor, Tensor], Tensor]  # (x [B, ...], uniform draws [B, 3]) -> x


class ArrayInputs:
    """A tensor [N, ...] and, in training, a batched augmentation whose draws are keyed by row."""

    def __init__(self, x: Tensor, augment: Augment | None = None, *, check: bool = True) -> None:
        self.x, self.augment = x, augment
        if check:
            _check(x)

    def __len__(self) -> int:
        return len(self.x)

    def stream(self, batches: Sequence[Tensor], seed: int | None) -> Iterator[Tensor]:
        if self.augment is None or seed is None:
            for rows in batches:
                yield self.x.index_select(0, rows)
            return
        # One draw for the whole epoch, addressed by row: it does not depend on who asks for the row.
        draws = torch.rand(len(self), 3, generator=torch.Generator().manual_seed(seed)).to(self.x.device)
        for rows in batches:
            yield self.augment(self.x.index_select(0, rows), draws.index_select(0, rows))

    def to(self, device: torch.device) -> ArrayInputs:
        return ArrayInputs(self.x.to(device), self.augment, check=False)


def _check(x: Tensor) -> None:
    if x.dim() < 2 or len(x) == 0:
        raise InputError(
            f"inputs must be a non-empty array [N, ...]; got shape {tuple(x.shape)}. Each sample is one row."
        )
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        bad = (~torch.isfinite(x)).flatten(1).any(1).nonzero().flatten()
        raise InputError(
            f"inputs must be finite numbers; got NaN or infinity in {len(bad)} of {len(x)} rows, "
            f"first in row {int(bad[0])}. Remove or fill them."
        )
