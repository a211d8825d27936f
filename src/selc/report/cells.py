"""Rows of a table for a person to look at: columns of text as they were written, and numbers in their own units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from selc.data import Bundle
from selc.data.features import FeatureInputs
from selc.report.style import shortened

EXCERPT = 160  # letters of a cell
BATCH = 256


class Cells(NamedTuple):
    """Columns of text, and of numbers [N, D]; ``unusual`` [N, D] is how far a number is from the mean."""

    texts: dict[str, list[str]]
    names: list[str]
    numbers: np.ndarray[Any, np.dtype[np.float64]]
    unusual: Tensor


def cells_at(bundle: Bundle, rows: Sequence[int]) -> Cells:
    """The rows of ``bundle`` with these numbers."""
    inputs = bundle.inputs
    index = torch.tensor(rows, dtype=torch.long)
    x = torch.cat([part.flatten(1).cpu().float() for part in inputs.stream(index.split(BATCH), None)])
    numbers = x.double().numpy()
    names = [f"x{k + 1}" for k in range(x.shape[1])]
    texts: dict[str, list[str]] = {}
    if isinstance(inputs, FeatureInputs):
        numbers = numbers * inputs.scale.std + inputs.scale.mean  # in the units of the table
        names = list(inputs.columns) or names
        if bundle.texts is not None and inputs.coding is not None:
            texts = {name: [excerpt(cell) for cell in column] for name, column in bundle.texts(rows).items()}
            levels = sum(len(c.levels) + bool(c.rare) for c in inputs.coding.categories)
            left = x.shape[1] - levels  # levels of text stand last, and are shown as the text
            names, numbers, x = names[:left], numbers[:, :left], x[:, :left]
    return Cells(texts, names, numbers, x.abs())


def excerpt(text: str) -> str:
    """The beginning of a text, in one line."""
    return shortened(" ".join(text.split()), EXCERPT)
