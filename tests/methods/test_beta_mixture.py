"""The Beta mixture against its EM written out, against torch's Beta distribution, and at its edges."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Beta

from selc.methods.beta_mixture import BetaMixture, fit_beta_mixture
from tests.helpers import rng


def beta64(alpha: float, beta: float) -> Beta:
    return Beta(torch.tensor(alpha, dtype=torch.float64), torch.tensor(beta, dtype=torch.float64))


def drawn(seed: int, count: int = 2000, share: float = 0.6) -> Tensor:
    """Losses of right labels near Beta(2, 12), and of wrong ones near Beta(8, 4)."""
    x = torch.linspace(0.0005, 0.9995, 4000, dtype=torch.float64)
    result = []
    for number, (a, b, part) in enumerate(((2.0, 12.0, share), (8.0, 4.0, 1 - share))):
        density = beta64(a, b).log_prob(x).exp()
        result.append(x[torch.multinomial(density, int(count * part), replacement=True, generator=rng(seed + number))])
    return torch.cat(result)


def literal_fit(losses: Tensor, steps: int = 10) -> tuple[list[float], list[float], list[float]]:
    """The authors' EM, one component after the other."""
    x = losses.double().clamp(1e-4, 1 - 1e-4)
    weight, alpha, beta = [0.5, 0.5], [1.0, 2.0], [2.0, 1.0]
    for _ in range(steps):
        joint = []
        for k in range(2):
            log_prob = beta64(alpha[k], beta[k]).log_prob(x)
            joint.append((weight[k] * log_prob.exp()).clamp(min=1e-12))
        total = joint[0] + joint[1]
        for k in range(2):
            r = joint[k] / total
            m = float((r * x).sum() / r.sum())
            v = float((r * (x - m) ** 2).sum() / r.sum())
            alpha[k] = m * (m * (1 - m) / v - 1)
            beta[k] = alpha[k] * (1 - m) / m
            weight[k] = float(r.mean())
    return weight, alpha, beta


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [1, 10])
def test_it_is_the_published_em(seed: int, steps: int) -> None:
    losses = drawn(seed)
    ours = fit_beta_mixture(losses, steps)
    assert ours is not None
    weight, alpha, beta = literal_fit(losses, steps)
    assert ours.weight == pytest.approx(weight, rel=1e-8)
    assert ours.alpha == pytest.approx(alpha, rel=1e-8)
    assert ours.beta == pytest.approx(beta, rel=1e-8)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_it_finds_the_mixture_that_the_losses_were_drawn_from(share: float) -> None:
    mixture = fit_beta_mixture(drawn(0, 20_000, share), steps=300)  # the published 10 steps stop on the way
    assert mixture is not None
    assert mixture.weight == pytest.approx((share, 1 - share), abs=0.03)
    assert mixture.mean == pytest.approx((2 / 14, 8 / 12), abs=0.03)


def test_the_component_with_the_smaller_mean_comes_first() -> None:
    mixture, mirrored = fit_beta_mixture(drawn(0)), fit_beta_mixture(1 - drawn(0))
    assert mixture is not None
    assert mirrored is not None
    assert mixture.mean[0] < mixture.mean[1]
    assert mirrored.mean == pytest.approx((1 - mixture.mean[1], 1 - mixture.mean[0]), abs=1e-6)
    assert mirrored.alpha == pytest.approx(mixture.beta[::-1], rel=1e-6)


MIXTURE = BetaMixture((0.7, 0.3), (1.5, 6.0), (9.0, 2.5))


def test_densities_are_those_of_the_beta_distribution() -> None:
    x = torch.linspace(0.01, 0.99, 50, dtype=torch.float64)
    for k, row in enumerate(MIXTURE.log_density(x)):
        expected = math.log(MIXTURE.weight[k]) + beta64(MIXTURE.alpha[k], MIXTURE.beta[k]).log_prob(x)
        torch.testing.assert_close(row, expected)
    first, second = MIXTURE.log_density(x).exp()
    torch.testing.assert_close(MIXTURE.posterior(x), second / (first + second))


def test_a_table_is_the_posterior_held_at_its_maximum() -> None:
    """The published rule: after its maximum the probability stays there."""
    x = torch.linspace(1e-12, 1 - 1e-12, 100, dtype=torch.float64)
    first, second = (
        w * beta64(a, b).log_prob(x).exp() for w, a, b in zip(MIXTURE.weight, MIXTURE.alpha, MIXTURE.beta, strict=True)
    )
    expected = second / (first + second)
    expected[int(expected.argmax()) :] = expected.max()
    torch.testing.assert_close(MIXTURE.table(100), expected)


@pytest.mark.parametrize(
    "mixture",
    [
        BetaMixture((0.6, 0.4), (40.0, 1.2), (200.0, 1.1)),  # the first one is narrow: the second reaches below it
        BetaMixture((0.6, 0.4), (0.8, 60.0), (1.5, 30.0)),  # the second one is narrow: the first reaches beyond it
        BetaMixture((0.5, 0.5), (3.0, 3.0), (3.0, 3.0)),
        BetaMixture((1.0 - 1e-9, 1e-9), (0.05, 0.3), (80.0, 0.1)),
    ],
)
def test_a_table_never_falls_and_stays_a_probability(mixture: BetaMixture) -> None:
    table = mixture.table(100)
    assert bool((table[1:] >= table[:-1]).all())
    assert 0 <= float(table[0]) <= float(table[-1]) <= 1


def test_small_losses_are_not_taken_for_those_of_wrong_labels() -> None:
    """Where the second component is the wider one its density is larger below the first; the table has it otherwise."""
    mixture = BetaMixture((0.6, 0.4), (40.0, 1.2), (200.0, 1.1))
    assert float(mixture.posterior(torch.tensor(0.01))) > 0.9
    table = mixture.table(100)
    assert float(table[1]) < 0.1
    assert float(table[60]) > 0.9


@pytest.mark.parametrize(
    "losses",
    [torch.full((50,), 0.3), torch.zeros(50), torch.tensor([]), torch.tensor([0.1, math.nan, 0.9]), torch.ones(1)],
)
def test_there_is_no_mixture_of_losses_that_cannot_be_told_apart(losses: Tensor) -> None:
    assert fit_beta_mixture(losses) is None


@pytest.mark.parametrize(
    "losses",
    [
        torch.cat([torch.zeros(500), torch.ones(500)]),
        torch.cat([torch.zeros(999), torch.ones(1)]),
        torch.cat([torch.full((500,), 0.2), torch.full((500,), 0.8)]),
        torch.tensor([0.1, 0.2]),
        torch.rand(1000, generator=rng(0)),
    ],
    ids=["two points at the ends", "one large loss", "two points", "two losses", "no groups"],
)
def test_a_component_that_shrinks_to_a_point_stays_finite(losses: Tensor) -> None:
    mixture = fit_beta_mixture(losses)
    assert mixture is not None
    assert all(math.isfinite(v) and v > 0 for part in mixture for v in part)
    assert sum(mixture.weight) == pytest.approx(1)
    assert bool(torch.isfinite(mixture.table(100)).all())


def test_two_points_are_told_apart() -> None:
    mixture = fit_beta_mixture(torch.cat([torch.full((300,), 0.2), torch.full((100,), 0.8)]))
    assert mixture is not None
    assert mixture.weight == pytest.approx((0.75, 0.25), abs=0.01)
    wrong = mixture.posterior(torch.tensor([0.2, 0.8]))
    assert wrong.tolist() == pytest.approx([0, 1], abs=0.01)
