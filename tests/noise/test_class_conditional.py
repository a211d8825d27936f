from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch import Tensor

from selc.errors import ConfigError
from selc.noise import class_map, draw_noise, matrix, none, pair, symmetric
from tests.helpers import random_labels, random_targets, rng
from tests.noise.bounds import assert_binomial, assert_matrix

N, C = 20_000, 10
CLEAN = random_labels(N, C, seed=0)
NAMES = ["none", "symmetric", "pair"]


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.8, 1.0])
def test_symmetric_with_the_true_class_changes_rate_times_c_minus_1_over_c(rate: float) -> None:
    noise = symmetric(CLEAN, C, rng(1), rate=rate)
    changed = int((noise.labels != CLEAN).sum())
    assert noise.rate == pytest.approx(changed / N)
    assert_binomial(changed, int(rate * N), (C - 1) / C)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.333, 0.8, 1.0])
def test_symmetric_without_the_true_class_changes_exactly_the_chosen_samples(rate: float) -> None:
    noise = symmetric(CLEAN, C, rng(1), rate=rate, include_true=False)
    assert int((noise.labels != CLEAN).sum()) == int(rate * N)
    assert noise.rate == int(rate * N) / N


@pytest.mark.parametrize("include_true", [False, True])
def test_symmetric_draws_no_more_than_the_chosen_samples_and_all_classes_alike(include_true: bool) -> None:
    """Q = (1 - r) I + r / C with the true class; without it r / (C - 1) off the diagonal."""
    noise = symmetric(CLEAN, C, rng(1), rate=0.4, include_true=include_true)
    assert int((noise.labels != CLEAN).sum()) <= int(0.4 * N)
    off = 0.4 / C if include_true else 0.4 / (C - 1)
    expected = torch.full((C, C), off).fill_diagonal_(1 - (C - 1) * off)
    assert_matrix(noise.matrix, CLEAN, expected)


def test_pair_moves_exactly_the_chosen_samples_to_the_next_class() -> None:
    noise = pair(CLEAN, C, rng(1), rate=0.3)
    moved = noise.labels != CLEAN
    assert int(moved.sum()) == int(0.3 * N)
    following = {c: c + 1 for c in range(9)} | {9: 0}
    assert all(following[a] == b for a, b in zip(CLEAN[moved].tolist(), noise.labels[moved].tolist(), strict=True))


def test_none_changes_nothing_and_hands_out_a_copy() -> None:
    noise = none(CLEAN, C, rng(1))
    assert torch.equal(noise.labels, CLEAN)
    assert noise.labels.data_ptr() != CLEAN.data_ptr()
    assert noise.rate == 0
    assert torch.equal(noise.matrix, torch.eye(C, dtype=torch.float64))


@pytest.mark.parametrize("name", NAMES)
def test_the_matrix_is_the_confusion_of_true_and_given_and_rows_sum_to_one(name: str) -> None:
    noise = draw_noise(name, CLEAN, C, 0, {})
    expected = confusion_matrix(CLEAN.numpy(), noise.labels.numpy(), normalize="true")
    torch.testing.assert_close(noise.matrix, torch.from_numpy(expected))
    torch.testing.assert_close(noise.matrix.sum(dim=1), torch.ones(C, dtype=torch.float64))


def test_a_class_without_samples_keeps_its_row_of_the_identity() -> None:
    noise = pair(torch.tensor([0, 0, 2, 2]), 4, rng(0), rate=1.0)
    assert noise.matrix.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]


@pytest.mark.parametrize("name", NAMES)
def test_the_true_labels_are_left_alone(name: str) -> None:
    labels = CLEAN.clone()
    draw_noise(name, labels, C, 0, {})
    assert torch.equal(labels, CLEAN)


@pytest.mark.parametrize("name", ["symmetric", "pair"])
def test_noise_depends_on_its_seed_alone(name: str) -> None:
    torch.manual_seed(0)
    first = draw_noise(name, CLEAN, C, 7, {"rate": 0.3})
    torch.manual_seed(1)
    second = draw_noise(name, CLEAN, C, 7, {"rate": 0.3})
    other = draw_noise(name, CLEAN, C, 8, {"rate": 0.3})
    assert first.digest == second.digest
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.labels, other.labels)
    assert first.digest != other.digest


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_the_digest_is_sha256_of_little_endian_64_bit_integers(dtype: torch.dtype) -> None:
    noise = none(torch.tensor([0, 1, 2, 9]), C, rng(0))._replace(labels=torch.tensor([0, 1, 2, 9], dtype=dtype))
    content = bytes.fromhex("0000000000000000 0100000000000000 0200000000000000 0900000000000000")
    assert noise.digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
@pytest.mark.parametrize("name", ["symmetric", "pair"])
def test_a_rate_out_of_range_is_refused(name: str, rate: float) -> None:
    with pytest.raises(ConfigError, match=r"rate must be in \[0, 1\]; got"):
        draw_noise(name, CLEAN, C, 0, {"rate": rate})


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("symetric", {}, "noise must be one of .*; got 'symetric'. Did you mean 'symmetric'"),
        ("symmetric", {"rat": 0.2}, "Did you mean 'rate'"),
        ("symmetric", {"rate": "many"}, "rate of noise 'symmetric' is not valid; got 'many'"),
    ],
)
def test_unknown_names_and_options_get_a_sentence(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw_noise(name, CLEAN, C, 0, options)


@pytest.mark.parametrize(("draw", "dtype"), [(symmetric, torch.int32), (symmetric, torch.uint8), (pair, torch.uint8)])
def test_labels_of_any_integer_type_give_the_same_noise(draw: Any, dtype: torch.dtype) -> None:
    labels: Tensor = torch.arange(100)
    wide, narrow = draw(labels, 100, rng(0)), draw(labels.to(dtype), 100, rng(0))
    assert torch.equal(wide.matrix, narrow.matrix)
    assert torch.equal(wide.labels, narrow.labels)


def seeded(seed: int, name: str) -> torch.Generator:
    """A generator by the rule for seeds: the first 63 bits of BLAKE2b over the names and numbers."""
    parts = f"('noise', {seed}, '{name}')"
    digest = hashlib.blake2b(parts.encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") // 2)


def replaced(seed: int) -> Tensor:
    """The paper's symmetric noise: int(r N) shuffled rows get a uniform label."""
    g, labels = seeded(seed, "symmetric"), CLEAN.clone()
    chosen = torch.randperm(N, generator=g)[: int(0.4 * N)]
    labels[chosen] = torch.randint(C, (len(chosen),), generator=g)
    return labels


def replaced_by_others(seed: int) -> Tensor:
    g, labels = seeded(seed, "symmetric"), CLEAN.clone()
    chosen = torch.randperm(N, generator=g)[: int(0.4 * N)]
    labels[chosen] = (labels[chosen] + torch.randint(1, C, (len(chosen),), generator=g)) % C
    return labels


def next_ones(seed: int) -> Tensor:
    g, labels = seeded(seed, "pair"), CLEAN.clone()
    chosen = torch.randperm(N, generator=g)[: int(0.4 * N)]
    labels[chosen] = (labels[chosen] + 1) % C
    return labels


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("none", {}, lambda seed: CLEAN),
        ("symmetric", {}, replaced),
        ("symmetric", {"include_true": False}, replaced_by_others),
        ("pair", {}, next_ones),
    ],
)
def test_the_draws_behind_published_results_stay_what_they_were(
    name: str, options: dict[str, Any], expected: Callable[[int], Tensor], seed: int
) -> None:
    content = expected(seed).numpy().astype("<i8").tobytes()
    assert draw_noise(name, CLEAN, C, seed, options).digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("draw", [symmetric, pair, class_map])
def test_independent_draws_choose_each_sample_by_a_coin_of_its_own(draw: Any, rate: float) -> None:
    options: dict[str, Any] = {"to": [(c + 3) % C for c in range(C)]} if draw is class_map else {}
    options |= {"include_true": False} if draw is symmetric else {}
    counts = [int(draw(CLEAN, C, rng(s), rate=rate, exact=False, **options).rate * N + 0.5) for s in range(8)]
    for count in counts:
        assert_binomial(count, N, rate)
    assert (len(set(counts)) > 1) == (0 < rate < 1), "an exact count would be the same for each seed"


def test_symmetric_without_the_true_class_needs_another_class() -> None:
    with pytest.raises(ConfigError, match="needs at least 2 classes; got 1"):
        symmetric(torch.zeros(5, dtype=torch.long), 1, rng(0), include_true=False)


def test_a_class_map_moves_only_the_classes_that_it_names() -> None:
    """Q_ii = 1 - r and Q_i,to(i) = r for the named ones, the identity for the others."""
    noise = draw_noise("map", CLEAN, C, 0, {"to": {"3": 5, "5": 3, "9": 1}, "rate": 0.4})
    expected = torch.eye(C)
    for true, given in [(3, 5), (5, 3), (9, 1)]:
        expected[true, true], expected[true, given] = 0.6, 0.4
    assert_matrix(noise.matrix, CLEAN, expected)
    moved = (noise.labels != CLEAN).nonzero().flatten()
    assert set(CLEAN[moved].tolist()) == {3, 5, 9}


def test_a_class_map_may_be_a_list_for_all_classes() -> None:
    noise = class_map(CLEAN, C, rng(0), to=tuple(reversed(range(C))), rate=1.0)
    assert torch.equal(noise.labels, C - 1 - CLEAN)


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ([], r"a list with an entry for each of the 10 classes; got 0 entries"),
        ([1, 2], r"a list with an entry for each of the 10 classes; got 2 entries"),
        ({}, r"must name classes in 0\.\.9; got an empty table"),
        ({3: 10}, r"must name classes in 0\.\.9; got class 10"),
        ({-1: 0}, r"must name classes in 0\.\.9; got class -1"),
        ("cat", "to of noise 'map' is not valid; got 'cat'"),
    ],
)
def test_a_class_map_that_does_not_fit_gets_a_sentence(to: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw_noise("map", CLEAN, C, 0, {"to": to})


def test_a_given_matrix_is_what_the_labels_are_drawn_from() -> None:
    rows = random_targets(C, C, seed=5).double()
    rows[:, 4] = 0  # what is not in the matrix is never drawn
    rows /= rows.sum(1, keepdim=True)
    noise = draw_noise("matrix", CLEAN, C, 0, {"rows": rows.tolist()})
    assert_matrix(noise.matrix, CLEAN, rows)
    assert 4 not in noise.labels.tolist()
    assert_binomial(noise.rate * N, N, float(1 - rows.diagonal()[CLEAN].mean()))


def test_a_matrix_of_ones_and_zeros_leaves_nothing_to_chance() -> None:
    rows = torch.eye(C)[[(c + 2) % C for c in range(C)]]
    assert torch.equal(matrix(CLEAN, C, rng(0), rows=tuple(map(tuple, rows.tolist()))).labels, (CLEAN + 2) % C)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "must be 2 lists of 2 probabilities.*; got 0 of no numbers"),
        ([[1, 0]], "must be 2 lists of 2 probabilities.*; got 1 of 2 numbers"),
        ([[1, 0], [1]], "must be 2 lists of 2 probabilities.*; got 2 of 1 or 2 numbers"),
        ([[0.9, 0.2], [0.1, 0.8]], "must sum to one; got 1.1 in row 0.*transpose it"),
        ([[1.0, 0.0], [1.5, -0.5]], r"must be probabilities; got \[1.5, -0.5\] in row 1"),
        ([[1.0, 0.0], [math.nan, 1.0]], "must be probabilities; got .* in row 1"),
    ],
)
def test_a_matrix_that_is_none_gets_a_sentence(rows: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw_noise("matrix", torch.tensor([0, 1, 1]), 2, 0, {"rows": rows})
