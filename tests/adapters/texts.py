"""Sentences of made-up words, of which a class has some of its own; a third of the labels are wrong."""

from __future__ import annotations

import torch
from torch import Tensor

CLASSES, WORDS, LENGTH = 3, 30, 8
ROWS, OUT = 240, 60


def sentences() -> tuple[Tensor, Tensor, Tensor]:
    """Words [N, LENGTH], true labels [N] and given labels [N]."""
    generator = torch.Generator().manual_seed(0)
    true = torch.arange(ROWS + OUT) % CLASSES
    common = torch.randint(1, WORDS, (len(true), LENGTH), generator=generator)
    own = WORDS + true[:, None] * 5 + torch.randint(0, 5, (len(true), LENGTH), generator=generator)
    words = torch.where(torch.rand(common.shape, generator=generator) < 0.7, own, common)
    wrong = torch.rand(len(true), generator=generator) < 1 / 3
    return words, true, torch.where(wrong, (true + 1) % CLASSES, true)
