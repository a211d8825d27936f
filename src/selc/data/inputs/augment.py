"""Crops and flips of a whole batch of images at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def crop_and_flip(padding: int, flip: bool = True) -> Callable[[Tensor, Tensor], Tensor]:
    """Pad by zeros, crop back to the size at a random place, mirror half of the images.

    The result takes images [B, K, H, W] and uniform draws [B, 3] (row, column, mirror).
    """
    return lambda x, draws: random_crop(x, draws, (x.shape[2], x.shape[3]), padding, flip)


def random_crop(x: Tensor, draws: Tensor, size: tuple[int, int], padding: int = 0, flip: bool = False) -> Tensor:
    """A window of ``size`` at a random place of each image, after padding by zeros; half of them mirrored."""
    H, W = size
    padded = F.pad(x, (padding,) * 4) if padding else x
    places = torch.tensor([padded.shape[2] - H + 1, padded.shape[3] - W + 1], device=x.device)
    top, left = torch.minimum((draws[:, :2] * places).long(), places - 1).unbind(1)
    rows = top[:, None] + torch.arange(H, device=x.device)
    columns = left[:, None] + torch.arange(W, device=x.device)
    if flip:
        columns = torch.where(draws[:, 2:] < 0.5, columns.flip(1), columns)
    picked = padded.permute(0, 2, 3, 1)[
        torch.arange(len(x), device=x.device)[:, None, None], rows[:, :, None], columns[:, None, :]
    ]
    return picked.permute(0, 3, 1, 2)  # channels_last in memory, which convolutions like best


def centre_crop(x: Tensor, size: tuple[int, int]) -> Tensor:
    """The window of ``size`` in the middle of each image."""
    top, left = (x.shape[2] - size[0]) // 2, (x.shape[3] - size[1]) // 2
    return x[:, :, top : top + size[0], left : left + size[1]]


@dataclass(frozen=True)
class View:
    """How stored pixels become inputs: a window of ``size``, at random in training and in the middle otherwise."""

    size: tuple[int, int]
    mean: tuple[float, ...]  # of each channel, of values in [0, 1]
    std: tuple[float, ...]
    padding: int = 0  # zeros around the pixels before a random crop
    flip: bool = False

    def train(self, pixels: Tensor, draws: Tensor) -> Tensor:
        """Images [B, K, H, W] of bytes, cut out by uniform draws [B, 3], as normalised floats."""
        if self.padding == 0 and not self.flip and tuple(pixels.shape[2:]) == self.size:
            return self._normalise(pixels)
        return self._normalise(random_crop(pixels, draws, self.size, self.padding, self.flip))

    def test(self, pixels: Tensor) -> Tensor:
        return self._normalise(centre_crop(pixels, self.size))

    def _normalise(self, pixels: Tensor) -> Tensor:
        mean = torch.tensor(self.mean, device=pixels.device).view(-1, 1, 1)
        std = torch.tensor(self.std, device=pixels.device).view(-1, 1, 1)
        # (x / 255 - mean) / std as one multiplication and one addition
        return pixels.float().mul_(1 / (255 * std)).sub_(mean / std)
