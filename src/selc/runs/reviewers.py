"""Two people who reviewed samples of the same run: their verdicts as one, and how far they agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from selc.errors import InputError
from selc.runs.decisions import Decisions, Verdict


class Agreement(NamedTuple):
    """Of samples that both have reviewed: on how many they agree, and Cohen's kappa."""

    both: int
    agreed: int
    kappa: float | None  # None: they reviewed none in common, or both said the same of all


def merged(files: Sequence[Decisions]) -> tuple[Decisions, Agreement | None]:
    """The verdicts of one or two files. Samples on which two disagree are left undecided."""
    if len(files) == 1:
        return files[0], None
    if len(files) != 2:
        raise InputError(f"--decisions must be one or two files; got {len(files)}. Merge two of them first.")
    one, other = (file.made for file in files)
    common = [name for name in one if name in other and "skip" not in (one[name].verdict, other[name].verdict)]
    pairs = [(_outcome(one[name]), _outcome(other[name])) for name in common]
    made = dict(other) | {name: d for name, d in one.items() if d.verdict != "skip" or name not in other}
    for name, (first, second) in zip(common, pairs, strict=True):
        if first != second:
            made[name] = one[name]._replace(verdict="skip", label=None)
    agreed = sum(first == second for first, second in pairs)
    return replace(files[0], made=made), Agreement(len(pairs), agreed, kappa(pairs))


def kappa(pairs: Sequence[tuple[str | None, str | None]]) -> float | None:
    """Agreement beyond chance of two raters (Cohen, 1960): (p_o - p_e) / (1 - p_e); None where that is 0 / 0.

    >>> kappa([("cat", "cat"), ("dog", "dog"), ("cat", "dog"), ("dog", "dog")])
    0.5
    """
    n = len(pairs)
    first, second = (Counter(pair[k] for pair in pairs) for k in (0, 1))
    by_chance = sum(count * second[label] for label, count in first.items())  # times n squared
    if n == 0 or by_chance == n * n:
        return None
    observed = sum(a == b for a, b in pairs) / n
    expected = by_chance / n**2
    return (observed - expected) / (1 - expected)


def _outcome(decision: Verdict) -> str | None:
    """The label that a sample has by a verdict; None if it is dropped."""
    return decision.label
