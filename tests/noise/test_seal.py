from __future__ import annotations

import pytest
import torch

from selc.errors import InputError
from selc.noise import seal
from tests.helpers import random_labels, random_targets, rng

N, C = 500, 7
LABELS = random_labels(N, C, seed=0)
S = random_targets(N, C, seed=1)


def by_the_book(rate: float) -> list[int]:
    """For each sample the best wrong class; the int(r N) samples whose best wrong class is likeliest take it."""
    best = []
    for i in range(N):
        wrong = [k for k in range(C) if k != int(LABELS[i])]
        c = max(wrong, key=lambda k, i=i: float(S[i, k]))  # type: ignore[misc]
        best.append((float(S[i, c]), i, c))
    given = LABELS.tolist()
    for _, i, c in sorted(best, reverse=True)[: int(rate * N)]:
        given[i] = c
    return given


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.333, 0.4, 1.0])
def test_the_samples_most_like_another_class_take_it(rate: float) -> None:
    noise = seal(LABELS, C, rng(0), S, rate=rate)
    assert noise.labels.tolist() == by_the_book(rate)
    assert noise.rate == int(rate * N) / N


def test_a_network_that_has_no_doubt_at_all_still_gives_wrong_labels() -> None:
    assert seal(LABELS, C, rng(0), torch.eye(C)[LABELS], rate=1.0).rate == 1


def test_rate_zero_changes_nothing() -> None:
    """The slip of the public code: the last 0 entries of a list are taken to be all of it."""
    assert torch.equal(seal(LABELS, C, rng(0), S, rate=0.0).labels, LABELS)


def test_the_noise_of_a_lower_rate_is_part_of_that_of_a_higher_one() -> None:
    low, high = (seal(LABELS, C, rng(0), S, rate=rate).labels for rate in (0.2, 0.4))
    changed = low != LABELS
    assert torch.equal(low[changed], high[changed])


def test_it_depends_on_the_network_and_not_on_the_seed() -> None:
    assert torch.equal(seal(LABELS, C, rng(0), S).labels, seal(LABELS, C, rng(1), S).labels)
    assert not torch.equal(seal(LABELS, C, rng(0), S).labels, seal(LABELS, C, rng(0), S.roll(1, 0)).labels)


def test_the_probabilities_handed_in_stay_as_they_are() -> None:
    before = S.clone()
    seal(LABELS, C, rng(0), S)
    assert torch.equal(S, before)


def test_probabilities_of_another_shape_or_without_a_value_get_a_sentence() -> None:
    with pytest.raises(InputError, match=r"mean_probs must be of shape \[500, 7\], a row per sample; got \[499, 7\]"):
        seal(LABELS, C, rng(0), S[1:])
    with pytest.raises(InputError, match="mean_probs must hold finite numbers"):
        seal(LABELS, C, rng(0), S.clone().fill_(torch.nan))
