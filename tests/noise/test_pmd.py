from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.noise import draw_noise, pmd
from tests.helpers import random_labels, random_targets, rng
from tests.noise.bounds import assert_binomial

N, C = 20_000, 5
TAU: dict[int, Any] = {
    1: lambda d: 1 / 2 - d**2 / 2,
    2: lambda d: 1 - d**3,
    3: lambda d: 1 - (d + d**2 + d**3) / 3,
}
SURE = random_targets(N, C, seed=1)
LABELS = SURE.argmax(1)  # a network that is right everywhere


def same_row(margin: float) -> Tensor:
    """Every sample alike: class 2 first, class 4 second, ``margin`` between them."""
    rest = (1 - margin) / 5
    row = torch.full((C,), rest, dtype=torch.float64)
    row[2] += margin
    row[4] += 1e-9  # the second place is sure
    return row.expand(N, C)


@pytest.mark.parametrize("factor", [1.0, 1.43, 3.4])
@pytest.mark.parametrize("margin", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", [1, 2, 3])
def test_a_label_is_the_first_choice_with_probability_one_minus_tau_over_the_factor(
    kind: Any, margin: float, factor: float
) -> None:
    labels = torch.full((N,), 2)
    noise = pmd(labels, C, rng(0), same_row(margin), type=kind, factor=factor)
    kept = int((noise.labels == 2).sum())
    assert_binomial(kept, N, (1 - TAU[kind](margin)) / factor)
    assert int((noise.labels == 4).sum()) == N - kept, "nothing but the first two choices"


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.35, 0.7, 0.95])
@pytest.mark.parametrize("kind", [1, 2, 3])
def test_bisection_reaches_the_rate_to_a_sample(kind: int, rate: float) -> None:
    noise = draw_noise("pmd", LABELS, C, 0, {"type": kind, "rate": rate}, {"last_probs": lambda: SURE})
    assert noise.rate == pytest.approx(rate, abs=1 / N)


@pytest.mark.parametrize("rate", [0.35, 0.7])
def test_the_rate_counts_the_networks_own_errors(rate: float) -> None:
    labels = torch.where(torch.rand(N, generator=rng(4)) < 0.2, random_labels(N, C, seed=5), LABELS)
    noise = pmd(labels, C, rng(0), SURE, rate=rate)
    assert float((noise.labels != labels).double().mean()) == noise.rate
    assert noise.rate == pytest.approx(rate, abs=1 / N)


def test_the_factor_that_was_found_gives_the_same_labels_again() -> None:
    found = pmd(LABELS, C, rng(0), SURE, rate=0.35)
    again = pmd(LABELS, C, rng(0), SURE, factor=found.facts["factor"])
    assert torch.equal(found.labels, again.labels)


def test_the_factor_of_a_sure_network_is_one_over_the_share_to_keep() -> None:
    """With a margin of one kappa is one for every type, so 1 - rate = 1 / F up to the draws."""
    probs = torch.eye(C)[LABELS]
    for kind in (1, 2, 3):
        noise = draw_noise("pmd", LABELS, C, 0, {"type": kind, "rate": 0.35}, {"last_probs": lambda: probs})
        assert_binomial(N / noise.facts["factor"], N, 1 - 0.35)


def test_common_draws_make_the_noise_of_a_lower_rate_part_of_that_of_a_higher_one() -> None:
    rates = [0.1, 0.2, 0.4, 0.8]
    noises = [pmd(LABELS, C, rng(0), SURE, type=2, rate=rate) for rate in rates]
    for low, high in itertools.pairwise(noises):
        assert low.facts["factor"] < high.facts["factor"]
        changed = low.labels != LABELS
        assert bool(changed.any())
        assert torch.equal(low.labels[changed], high.labels[changed])


def test_the_true_label_enters_only_in_the_rate() -> None:
    other = random_labels(N, C, seed=9)
    a, b = (pmd(labels, C, rng(0), SURE, factor=1.3) for labels in (LABELS, other))
    assert torch.equal(a.labels, b.labels)
    assert a.rate != b.rate


def test_samples_near_the_boundary_are_changed_more() -> None:
    top = SURE.topk(2, 1).values
    margin = top[:, 0] - top[:, 1]
    changed = pmd(LABELS, C, rng(0), SURE, type=3, rate=0.35).labels != LABELS
    assert float(margin[changed].mean()) < float(margin[~changed].mean()) - 0.05


def test_a_rate_that_the_network_cannot_give_gets_a_sentence() -> None:
    labels = torch.where(torch.arange(N) < N // 4, (LABELS + 1) % C, LABELS)  # it is wrong on a quarter
    with pytest.raises(ConfigError, match=r"must be from 0\.25\d*, the share .* wrong by itself, to .*; got 0\.1"):
        pmd(labels, C, rng(0), SURE, rate=0.1)


@pytest.mark.parametrize("factor", [-1.0, float("inf"), float("nan")])
def test_a_factor_that_is_none_gets_a_sentence(factor: float) -> None:
    with pytest.raises(ConfigError, match="factor of noise 'pmd' must be above 0, or 0 to find it"):
        pmd(LABELS, C, rng(0), SURE, factor=factor)


def test_other_types_and_shapes_are_refused() -> None:
    with pytest.raises(ConfigError, match="type of noise 'pmd' is not valid; got 4"):
        draw_noise("pmd", LABELS, C, 0, {"type": 4}, {"last_probs": lambda: SURE})
    with pytest.raises(InputError, match=r"last_probs must be of shape \[20000, 5\]"):
        pmd(LABELS, C, rng(0), SURE[:, :4])
