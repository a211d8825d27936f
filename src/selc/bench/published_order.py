"""Whether methods stand in the published order: Kendall's tau over the methods of which both have a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

FEWEST = 3  # of two methods the order is either the same or reversed, which says little
NAMED = 2  # methods that moved farthest, up and down


def kendall(a: Sequence[float], b: Sequence[float]) -> tuple[float | None, int, int]:
    """Tau-b of two lists; how many pairs are in the same order, and of how many that have one in both.

    With s = sign(a_i - a_j), t = sign(b_i - b_j) over pairs i < j: tau = sum(s t) / sqrt(sum(s^2) sum(t^2)), which is
    None if all of a list are equal.
    """
    above = np.triu_indices(len(a), 1)
    s, t = (np.sign(np.subtract.outer(np.asarray(x, float), np.asarray(x, float)))[above] for x in (a, b))
    ordered, norm = int(np.abs(s * t).sum()), float(np.sqrt((s * s).sum() * (t * t).sum()))
    return (float((s * t).sum()) / norm if norm else None), int((s * t > 0).sum()), ordered


def order_text(column: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> str:
    """One line on a column: how far the orders agree, and which methods stand elsewhere; "" if nothing can be said."""
    common = [row for row in ours if row in theirs]
    if not common:
        return ""
    if len(common) < FEWEST:
        return f"{column}: {len(common)} in common ({', '.join(common)}), too few for an order"
    a, b = ([numbers[row] for row in common] for numbers in (ours, theirs))
    tau, same, ordered = kendall(a, b)
    text = f"{column}: {len(common)} methods in common, tau {'undefined' if tau is None else f'{tau:.2f}'}, "
    text += f"{same} of {ordered} pairs in the same order"
    places = {row: (_place(ours[row], a), _place(theirs[row], b)) for row in common}
    rise = {row: there - here for row, (here, there) in places.items()}
    for word, up in (("higher here", 1), ("lower here", -1)):
        moved = sorted((row for row in rise if up * rise[row] > 1), key=lambda row: -up * rise[row])  # not by one place
        named = [f"{row} (place {places[row][0]}, there {places[row][1]})" for row in moved[:NAMED]]
        text += f"; {word}: {', '.join(named)}" if named else ""
    return text


def _place(value: float, values: Sequence[float]) -> int:
    """1 is the best; equals share the better place."""
    return 1 + sum(other > value for other in values)
