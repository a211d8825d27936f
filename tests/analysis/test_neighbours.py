"""Near-duplicates and rows far from all others, against distances between all pairs and against planted ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from selc.analysis import neighbours as module
from selc.analysis.neighbours import K, neighbours


def rows(count: int, width: int, dims: int, seed: int) -> Tensor:
    """Points of a curved surface of ``dims`` dimensions in three clusters."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(count, dims)) + 3 * (np.arange(count) % 3)[:, None]
    bend = rng.normal(size=(dims, width)) / np.sqrt(dims)
    return torch.from_numpy(low @ bend + 0.3 * np.sin(low @ bend)).float()


def by_all_pairs(x: Tensor, share: float, far: float) -> tuple[set[tuple[int, int]], set[int]]:
    """The definition itself: d < c r_K of either row, and r_K beyond the limit, from all N x N distances."""
    distance = torch.cdist(x.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    last = distance.sort(dim=1).values[:, K]  # the first is the row itself
    pairs = {
        (a, b) for a, b in itertools.combinations(range(len(x)), 2) if distance[a, b] < share * max(last[a], last[b])
    }
    return pairs, {row for row in range(len(x)) if last[row] > far}


@pytest.mark.parametrize(("width", "dims"), [(3, 3), (60, 6), (700, 40)])
def test_what_is_found_is_what_all_pairs_would_show(width: int, dims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE", 150)  # so that bounds and blocks have something to do
    monkeypatch.setattr(module, "ROWS", 64)
    monkeypatch.setattr(module, "COLUMNS", 100)
    x = rows(500, width, dims, seed=width)
    x[10:20] = x[110:120] + 1e-4 * x.std() * torch.randn(10, width, generator=torch.Generator().manual_seed(0))
    x[30:33] = x[31] * 7 + 40 * x.std() * torch.arange(1, 4)[:, None]
    found = neighbours(x)
    limits = module._limits(x - x.mean(dim=0), torch.from_numpy(np.random.default_rng(0).permutation(500))[:150])
    pairs, alone = by_all_pairs(x, limits.share, limits.far)
    assert {(a, b) for a, b, _ in found.near} == pairs
    assert {row for row, _ in found.far} == alone
    assert pairs >= {(10 + k, 110 + k) for k in range(10)}
    assert alone >= {30, 31, 32}
    assert [d for _, _, d in found.near] == sorted(d for _, _, d in found.near)


@pytest.mark.parametrize("dims", [2, 8, 30])
def test_chance_alone_shows_next_to_nothing(dims: int) -> None:
    """By construction about one of N rows would be told, of each kind."""
    told = [neighbours(torch.from_numpy(np.random.default_rng(s).random((800, dims)))) for s in range(5)]
    assert sum(len(each.near) for each in told) <= 5
    assert sum(len(each.far) for each in told) <= 5


def test_groups_of_near_copies_are_seen_whole() -> None:
    x = rows(400, 50, 8, seed=1)
    for k in range(1, K - 1):
        x[k] = x[0] + 1e-4 * k
    assert {(a, b) for a, b, _ in neighbours(x).near} == set(itertools.combinations(range(K - 1), 2))


def test_the_unit_and_the_order_do_not_matter() -> None:
    x = rows(300, 20, 5, seed=2)
    x[7], x[8] = x[3] + 1e-3, x[8] * 50
    plain, scaled = neighbours(x), neighbours(x * 1000)
    assert [pair[:2] for pair in plain.near] == [pair[:2] for pair in scaled.near] == [(3, 7)]
    assert [row for row, _ in plain.far] == [row for row, _ in scaled.far] == [8]
    assert scaled.usual == pytest.approx(1000 * plain.usual, rel=1e-4)


def test_where_the_origin_lies_does_not_matter() -> None:
    """On a grid of 1 / 1024, so that what is moved by 4096 is moved without rounding."""
    x = (rows(300, 20, 5, seed=2) * 1024).round() / 1024
    x[7], x[8] = x[3], x[8] * 50
    x[7, 0] += 1 / 1024
    plain, moved = neighbours(x), neighbours(x + 4096)
    assert [pair[:2] for pair in plain.near] == [pair[:2] for pair in moved.near] == [(3, 7)]
    assert [row for row, _ in plain.far] == [row for row, _ in moved.far] == [8]
    assert moved.usual == pytest.approx(plain.usual, rel=1e-3)


def test_distances_that_are_steps_or_nothing_say_nothing() -> None:
    """As on a grid, where most rows have five neighbours at one distance; and of rows nearer than fp32 can tell."""
    last = torch.ones(400).double()
    last[::4] = 2**0.5
    assert module._share(torch.ones(400).double(), last, 400) == 0
    found = neighbours(1e-30 * torch.arange(200.0)[:, None])
    assert (found.same, found.near, found.far) == ([], [], [])


def test_equal_rows_are_told_whatever_their_number() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 3.0], [5.0, 6.0], [2.0, 3.0]])
    found = neighbours(x)
    assert found.same == [[0, 2], [1, 3, 5]]
    assert not found.near
    assert not found.far
    levels = torch.from_numpy(np.random.default_rng(0).integers(0, 2, (500, 3))).float()
    found = neighbours(levels)  # distances are the same over and over: nothing is said of them
    assert len(found.same) == 8
    assert not found.near
