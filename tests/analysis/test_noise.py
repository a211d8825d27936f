"""How many labels are wrong: the curve with lapses, on labels of which that is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from selc.analysis.lapse import profile
from selc.analysis.noise_rate import Noise, NoiseRate, explain
from tests.helpers import rng
from tests.tiers import exhaustive


def contradictions(rows: int, e: float, a: float, b: float, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows whose labels are contradicted by the formula, and the confidences: e + (1 - e C / (C - 1)) h(z)."""
    z = 2 * torch.randn(rows, generator=rng(seed)).double() + 1.5
    h = (1 - 1 / classes) * torch.sigmoid(a - b * z)
    p = e + (1 - e * classes / (classes - 1)) * h
    return torch.rand(rows, generator=rng(seed + 1)).double() < p, torch.sigmoid(z)


@pytest.mark.parametrize("classes", [2, *exhaustive(10)])
@pytest.mark.parametrize("e", [0.2, *exhaustive(0.0, 0.05, 0.4)])
def test_planted_shares_are_found_within_their_interval(e: float, classes: int) -> None:
    """Of twenty draws, at least as many as 95 % less three standard errors hold the truth: seventeen."""
    found = [explain(*contradictions(2000, e, -1.0, 1.2, classes, 10 * seed), classes).rate for seed in range(20)]
    slack = 0.002  # of the grid of shares
    assert sum(rate.low - slack <= e <= rate.high + slack for rate in found) >= 17
    assert np.mean([rate.likely for rate in found]) == pytest.approx(e, abs=0.03)


def test_rows_that_are_hard_and_clean_are_not_taken_for_wrong_labels() -> None:
    """A third of the labels are contradicted, and none is wrong."""
    contradicted, confidence = contradictions(2000, 0.0, 1.5, 1.5, 3, seed=0)
    assert float(contradicted.double().mean()) > 0.25
    rate = explain(contradicted, confidence, 3).rate
    assert rate.likely < 0.02
    assert rate.low < 0.01
    assert rate.high < 0.06


def test_where_all_confidences_are_alike_the_range_reaches_from_nothing_to_all_of_it() -> None:
    contradicted = torch.rand(300, generator=rng(0)) < 0.3
    rate = explain(contradicted, torch.rand(300, generator=rng(1)) * 0.1 + 0.6, 2).rate
    assert rate.estimate is None
    assert rate.low == 0.0
    assert rate.high > 0.25


def test_the_likelihood_is_as_large_as_another_library_finds_it() -> None:
    contradicted, confidence = contradictions(1500, 0.15, -0.5, 1.0, 5, seed=3)
    z = (confidence / (1 - confidence)).log()
    z = (z - z.mean()) / z.std()
    fit = profile(z, contradicted, 5, least=1e-3)[1]
    # The same groups of rows as ours, which are 64; the rest is written out.
    order = z.argsort()
    parts = [part.numpy() for part in torch.stack([z[order], contradicted[order].double()]).tensor_split(64, dim=1)]
    mean, k, n = (np.array(v) for v in zip(*((p[0].mean(), p[1].sum(), p.shape[1]) for p in parts), strict=True))

    def minus_log_likelihood(theta: np.ndarray) -> float:
        a, b, e = theta[0], np.exp(np.clip(theta[1], -9, 9)), 0.8 / (1 + np.exp(-np.clip(theta[2], -9, 9)))
        p = e + (1 - e * 5 / 4) * 0.8 / (1 + np.exp(np.clip(b * mean - a, -30, 30)))
        return float(-(k * np.log(p) + (n - k) * np.log(1 - p)).sum())

    theirs = min(
        minimize(minus_log_likelihood, begin, method="Nelder-Mead", options={"maxiter": 5000}).fun
        for begin in ([0.0, 0.0, -2.0], [-2.0, 0.5, -1.0])
    )
    assert -float(fit.max()) == pytest.approx(theirs, abs=0.1)


def test_odds_are_those_of_bayes() -> None:
    """Of all that can have happened to a row, each with its probability, what is left given a contradiction."""
    e, C = 0.2, 4
    noise = explain(*contradictions(3000, e, -0.5, 1.0, C, seed=1), C)
    at = float(noise.rates[(noise.rates - e).abs().argmin()])
    confidence = torch.tensor([0.3, 0.6, 0.9, 0.99])
    rate, h = noise._at(confidence, at)
    right, kept = noise.odds(confidence, at)
    for k in range(4):
        wrong_network = float(h[k])
        # (label wrong?, network wrong?) -> probability, and whether they contradict each other
        right_class = rate * (1 - wrong_network)  # the label is wrong and the network right
        given_class = (1 - rate) * wrong_network  # the other way round
        neither = rate * wrong_network * (C - 2) / (C - 1)  # both wrong, and not the same
        total = right_class + given_class + neither
        assert float(right[k]) == pytest.approx(right_class / total)
        assert float(kept[k]) == pytest.approx(given_class / total)
        same = rate * wrong_network / (C - 1)  # both wrong, and the same
        agree = (1 - rate) * (1 - wrong_network)
        assert float(noise.agreed(confidence, at)[k]) == pytest.approx(agree / (agree + same))


def test_more_contradictions_of_sure_predictions_are_more_wrong_labels() -> None:
    contradicted, confidence = contradictions(1000, 0.1, -1.0, 1.0, 3, seed=2)
    more = contradicted | ((confidence > 0.9) & (torch.arange(1000) % 5 == 0))
    assert explain(more, confidence, 3).rate.likely > explain(contradicted, confidence, 3).rate.likely


def test_a_number_is_named_only_of_a_narrow_range() -> None:
    assert NoiseRate(0.1, 0.05, 0.15).estimate == 0.1
    assert NoiseRate(0.2, 0.0, 0.3).estimate is None


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_handful_of_rows_is_no_error(rows: int) -> None:
    noise = explain(torch.zeros(rows, dtype=torch.bool), torch.full((rows,), 0.7), 2)
    assert isinstance(noise, Noise)
    assert 0 <= noise.rate.low <= noise.rate.likely <= noise.rate.high <= 0.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_fit_is_as_good_as_that_of_another_optimizer(seed: int, spread: float) -> None:
    """Of a and log b with b at least 1, for some shares of wrong labels; where few rows are contradicted, b is often at
    its bound, or a far away."""
    generator = rng(seed)
    z = spread * torch.randn(300, generator=generator).double() + spread
    contradicted = torch.rand(300, generator=generator) < 0.03 * seed + torch.sigmoid(-1.5 * z) / 2
    classes, least = 3, 1.0
    rates, fit, _ = profile(z, contradicted, classes, least)
    groups = torch.arange(300) * 64 // 300
    order = z.argsort()
    n = torch.bincount(groups).double()
    k = torch.zeros(64).double().index_add_(0, groups, contradicted[order].double())
    mean = torch.zeros(64).double().index_add_(0, groups, z[order]) / n

    def loss(at: Any, e: float) -> float:
        h = (1 - 1 / classes) * torch.sigmoid(at[0] - math.exp(at[1]) * mean)
        p = (e + (1 - e / (1 - 1 / classes)) * h).clamp(1e-9, 1 - 1e-9)
        return -float((k * p.log() + (n - k) * (1 - p).log()).sum())

    for place in (0, 10, 30, 60):
        e = float(rates[place])
        bounds = [(-15.0, 8.0), (math.log(least), 3.0)]
        theirs = min(
            minimize(loss, begin, args=(e,), bounds=bounds, method="L-BFGS-B").fun
            for begin in ((0.0, 0.1), (-3.0, 0.5), (-6.0, 1.5))
        )
        assert -float(fit[place]) <= theirs + 0.02
