"""How many labels are wrong: the curve with lapses, on labels of which that is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from selc.analysis.lapse import RATES
from selc.analysis.lapse import fit as fitted_to
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
    fit = fitted_to(z, contradicted, 5, least=1e-3).fit
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


def bayes(e: Any, h: Any, classes: int) -> tuple[Any, Any, Any]:
    """Of all that can have happened to a row, each with its probability: given a contradiction, whether the predicted
    class is right and whether the given one is; given none, whether both are."""
    right_class = e * (1 - h)  # the label is wrong and the network right
    given_class = (1 - e) * h  # the other way round
    neither = e * h * (classes - 2) / (classes - 1)  # both wrong, and not the same
    total = right_class + given_class + neither
    agree, same = (1 - e) * (1 - h), e * h / (classes - 1)  # both right; both wrong, and the same
    return right_class / total, given_class / total, agree / (agree + same)


def hard(noise: Noise, a: Any, log_b: Any, confidence: np.ndarray) -> Any:
    z = (np.log(confidence / (1 - confidence)) - noise.centre) / noise.scale
    return (1 - 1 / noise.num_classes) / (1 + np.exp(np.exp(log_b) * z - a))


def test_odds_are_those_of_bayes() -> None:
    e, C = 0.2, 4
    noise = explain(*contradictions(3000, e, -0.5, 1.0, C, seed=1), C)
    place = int((noise.fitted.rates - e).abs().argmin())
    confidence = np.array([0.3, 0.6, 0.9, 0.99])
    a, log_b = noise.fitted.curve[place].tolist()
    h = hard(noise, a, log_b, confidence)
    wanted = bayes(float(noise.fitted.rates[place]), h, C)
    right, kept = noise.odds(torch.from_numpy(confidence), e)
    np.testing.assert_allclose(right, wanted[0])
    np.testing.assert_allclose(kept, wanted[1])


@pytest.mark.parametrize(("rows", "reach"), [(60, 15.0), (600, 3.0)])
def test_the_confidence_of_a_suggestion_is_a_mean_over_all_that_may_be(rows: int, reach: float) -> None:
    """As a sum over a fine grid of shares and curves, none of which was likelier than another before."""
    contradicted, sure = contradictions(rows, 0.2, 0.0, 1.0, 3, seed=5)
    noise = explain(contradicted, sure, 3)
    p = sure.numpy()
    z, k = (np.log(p / (1 - p)) - noise.centre) / noise.scale, contradicted.numpy()
    least = math.log((0.3 if noise.overconfident else 1) * noise.scale)
    best, best_log_b = noise.fitted.curve[noise.fitted.fit.argmax()].tolist()
    confidence = np.array([0.45, 0.7, 0.95])
    e = np.linspace(0, 0.66, 34)[:, None, None]
    a = np.linspace(max(best - reach, -15), min(best + reach, 8), 61)[:, None]
    total, right, agreed = 0.0, np.zeros(3), np.zeros(3)
    for log_b in np.linspace(least, min(best_log_b + 1.5, 3), 25):
        share = e + (1 - e * 3 / 2) * (2 / 3) / (1 + np.exp(np.clip(np.exp(log_b) * z - a, -30, 30)))
        log_likelihood = np.log(np.where(k, share, 1 - share)).sum(axis=2, keepdims=True)
        weight = np.exp(log_likelihood - float(noise.fitted.fit.max()))
        follows = bayes(e, hard(noise, a, log_b, confidence), 3)
        total += weight.sum()
        right, agreed = right + (weight * follows[0]).sum((0, 1)), agreed + (weight * follows[2]).sum((0, 1))
    known = torch.from_numpy(confidence)
    np.testing.assert_allclose(noise.right(known), right / total, atol=0.03)
    np.testing.assert_allclose(noise.agreed(known), agreed / total, atol=0.03)


def test_of_few_rows_a_suggestion_is_no_surer_than_it_is_right() -> None:
    """Shares of wrong labels are drawn anew each time, so that what is said can be compared with what is so."""
    said, right = [], []
    for seed in range(15):
        draw = np.random.default_rng(seed)
        e, z = draw.uniform(0, 0.5), draw.normal(1.5, 1.5, 80)
        odd, wrong = draw.random(80) < 0.5 / (1 + np.exp(z)), draw.random(80) < e
        confidence, contradicted = torch.from_numpy(1 / (1 + np.exp(-z))), torch.from_numpy(odd ^ wrong)
        said.append(explain(contradicted, confidence, 2).right(confidence)[contradicted])
        right.append(torch.from_numpy(wrong & ~odd)[contradicted].double())
    assert float(torch.cat(said).mean()) == pytest.approx(float(torch.cat(right).mean()), abs=0.1)


@pytest.mark.parametrize("slack", [0.0, 1.645])
def test_overconfident_is_surer_than_right_by_more_than_so_many_standard_errors(slack: float) -> None:
    """Of 400 predictions with a confidence of 0.8; one of 0.7 and 0.9 each keeps them from being all alike."""
    confidence, found = torch.full((400,), 0.8, dtype=torch.float64), set()
    confidence[:2] = torch.tensor([0.7, 0.9])
    for wrong in (70, 79, 81, 90, 92, 94, 96, 110):
        surer = [float(c) - (k >= wrong) for k, c in enumerate(confidence)]
        mean = math.fsum(surer) / 400
        error = math.sqrt(math.fsum((s - mean) ** 2 for s in surer)) / 400
        expected = mean > slack * error
        assert explain(torch.arange(400) < wrong, confidence, 3, slack).overconfident is expected
        found.add(expected)
    assert found == {True, False}


def test_what_is_exactly_as_sure_as_it_is_right_is_not_overconfident() -> None:
    """Three labels of four are predicted, each with a confidence of 3 / 4."""
    assert not explain(torch.arange(400) < 100, torch.full((400,), 0.75), 4).overconfident


def test_shares_that_are_tried_lie_closer_together_the_smaller_they_are_and_end_below_chance() -> None:
    contradicted, confidence = contradictions(200, 0.1, -1.0, 1.0, 4, seed=0)
    rates = fitted_to(confidence, contradicted, 4, least=1.0).rates
    wanted = 3 / 4 * (np.arange(RATES) / RATES) ** 2
    np.testing.assert_allclose(rates, wanted, atol=1e-15)


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


@pytest.mark.parametrize("seed", [0, 3, *exhaustive(1, 2, 4, 5)])
@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_fit_is_as_good_as_that_of_another_optimizer(seed: int, spread: float) -> None:
    """Of a and log b with b at least 1, for some shares of wrong labels; where few rows are contradicted, b is often at
    its bound, or a far away."""
    generator = rng(seed)
    z = spread * torch.randn(300, generator=generator).double() + spread
    contradicted = torch.rand(300, generator=generator) < 0.03 * seed + torch.sigmoid(-1.5 * z) / 2
    classes, least = 3, 1.0
    rates, fit, *_ = fitted_to(z, contradicted, classes, least)
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
