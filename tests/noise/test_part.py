from __future__ import annotations

import math
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.noise import part
from selc.noise.part import truncated_normal
from tests.helpers import random_labels, rng
from tests.noise.bounds import assert_binomial

N, C, D = 20_000, 5, 6
LABELS = random_labels(N, C, seed=0)
X = torch.randn(N, D, generator=rng(1))


def mean_rate(rate: float) -> float:
    """The mean of a normal variable given that it is in [0, 1]: m + s^2 (f(0) - f(1)) / (F(1) - F(0))."""
    normal = NormalDist(rate, 0.1)
    return rate + 0.1**2 * (normal.pdf(0) - normal.pdf(1)) / (normal.cdf(1) - normal.cdf(0))


@pytest.mark.parametrize(("rate", "mean"), [(0.1, 0.129), (0.2, 0.206), (0.3, 0.300), (0.4, 0.400), (0.5, 0.500)])
def test_flip_rates_follow_the_truncated_normal(rate: float, mean: float) -> None:
    """By Kolmogorov and Smirnov's test; the means are those of the authors' settings."""
    normal = NormalDist(rate, 0.1)
    assert mean_rate(rate) == pytest.approx(mean, abs=5e-4)
    q = sorted(truncated_normal(N, rate, 0.1, rng(0)).tolist())
    assert 0 <= q[0] <= q[-1] <= 1
    share = [(normal.cdf(value) - normal.cdf(0)) / (normal.cdf(1) - normal.cdf(0)) for value in q]
    distance = max(max(p - i / N, (i + 1) / N - p) for i, p in enumerate(share))
    assert distance * math.sqrt(N) < 2.23  # the limit that one in 10,000 exceeds


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 1.0])
def test_the_realised_rate_is_the_mean_flip_rate(rate: float) -> None:
    """A flip never returns the true label, so each sample is changed with probability q_i."""
    noise = part(LABELS, C, rng(0), X, rate=rate)
    assert_binomial(noise.rate * N, N, mean_rate(rate))


def test_a_flipped_label_follows_the_softmax_of_the_input_seen_by_its_class() -> None:
    """All samples of a class alike: their wrong labels are draws from one softmax of x W_y without y."""
    prototypes = torch.randn(C, D, generator=rng(2))
    noise = part(LABELS, C, rng(7), prototypes[LABELS], rate=0.5)
    g = rng(7)
    for _ in range(2):  # the flip rates and the coins
        torch.rand(N, generator=g, dtype=torch.float64)
    # The matrix of the first class is next; those of the others come after draws of labels in between.
    W = torch.randn(D, C, generator=g, dtype=torch.float64)
    score = prototypes[0].double() @ W
    chance = [0.0] + [float(torch.exp(score[k]) / torch.exp(score[1:]).sum()) for k in range(1, C)]
    wrong = noise.labels[(LABELS == 0) & (noise.labels != 0)].tolist()
    for k in range(1, C):
        assert_binomial(wrong.count(k), len(wrong), chance[k])


def test_inputs_of_zero_give_uniform_wrong_labels() -> None:
    noise = part(LABELS, C, rng(0), torch.zeros(N, D), rate=0.5)
    for y in range(C):
        wrong = noise.labels[LABELS.eq(y) & noise.labels.ne(y)].tolist()
        assert wrong
        for k in set(range(C)) - {y}:
            assert_binomial(wrong.count(k), len(wrong), 1 / (C - 1))


def test_pixels_from_0_to_255_leave_one_wrong_label_per_image() -> None:
    images = torch.randint(256, (20, 3072), generator=rng(3), dtype=torch.uint8)
    which = torch.arange(2000) % 20
    labels = which % 4
    noise = part(labels, C, rng(0), images[which], rate=0.5)
    for image in range(20):
        here = which == image
        assert len(set(noise.labels[here & (noise.labels != labels)].tolist())) == 1


def test_a_rate_of_zero_changes_nothing() -> None:
    assert torch.equal(part(LABELS, C, rng(0), X, rate=0.0).labels, LABELS)


def test_huge_inputs_and_absent_classes_do_no_harm() -> None:
    labels = torch.tensor([0, 0, 3, 3])
    noise = part(labels, C, rng(0), torch.full((4, D), 1e38), rate=1.0)
    assert noise.labels.shape == (4,)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [(X[1:], r"x must be of shape \[20000, D\]"), (X.unsqueeze(1), r"x must be of shape .*; got \[20000, 1, 6\]")],
)
def test_inputs_of_another_shape_get_a_sentence(x: Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        part(LABELS, C, rng(0), x)


def test_a_deviation_of_zero_gets_a_sentence() -> None:
    with pytest.raises(ConfigError, match="std of noise 'part' must be above 0; got 0"):
        part(LABELS, C, rng(0), X, std=0.0)
