"""Random crop and flip of a whole batch at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def crop_and_flip(padding: int, flip: bool = True) -> Callable[[Tensor, Tensor], Tensor]:
    """Pad by zeros, crop back to the size at a random place, mirror half of the images.

    The result takes images [B, K, H, W] and uniform draws [B, 3] (row, column, mirror).
    """

    def apply(x: Tensor, draws: Tensor) -> Tensor:
        _, _, H, W = x.shape
        places = 2 * padding + 1
        top, left = (draws[:, :2] * places).long().clamp_(max=places - 1).unbind(1)
        rows = top[:, None] + torch.arange(H, device=x.device)
        columns = left[:, None] + torch.arange(W, device=x.device)
        if flip:
            columns = torch.where(draws[:, 2:] < 0.5, columns.flip(1), columns)
        padded = F.pad(x, (padding,) * 4)
        picked = padded.permute(0, 2, 3, 1)[
            torch.arange(len(x), device=x.device)[:, None, None], rows[:, :, None], columns[:, None, :]
        ]
        return picked.permute(0, 3, 1, 2)  # channels_last in memory, which convolutions like best

    return apply
