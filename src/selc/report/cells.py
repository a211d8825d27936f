"""Rows of a table for a person to look at: columns of text as they were written, and numbers in their own units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from selc.data import Bundle
from selc.data.preprocess.coding import Coding
from selc.data.preprocess.features import FeatureInputs
from selc.report.style import abridged

EXCERPT = 160  # letters of a cell
BATCH = 256


class Cells(NamedTuple):
    """Columns of text, and of numbers [N, D], NaN for a gap; ``unusual`` [N, D] is how far one is from the mean."""

    free: dict[str, list[str]]  # free text, as it was written
    texts: dict[str, list[str]]  # other text: beginnings of the cells
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
    free: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    if isinstance(inputs, FeatureInputs):
        scaled = numbers * inputs.how.scale.std
        numbers = scaled + inputs.how.scale.mean  # in the units of the table
        lost = np.finfo(np.float32).eps * (np.abs(scaled) + np.abs(inputs.how.scale.mean))
        numbers[np.abs(numbers) <= lost] = 0.0  # what is left of a zero after the scaling
        names = list(inputs.how.columns) or names
        if bundle.texts is not None and inputs.how.coding is not None:
            shown, read = bundle.texts(rows), {column.name for column in inputs.how.coding.texts}
            free = {name: list(shown[name]) for name in shown if name in read}
            texts = {name: [excerpt(cell) for cell in shown[name]] for name in shown if name not in read}
            levels = sum(len(c.levels) + bool(c.rare) for c in inputs.how.coding.categories)
            parts = sum(column.width for column in inputs.how.coding.texts)
            left = x.shape[1] - levels - parts  # what was made of text stands last, and is shown as the text
            names, numbers, x = names[:left], numbers[:, :left], x[:, :left]
        if inputs.how.coding is not None:
            names, numbers, x = _with_gaps(inputs.how.coding, names, numbers, x)
    return Cells(free, texts, names, numbers, x.abs())


def _with_gaps(
    coding: Coding, names: list[str], numbers: np.ndarray[Any, np.dtype[np.float64]], x: Tensor
) -> tuple[list[str], np.ndarray[Any, np.dtype[np.float64]], Tensor]:
    """What fills a gap was not measured: it is taken out again, and so are the flags, which say no more."""
    count, flagged = len(coding.numbers), [k for k, column in enumerate(coding.numbers) if column.flag]
    flags = x[:, count : count + len(flagged)] > 0.5  # they are 0 or 1, and not scaled
    kept = [k for k in range(len(names)) if not count <= k < count + len(flagged)]
    numbers, x = numbers.copy(), x.clone()
    for place, k in enumerate(flagged):
        numbers[flags[:, place].numpy(), k] = np.nan
        x[flags[:, place], k] = 1.0  # as unusual as the flag was
    return [names[k] for k in kept], numbers[:, kept], x[:, kept]


def written(number: float) -> str:
    """A number of a table for a person; a gap is a dash."""
    return "–" if math.isnan(number) else f"{number:.4g}"


def excerpt(text: str) -> str:
    """The beginning of a text, in one line."""
    return abridged(" ".join(text.split()), EXCERPT)
