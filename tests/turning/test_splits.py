"""Which rows are held out: every one once, no class left to chance, nothing that gives another row away."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from selc.turning.splits import deal_parts, fingerprints, joined
from tests.helpers import random_labels, rng


def test_every_row_is_in_one_part_and_every_class_is_spread_evenly() -> None:
    labels = random_labels(503, 4, seed=0)
    part = deal_parts(labels, 5, seed=0)
    assert set(part.tolist()) == {0, 1, 2, 3, 4}
    for k in range(4):
        sizes = torch.bincount(part[labels == k], minlength=5)
        assert int(sizes.max() - sizes.min()) <= 1


def test_another_seed_deals_otherwise_and_the_same_seed_the_same() -> None:
    labels = random_labels(200, 3, seed=0)
    assert torch.equal(deal_parts(labels, 5, seed=1), deal_parts(labels, 5, seed=1))
    assert not torch.equal(deal_parts(labels, 5, seed=1), deal_parts(labels, 5, seed=2))


def test_a_class_with_fewer_than_two_rows_a_part_is_never_held_out() -> None:
    labels = torch.tensor([0] * 100 + [1] * 9 + [2] * 10)
    part = deal_parts(labels, 5, seed=0)
    assert bool((part[labels == 1] == -1).all())
    assert bool((part[labels != 1] >= 0).all())


def test_rows_that_may_not_be_held_out_are_not() -> None:
    labels = random_labels(100, 2, seed=0)
    among = torch.rand(100, generator=rng(0)) < 0.7
    part = deal_parts(labels, 5, seed=0, among=among)
    assert torch.equal(part >= 0, among)


def test_where_no_row_of_the_last_classes_may_be_held_out_the_others_still_are() -> None:
    labels = torch.arange(90) % 4
    among = labels < 2
    assert torch.equal(deal_parts(labels, 5, seed=0, among=among) >= 0, among)


def test_a_group_shares_a_part() -> None:
    labels, groups = random_labels(300, 2, seed=0), torch.randint(60, (300,), generator=rng(1))
    part = deal_parts(labels, 5, seed=0, groups=groups)
    for group in groups.unique():
        assert len(part[groups == group].unique()) == 1
    assert len(part.unique()) == 5


def test_by_time_a_part_is_a_stretch_and_the_last_is_the_latest() -> None:
    time = torch.rand(200, generator=rng(0)).double().round(decimals=2)  # some are equal
    part = deal_parts(random_labels(200, 2, seed=0), 5, seed=0, time=time)
    ends = [(float(time[part == k].min()), float(time[part == k].max())) for k in range(5)]
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_identical_inputs_have_one_fingerprint_and_others_another() -> None:
    x = torch.randn(500, 7, generator=rng(0))
    x[100:150] = x[:50]
    found = fingerprints(x.split(64))
    assert torch.equal(found[100:150], found[:50])
    assert len(found.unique()) == 450


@pytest.mark.parametrize("rows", [10, 200])
def test_groups_that_share_a_row_become_one(rows: int) -> None:
    """Against a plain walk over the graph."""
    one, other = (torch.randint(rows, (rows,), generator=rng(seed)) for seed in (0, 1))
    found = joined(one, other)
    for start in range(rows):
        reached, front = {start}, [start]
        while front:
            row = front.pop()
            near = ((one == one[row]) | (other == other[row])).nonzero().flatten().tolist()
            front += [n for n in near if n not in reached]
            reached |= set(near)
        assert set((found == found[start]).nonzero().flatten().tolist()) == reached
