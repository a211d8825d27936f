"""The order of methods is compared with the published one as SciPy does, and the line says who stands elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from selc.bench.published_order import kendall, order_text


@pytest.mark.parametrize("equals", [False, True])
@pytest.mark.parametrize("n", [3, 7, 16])
def test_tau_is_that_of_scipy(n: int, equals: bool) -> None:
    rng = np.random.default_rng(n)
    for _ in range(10):
        a, b = rng.normal(size=(2, n)).round(0 if equals else 6)
        expected = kendalltau(a, b).statistic
        tau, same, ordered = kendall(a.tolist(), b.tolist())
        if np.isnan(expected):
            assert tau is None
        else:
            assert tau == pytest.approx(expected)
        pairs = [(a[i] - a[j]) * (b[i] - b[j]) for i in range(n) for j in range(i)]
        assert (same, ordered) == (sum(p > 0 for p in pairs), sum(p != 0 for p in pairs))


def test_the_same_order_is_one_the_reversed_is_minus_one_and_equals_have_none() -> None:
    for theirs, tau, same in (([10, 20, 30], 1.0, 3), ([30, 20, 10], -1.0, 0)):
        got = kendall([1, 2, 3], theirs)
        assert got[0] == pytest.approx(tau)
        assert got[1:] == (same, 3)
    assert kendall([1, 1, 1], [1, 2, 3]) == (None, 0, 0)


def test_a_line_counts_what_both_have_and_names_who_moved_two_places_or_more() -> None:
    theirs = {"CE": 1.0, "GCE": 2.0, "ELR": 3.0, "SELC": 4.0, "PLC": 5.0}
    ours = {"CE": 0.4, "GCE": 0.1, "ELR": 0.2, "SELC": 0.3, "SAT": 0.9}  # SAT has no number there, PLC none here
    # Of the six pairs of CE, GCE, ELR, SELC the three with CE are turned: tau = (3 - 3) / 6.
    assert order_text("sym 40%", ours, theirs) == (
        "sym 40%: 4 methods in common, tau 0.00, 3 of 6 pairs in the same order; higher here: CE (place 1, there 4)"
    )
    equal = dict.fromkeys(theirs, 0.5)
    assert order_text("c", equal, theirs).startswith("c: 5 methods in common, tau undefined, 0 of 0 pairs")
    reversed_ = {row: -value for row, value in theirs.items()}
    assert order_text("c", reversed_, theirs) == (
        "c: 5 methods in common, tau -1.00, 0 of 10 pairs in the same order; "
        "higher here: CE (place 1, there 5), GCE (place 2, there 4); "
        "lower here: PLC (place 5, there 1), SELC (place 4, there 2)"
    )


def test_too_few_methods_have_no_order_and_none_no_line() -> None:
    assert order_text("c", {"CE": 1.0, "SELC": 2.0}, {"CE": 1.0, "SELC": 2.0}) == (
        "c: 2 in common (CE, SELC), too few for an order"
    )
    assert order_text("c", {"SAT": 1.0}, {"CE": 1.0}) == ""
