"""Which samples a reviewer sees, and in which order."""

from __future__ import annotations

from itertools import zip_longest

from selc.analysis.findings import KEEP, RELABEL, REVIEW, Findings


def most_valuable(findings: Findings, count: int) -> list[int]:
    """The rows to look at first: changes that the run would make and doubtful samples in turn, then the rest.

    In each zone the label of the lowest quality comes first. One of each in turn, so that even a short review
    measures how far the changes can be trusted and settles what the run could not.
    """
    order = findings.quality.argsort(stable=True)
    relabel, review, keep = (order[findings.action[order] == zone].tolist() for zone in (RELABEL, REVIEW, KEEP))
    mixed = [row for pair in zip_longest(relabel, review) for row in pair if row is not None]
    return [*mixed, *keep][:count]
