"""What is worked out of looks at held-out rows, against the formulas written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from selc.turning import Evidence, decide
from tests.helpers import random_labels, rng
from tests.turning.made_up import evidence, learning

LABELS = random_labels(40, 3, seed=0)
SEEN = evidence(learning(7, 40, 0.9), LABELS, 3)


def test_the_curve_is_the_mean_over_three_neighbouring_looks() -> None:
    single = (SEEN.predictions == LABELS).double().mean(dim=1).numpy()
    for look in range(7):
        near = single[max(0, look - 1) : look + 2]
        assert float(SEEN.curve[look]) == pytest.approx(near.mean(), abs=1e-6)


def test_two_looks_are_compared_row_by_row() -> None:
    hit = (SEEN.predictions == LABELS).double().numpy()
    smooth = np.stack([hit[max(0, k - 1) : k + 2].mean(axis=0) for k in range(7)])
    apart = smooth[5] - smooth[2]
    behind, error = SEEN.behind(2, 5)
    assert behind == pytest.approx(apart.mean(), abs=1e-6)
    left = hit.mean(axis=1) - smooth.mean(axis=1)
    wavers = (left**2).mean() * 3 / 2 / 3  # of the mean of three looks, each of which has three halves of the residual
    assert error == pytest.approx(math.sqrt(apart.var(ddof=1) / 40 + 2 * wavers), rel=1e-5)


def test_hard_rows_that_both_looks_miss_add_no_error() -> None:
    hits = torch.rand(4, 30, generator=rng(1)) < 0.7
    easy = Evidence(torch.zeros(30).long(), (~hits).long(), torch.ones(4, 30), torch.ones(4, 30), 2, 1)
    missed = torch.ones(4, 300).long()
    both = Evidence(
        torch.zeros(330).long(), torch.cat([(~hits).long(), missed], 1), torch.ones(4, 330), torch.ones(4, 330), 2, 1
    )
    # The same number of rows apart, of eleven times as many: the share and its error are eleven times smaller.
    assert both.behind(0, 2)[0] == pytest.approx(easy.behind(0, 2)[0] / 11, abs=1e-6)
    assert both.behind(0, 2)[1] == pytest.approx(easy.behind(0, 2)[1] / 11, rel=0.05)


def test_the_order_of_the_rows_decides_nothing_but_which_half_they_are_in() -> None:
    order = torch.randperm(20, generator=rng(3)).repeat_interleave(2) * 2 + torch.tensor([0, 1]).repeat(20)
    mixed = Evidence(
        LABELS[order], SEEN.predictions[:, order], SEEN.confidences[:, order], SEEN.given[:, order], 3, 5, order
    )
    ours, theirs = decide(SEEN, 7), decide(mixed, 7)
    assert (ours.start, ours.best, ours.reason, ours.first, ours.last) == (
        theirs.start,
        theirs.best,
        theirs.reason,
        theirs.first,
        theirs.last,
    )
    assert ours.fall == pytest.approx(theirs.fall)


def test_evidence_comes_back_from_a_file_as_it_was() -> None:
    again = Evidence.from_tensors(SEEN.tensors(), 3)
    assert torch.equal(again.predictions, SEEN.predictions)
    assert again.rows is not None
    assert (again.splits, again.looks_per_epoch, again.num_classes) == (5, 1, 3)
    assert decide(again, 7) == decide(SEEN, 7)


def test_a_clock_counts_the_epochs_before_a_look() -> None:
    assert [SEEN.clock(look) for look in (0, 6)] == [1.0, 7.0]


def test_a_clock_counts_epochs_where_there_are_several_looks_in_each() -> None:
    often = replace(SEEN, looks_per_epoch=2)
    assert [often.clock(look) for look in range(4)] == [0.5, 1.0, 1.5, 2.0]
    assert [often.look_at(often.clock(look)) for look in range(7)] == list(range(7))


def test_a_class_can_be_judged_if_one_row_of_it_was_held_out() -> None:
    seen = evidence(learning(3, 4, 0.9), torch.tensor([0, 2, 2, 2]), 4)
    assert seen.classes.tolist() == [True, False, True, False]


def test_around_a_look_are_its_neighbours() -> None:
    for look, near in ((0, [0, 1]), (3, [2, 3, 4]), (6, [5, 6])):
        assert torch.equal(SEEN.around(look), SEEN.predictions[near])
