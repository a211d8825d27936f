"""Tables of given and suggested labels, for a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from selc.analysis.findings import RELABEL, REVIEW, Findings
from selc.analysis.words import percent
from selc.report.classes import shares, worst_classes
from selc.report.style import shortened

MATRIX = 12  # classes whose matrix is also a table
CLASSES = 50  # rows of the table of classes
PAIRS = 15  # of labels
_LETTERS = 80  # of a class's name


def matrix_table(found: Findings | None, classes: Sequence[str]) -> dict[str, Any] | None:
    """Counts of given by suggested labels, where there are few enough classes for a table."""
    if found is None or len(classes) > MATRIX:
        return None
    return counts_table(found.given, found.suggested, classes)


def counts_table(rows_of: Tensor, columns_of: Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """How many samples have a label of ``rows_of`` and one of ``columns_of``, and which share that is of the first."""
    C = len(classes)
    counts = torch.bincount(rows_of * C + columns_of, minlength=C * C).view(C, C)
    names = [shortened(name, _LETTERS) for name in classes]
    depth = counts / counts.sum(1, keepdim=True).clamp_min(1)
    rows = [
        (name, [(count, round(share, 2)) for count, share in zip(line, part, strict=True)])
        for name, line, part in zip(names, counts.tolist(), depth.tolist(), strict=True)
    ]
    return {"names": names, "rows": rows}


def pairs_table(found: Findings | None, classes: Sequence[str]) -> list[tuple[str, str, int, str]]:
    """The most frequent suggestions of another label: given, suggested, how many, share of the given label."""
    if found is None:
        return []
    C = len(classes)
    disputed = found.suggested != found.given
    pairs, counts = (found.given * C + found.suggested)[disputed].unique(return_counts=True)
    sizes = torch.bincount(found.given, minlength=C)
    order = counts.argsort(descending=True, stable=True)[:PAIRS]
    names = [shortened(name, _LETTERS) for name in classes]
    return [
        (names[pair // C], names[pair % C], count, percent(count / int(sizes[pair // C])))
        for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True)
    ]


def classes_table(found: Findings | None, classes: Sequence[str], true: Tensor | None = None) -> dict[str, Any] | None:
    """A row for each class, the worst first: how many labels are in doubt, and what they are taken for."""
    if found is None:
        return None
    C = len(classes)
    issues = found.is_issue
    doubt = shares(issues, found.given, C)
    sizes = torch.bincount(found.given, minlength=C).tolist()

    def count(action: int) -> list[int]:
        chosen = found.given[issues & (found.action == action)]
        result: list[int] = torch.bincount(chosen, minlength=C).tolist()
        return result

    relabel, review = count(RELABEL), count(REVIEW)
    really = None if true is None else shares(found.given != true, found.given, C).tolist()
    rows = []
    for k in worst_classes(found, C)[:CLASSES].tolist():
        taken = torch.bincount(found.suggested[issues & (found.given == k)], minlength=C)
        other = shortened(classes[int(taken.argmax())], _LETTERS) if int(taken.max()) else "–"
        wrong = None if really is None else percent(really[k])
        name = shortened(classes[k], _LETTERS)
        share = float(doubt[k])
        rows.append((name, sizes[k], relabel[k], review[k], percent(share), round(share, 3), other, wrong))
    return {"rows": rows, "all": C, "truth": really is not None}
