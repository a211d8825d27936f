"""Samples that are nearly the same and samples that are like no other, as notes: from the features that are there.

What is said goes to the screen and the report; the whole list is in ``data.json`` of the run folder, under "unusual".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selc.analysis.neighbours import K, Neighbours, neighbours
from selc.data import ArrayInputs, Bundle
from selc.data.preprocess.features import FeatureInputs, Scale
from selc.errors import InputError
from selc.types import Inputs

COLUMNS = 64  # that are scaled at a time: for that they are in float64
LARGEST = 100_000  # rows that are looked at; the time grows with their square
LISTED = 1_000  # of each kind in data.json
NAMED = 3  # of each kind in a sentence


class Unusual(NamedTuple):
    """A sentence for each kind, and what it is about."""

    notes: list[str]
    record: dict[str, list[list[Any]]]


def unusual(bundle: Bundle, *, arrays: bool = False) -> Unusual:
    """What stands out among the training samples of ``bundle``; nothing where these are no features.

    ``arrays``: an array [N, D] is the user's own too, and is looked at as a file of it would be.
    """
    inputs = bundle.inputs
    x = _features(inputs, arrays) if len(inputs) <= LARGEST else None
    if x is None:
        return Unusual([], {})
    coding = inputs.how.coding if isinstance(inputs, FeatureInputs) else None
    # Levels of categories and flags of gaps are steps and no distances.
    measured = coding is None or not (coding.categories or any(column.flag for column in coding.numbers))
    found = neighbours(x, near=measured)
    if 2 * sum(len(group) for group in found.same if len(group) > K) > len(x):  # as many equals as neighbours are usual
        measured, found = False, Neighbours(found.same, [], [])
    pairs = [pair for group in found.same for pair in _pairs(group, bundle.labels)]
    if not measured:  # equal rows are usual there
        pairs = [pair for pair in pairs if bundle.labels[pair[0]] != bundle.labels[pair[1]]]
    pairs += found.near
    pairs = sorted(pairs, key=lambda pair: bool(bundle.labels[pair[0]] == bundle.labels[pair[1]]))
    ids = [str(row) for row in range(len(bundle.labels))] if bundle.ids is None else bundle.ids
    names = [bundle.classes[label] for label in bundle.labels.tolist()]
    notes = _of_pairs(pairs, ids, names, measured) + _of_far(found.far, ids, names)
    record = {
        "nearly_the_same": [[ids[a], names[a], ids[b], names[b], round(d, 4)] for a, b, d in pairs[:LISTED]],
        "far_from_all": [[ids[row], names[row], round(d, 4)] for row, d in found.far[:LISTED]],
    }
    return Unusual(notes, {kind: rows for kind, rows in record.items() if rows})


def _features(inputs: Inputs, arrays: bool) -> Tensor | None:
    """Rows [N, D] between which distances tell something: each column scaled."""
    if not isinstance(inputs, ArrayInputs) or inputs.x.dim() != 2:
        return None
    if isinstance(inputs, FeatureInputs):
        return inputs.x
    if not arrays:
        return None
    columns = (part.detach().cpu().double().numpy() for part in inputs.x.split(COLUMNS, dim=1))
    try:
        return torch.cat([Scale.of(part).apply(part) for part in columns], dim=1)
    except InputError:  # numbers so large that there is no scale: a training on them as they are is the user's choice
        return None


def _pairs(group: Sequence[int], labels: Tensor) -> list[tuple[int, int, float]]:
    """Each of a group with its first that has another label, or else with the first of all."""
    said = []
    for place, row in enumerate(group[1:], 1):
        before = group[:place]
        said.append((next((one for one in before if labels[one] != labels[row]), before[0]), row, 0.0))
    return said


def _of_pairs(
    pairs: Sequence[tuple[int, int, float]], ids: Sequence[str], names: Sequence[str], measured: bool
) -> list[str]:
    if not pairs:
        return []
    torn = sum(names[a] != names[b] for a, b, _ in pairs)
    shown = ", ".join(f"{ids[a]} ({names[a]}) and {ids[b]} ({names[b]})" for a, b, _ in pairs[:NAMED])
    one = len(pairs) == 1
    what = (
        f"1 pair of samples is {_alike(measured)}" if one else f"{len(pairs):,} pairs of samples are {_alike(measured)}"
    )
    labels = ""
    if torn and measured:
        labels = ", with different labels" if one else f"; {torn:,} of them {_have(torn)} different labels"
    elif torn:
        labels = ", with different labels"
    return [f"{what}{labels}: {'' if one or len(pairs) <= NAMED else 'first '}{shown}"]


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _alike(measured: bool) -> str:
    return "nearly the same, more than chance would make them" if measured else "the same in every column"


def _of_far(far: Sequence[tuple[int, float]], ids: Sequence[str], names: Sequence[str]) -> list[str]:
    if not far:
        return []
    shown = ", ".join(f"{ids[row]} ({names[row]})" for row, _ in far[:NAMED])
    if len(far) == 1:
        return [f"1 sample is far from all others and may belong to no class: {shown}"]
    more = "first " if len(far) > NAMED else ""
    return [f"{len(far):,} samples are far from all others and may belong to no class: {more}{shown}"]
