"""RSL against its published quotas, written out class by class, and the stages around them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods import CE, create
from selc.methods.judge import Judged
from selc.methods.parts import given_for
from selc.methods.rsl import RSL, estimated, quotas, smallest
from selc.turning import Decision, Evidence, decide
from selc.types import StagePlan, TrainSet
from tests.helpers import close, one_hot64, random_labels, random_targets, rng, stored, train_set
from tests.methods.common import PLAN, Stages, contradicted, many, outcome

N, C = 60, 4
LABELS = random_labels(N, C, seed=0)
DATA = train_set(LABELS, C)


def literal_quotas(n: list[int], eta: list[float], p: list[float], beta: float, gamma_index: int) -> list[float]:
    """The authors' loop over classes: gamma is 1, the mean of 1 and max z / min z, or the latter."""
    prop = [max(1 - (1 + beta) * e, (1 - beta) * (1 - e)) for e in eta]
    available = [prop[i] * n[i] for i in range(len(n))]
    z = [available[i] / p[i] for i in range(len(n))]
    gammas = [1, (1 + max(z) / min(z)) / 2, max(z) / min(z)]
    return [min(gammas[gamma_index] * min(z) * p[i], available[i]) for i in range(len(n))]


@pytest.mark.parametrize(("balance", "gamma_index"), [(0.0, 0), (0.5, 1), (1.0, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_quotas_are_the_published_ones(seed: int, balance: float, gamma_index: int) -> None:
    n = torch.randint(20, 400, (C,), generator=rng(seed))
    eta = 0.7 * torch.rand(C, generator=rng(seed + 10), dtype=torch.float64)
    prior = random_targets(1, C, seed=seed)[0].double()
    expected = literal_quotas(n.tolist(), eta.tolist(), prior.tolist(), 0.2, gamma_index)
    assert quotas(n, eta, prior, 0.2, balance).tolist() == [int(q + 1e-9) for q in expected]


def test_uniform_noise_on_balanced_classes_gives_equal_quotas() -> None:
    """The authors' CIFAR-10 with 36 % wrong labels: max(1 - 1.2 x 0.36, 0.8 x 0.64) = 0.568 of 4500."""
    eta, prior = torch.full((10,), 0.36, dtype=torch.float64), torch.full((10,), 0.1, dtype=torch.float64)
    assert quotas(torch.full((10,), 4500), eta, prior, 0.2, 0.5).tolist() == [2556] * 10


def test_the_two_bounds_on_the_share_change_places_at_half_noise() -> None:
    """By hand: at eta 0.25 it is 1 - 1.2 x 0.25 = 0.7, at eta 0.75 it is 0.8 x 0.25 = 0.2."""
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)
    eta = torch.tensor([0.25, 0.75], dtype=torch.float64)
    assert quotas(torch.tensor([10, 10]), eta, prior, 0.2, 1.0).tolist() == [7, 2]


def test_a_class_without_samples_has_no_quota_and_does_not_stop_the_others() -> None:
    n, eta = torch.tensor([100, 0, 50]), torch.zeros(3, dtype=torch.float64)
    prior = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    found = quotas(n, eta, prior, 0.2, 1.0)
    assert found.tolist() == [100, 0, 50]


def test_every_class_that_is_there_keeps_a_sample() -> None:
    prior = torch.tensor([0.5, 0.5], dtype=torch.float64)
    found = quotas(torch.tensor([1, 1000]), torch.tensor([0.5, 0.0], dtype=torch.float64), prior, 0.2, 0.0)
    assert found[0] == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_losses_of_each_class_are_kept(seed: int) -> None:
    losses, quota = torch.rand(N, generator=rng(seed)), torch.tensor([3, 0, 7, 100])
    expected = []
    for c in range(C):
        own = [i for i in range(N) if LABELS[i] == c]
        expected += sorted(own, key=losses.tolist().__getitem__)[: int(quota[c])]
    assert smallest(losses, LABELS, quota).tolist() == sorted(expected)


# In each class a fifth of the labels are contradicted by networks that are sure, whatever they are about; of class 0
# half of those, of which they are not sure, and of class 1 all.
CONTRADICTED = torch.cat([torch.arange(60) % 5 == 0, torch.arange(60) % 5 == 0, torch.arange(20) % 2 == 0])
CONTRADICTED = torch.cat([CONTRADICTED, torch.ones(20, dtype=torch.bool)])
TWO = torch.tensor([0] * 60 + [1] * 60 + [0] * 20 + [1] * 20)
SURE = torch.tensor([0.9, 0.99, 0.999]).repeat(40).tolist() + [0.5001] * 40


def judged(rows: Tensor | None, looks: int = 4) -> Judged:
    """Evidence of the rows above, in every look the same."""
    predicted = torch.where(CONTRADICTED, 1 - TWO, TWO).expand(looks, -1)
    sure = torch.tensor(SURE).expand(looks, -1)
    given = torch.where(CONTRADICTED, 1 - sure, sure)
    evidence = Evidence(TWO, predicted, sure, given, num_classes=2, splits=5, rows=rows)
    return Judged(evidence, decide(evidence, looks), train_set(TWO, 2))


def test_rates_and_shares_of_classes_are_read_off_held_out_rows() -> None:
    """By hand: a fifth of the labels are wrong, 0.2 x 160 = 32 of 54 that are contradicted, of class 0 (12 + 10) and of
    class 1 (12 + 20) of 80. Predicted are 80 - 22 + 32 = 90 and 80 - 32 + 22 = 70."""
    eta, prior = estimated(judged(torch.arange(160)), train_set(TWO, 2))
    close(eta[1] / eta[0], torch.tensor(32 / 22))
    close(eta, torch.tensor([22 / 80, 32 / 80]) * 32 / 54, atol=0.01)
    close(prior, torch.tensor([91 / 162, 71 / 162]))


@pytest.mark.parametrize("rows", [torch.arange(1000, 1160), None])
def test_an_estimate_needs_only_the_rows_that_were_held_out(rows: Tensor | None) -> None:
    """Of a larger training set some rows, or those of a validation set."""
    expected = estimated(judged(torch.arange(160)), train_set(TWO, 2))
    for ours, theirs in zip(estimated(judged(rows), train_set(torch.arange(2000) % 2, 2)), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_where_nothing_could_be_held_out_no_label_counts_as_wrong() -> None:
    """By hand: the shares are those of the given labels, each class with one more."""
    nothing = Judged(None, Decision.too_few(), DATA)
    eta, prior = estimated(nothing, train_set(torch.tensor([0, 0, 1, 0]), 3))
    assert eta.tolist() == [0, 0, 0]
    close(prior, torch.tensor([4 / 7, 2 / 7, 1 / 7]))


def stages(losses: Tensor) -> Stages:
    return Stages(lambda number, _: outcome(random_targets(N, C, seed=number), losses=losses))


@pytest.mark.parametrize("held", [0, 9])
def test_the_second_training_has_the_samples_with_the_smallest_mean_loss(held: int) -> None:
    losses = torch.rand(5, N, generator=rng(1))
    losses[:, :held] = torch.nan
    rows = torch.arange(held, N) if held else None
    data = TrainSet(DATA.inputs, DATA.labels, rows)
    train, method = stages(losses), RSL(noise_rate=0.4)
    method.fit(data, train)
    first, second = train.asked
    assert isinstance(first.method, CE)
    assert second.method is method
    assert second.model is None
    left = list(range(held, N))
    n = [sum(int(LABELS[i]) == c for i in left) for c in range(C)]
    prior = [(count + 1) / (len(left) + C) for count in n]
    quota = literal_quotas(n, [0.4] * C, prior, 0.2, 1)
    mean, expected = losses.mean(dim=0).tolist(), []
    for c in range(C):
        expected += sorted((i for i in left if LABELS[i] == c), key=mean.__getitem__)[: int(quota[c] + 1e-9)]
    assert second.data.rows is not None
    assert second.data.rows.tolist() == sorted(expected)


def test_what_is_estimated_by_held_out_rows_decides_how_many_are_kept() -> None:
    """The trainings that judge come first, the losses are of one on all rows, and its quotas are the published ones."""
    data, losses = many(), torch.rand(5, 240, generator=rng(1))
    labels = data.labels.hard
    train = Stages(lambda number, _: outcome(random_targets(240, C, seed=number), losses=losses), wrong=0.3)
    RSL().fit(data, train)
    *splits, first, second = train.asked
    assert [type(asked.method) for asked in (*splits, first)] == [CE] * 6
    assert all(asked.looks is not None and asked.aside for asked in splits)
    assert (first.data, first.looks, first.callbacks, first.aside) == (data, None, (), "")
    # Known answer: the rate is 0.3 of all; what is contradicted in a class is its part of that.
    off = contradicted(torch.arange(240), 0.3)
    n = torch.bincount(labels, minlength=C)
    share = torch.bincount(labels[off], minlength=C) / n
    eta = share * 0.3 / off.double().mean()
    p = torch.bincount(torch.where(off, (labels + 1) % C, labels), minlength=C) + 1
    expected = literal_quotas(n.tolist(), eta.tolist(), (p / p.sum()).tolist(), 0.2, 1)
    assert second.data.rows is not None
    assert torch.bincount(labels[second.data.rows]).tolist() == pytest.approx(expected, abs=2)  # 0.3 is met within 0.01


def test_clean_labels_are_all_kept() -> None:
    """Known answer: of the surer rows no label is contradicted, so none counts as wrong."""
    data, losses = many(), torch.rand(5, 240, generator=rng(1))
    off = contradicted(torch.arange(240), 0.0)
    train = Stages(lambda number, _: outcome(random_targets(240, C, seed=number), losses=losses))
    RSL(balance=1.0).fit(data, train)
    rows = train.asked[-1].data.rows
    assert rows is not None
    assert bool(off.any())
    assert len(rows) >= 240 - C  # the estimate of the prior rounds a sample of a class away at most


def test_kept_labels_are_believed_and_the_network_elsewhere() -> None:
    p, rows = random_targets(N, C, seed=5), torch.tensor([2, 3, 50])
    method = RSL()
    method.setup(TrainSet(DATA.inputs, DATA.labels, rows), PLAN)
    expected = p.double()
    expected[rows] = one_hot64(LABELS[rows], C)
    close(method.belief(lambda fn=None: stored(p)).full(), expected)
    close(given_for(DATA, None, stored(p)).full(), one_hot64(LABELS, C))


def test_a_rate_may_be_given_for_each_class() -> None:
    method = create("rsl", {"noise_rate": [0.1, 0.2, 0.3, 0.4]})
    assert isinstance(method, RSL)
    assert method.noise_rate == (0.1, 0.2, 0.3, 0.4)
    assert method.check(DATA, StagePlan(10, 8)) is None
    with pytest.raises(ConfigError, match="noise_rate must be one number, or one for each of the 4 classes"):
        RSL(noise_rate=(0.1, 0.2)).check(DATA, StagePlan(10, 8))


@pytest.mark.parametrize(
    "options",
    [{"noise_rate": 1.0}, {"noise_rate": (0.1, -0.2)}, {"noise_rate": "some"}, {"beta": 1.0}, {"balance": 1.5}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        RSL(**options)
