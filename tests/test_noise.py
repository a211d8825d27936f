from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch import Tensor

from selc.errors import ConfigError
from selc.noise import draw_noise, none, pair, symmetric
from tests.helpers import random_labels, rng

N, C = 20_000, 10
CLEAN = random_labels(N, C, seed=0)
SIGMAS = 5  # a bound of five standard deviations fails by chance once in two million draws
NAMES = ["none", "symmetric", "pair"]


def assert_binomial(count: float, trials: int, share: float) -> None:
    """``count`` hits in ``trials`` are what the share lets expect."""
    assert abs(count - trials * share) <= SIGMAS * math.sqrt(trials * share * (1 - share)) + 1e-9


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
    on = 1 - (C - 1) * off
    for i in range(C):
        size = CLEAN.tolist().count(i)
        for j in range(C):
            assert_binomial(float(noise.matrix[i, j]) * size, size, on if i == j else off)


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
