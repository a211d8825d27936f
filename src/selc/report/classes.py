"""How many labels of each class are in doubt."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.analysis.findings import Findings


def shares(chosen: Tensor, given: Tensor, num_classes: int) -> Tensor:
    """The share of ``chosen`` samples [N] among those of each given label, [C]; 0 for a label without samples."""
    counts = torch.bincount(given, minlength=num_classes).double()
    return torch.bincount(given[chosen], minlength=num_classes).double() / counts.clamp_min(1)


def worst_classes(found: Findings, num_classes: int) -> Tensor:
    """Numbers of the classes, [C], the one with the largest share in doubt first."""
    return shares(found.is_issue, found.given, num_classes).argsort(descending=True, stable=True)
