"""Every method against its published formula, written out here in float64, over several consecutive updates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods import ELR, GCE, PLC, SAT, SELC, CoTeaching, Method, SELCPlus, create
from selc.types import Batch, Outcome, TrainSet
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    no_sweep,
    one_hot64,
    random_logits,
    random_targets,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import GIVEN, LABELS, B, C, N, NoTrain, ready


def soft_labels() -> Store:
    store = Store(N, C)
    store.write(torch.arange(N), random_targets(N, C, seed=3))
    return store


def updates(epochs: int, rows: int = N) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(epoch, index, outputs) of a shuffled training over the first ``rows`` rows."""
    for epoch in range(epochs):
        for part, index in enumerate(torch.split(torch.randperm(rows, generator=rng(epoch)), B)):
            yield epoch, index, random_logits(len(index), C, seed=100 * epoch + part).requires_grad_()


# Generalised cross entropy


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_gce_is_one_minus_p_to_the_q_over_q(q: float) -> None:
    method = GCE(q=q)
    data = ready(method, epochs=200)
    for _, index, outputs in updates(2):
        loss = method.loss(outputs, batch_of(data, index))
        p = softmax64(outputs).gather(1, LABELS[index, None]).squeeze(1)
        expected = (1 - p**q) / q
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))


def test_gce_with_soft_targets_is_the_expectation_over_the_target() -> None:
    method = GCE(q=0.5)
    data = ready(method, train_set(soft_labels(), C), epochs=200)
    index, outputs = torch.arange(N), random_logits(N, C, seed=0)
    p = softmax64(outputs)
    expected = sum(random_targets(N, C, seed=3)[:, c].double() * (1 - p[:, c] ** 0.5) / 0.5 for c in range(C))
    assert isinstance(expected, Tensor)
    close(method.loss(outputs, batch_of(data, index)), expected)


def test_gce_lies_between_cross_entropy_and_mean_absolute_error() -> None:
    data, index, outputs = train_set(LABELS, C), torch.arange(N), random_logits(N, C, seed=0)
    batch = batch_of(data, index)
    close(GCE(q=1e-4).loss(outputs, batch), F.cross_entropy(outputs, LABELS, reduction="none"), atol=5e-3)
    close(GCE(q=1.0).loss(outputs, batch), 0.5 * (softmax64(outputs) - GIVEN).abs().sum(dim=1))


@pytest.mark.parametrize("q", [0.0, -0.5, 1.1, math.nan])
def test_gce_refuses_a_q_out_of_range(q: float) -> None:
    with pytest.raises(ConfigError, match=r"q must be in \(0, 1\]"):
        GCE(q=q)


# Early-learning regularisation


@pytest.mark.parametrize(("beta", "lambda_"), [(0.7, 3.0), (0.9, 7.0), (0.0, 1.0)])
def test_elr_is_cross_entropy_plus_the_log_of_one_minus_agreement(beta: float, lambda_: float) -> None:
    method = ELR(beta=beta, lambda_=lambda_)
    data = ready(method, epochs=200)
    t = torch.zeros(N, C, dtype=torch.float64)
    for epoch, index, outputs in updates(4):
        loss = method.loss(outputs, batch_of(data, index, epoch))
        p = softmax64(outputs)
        q = p.clamp(1e-4, 1 - 1e-4)
        t[index] = beta * t[index] + (1 - beta) * (q / q.sum(dim=1, keepdim=True)).detach()
        expected = entropy64(GIVEN[index], p) + lambda_ * torch.log(1 - (t[index] * q).sum(dim=1))
        close(loss, expected, atol=1e-5)
        close(gradient(loss, outputs), gradient(expected, outputs), atol=1e-5)
    close(method.belief(no_sweep).full(), t / t.sum(dim=1, keepdim=True))
    assert method.belief(no_sweep) is method.belief(no_sweep)  # no copy of the table


def test_elr_believes_the_given_label_of_a_row_that_it_never_saw() -> None:
    method = ELR()
    data = ready(method, epochs=200)
    index = torch.tensor([1, 3])
    method.loss(random_logits(2, C, seed=0), batch_of(data, index))
    unseen = torch.tensor([i for i in range(N) if i not in (1, 3)])
    assert torch.equal(method.belief(no_sweep).read(unseen).double(), GIVEN[unseen])


def test_elr_stays_finite_when_it_agrees_with_itself_completely() -> None:
    """After many certain predictions <t, q> reaches its largest value; log(1 - <t, q>) is then near log(1e-4)."""
    method = ELR(beta=0.5, lambda_=3.0)
    data = ready(method, epochs=200)
    index = torch.arange(N)
    outputs = (1e4 * GIVEN).float().requires_grad_()
    for _ in range(50):
        loss = method.loss(outputs, batch_of(data, index))
    q = torch.tensor([1 - 1e-4] + [1e-4] * (C - 1), dtype=torch.float64)
    close(loss, (3.0 * torch.log(1 - (q * q / q.sum()).sum())).expand(N), atol=2e-3)
    assert gradient(loss, outputs).isfinite().all()


@pytest.mark.parametrize("options", [{"beta": 1.0}, {"beta": -0.1}, {"lambda_": -1.0}, {"lambda_": math.nan}])
def test_elr_refuses_options_out_of_range(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        ELR(**options)


def test_elr_names_the_option_that_is_out_of_range() -> None:
    with pytest.raises(ConfigError, match="beta"):
        ELR(beta=1.0)


# Self-adaptive training and SELC


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_sat_is_the_weighted_mean_over_confident_targets(alpha: float) -> None:
    method = SAT(start=1, alpha=alpha)
    data = ready(method, epochs=200)
    t = GIVEN.clone()
    for epoch, index, outputs in updates(5):
        loss = method.loss(outputs, batch_of(data, index, epoch)).mean()
        p = softmax64(outputs)
        if epoch < 1:
            expected = entropy64(GIVEN[index], p).mean()
        else:
            t[index] = alpha * t[index] + (1 - alpha) * p.detach()
            w = t[index].max(dim=1).values
            expected = (w * entropy64(t[index], p)).sum() / w.sum()
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))
    close(method.belief(no_sweep).full(), t)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("option", ["I", "II"])
def test_selc_is_cross_entropy_then_eq_3_or_4_and_eq_6(option: Any, weighted: bool) -> None:
    method = SELC(start=1, alpha=0.8, option=option, weighted=weighted)
    data = ready(method, epochs=200)
    t = GIVEN.clone() if option == "II" else torch.zeros(N, C, dtype=torch.float64)
    for epoch, index, outputs in updates(5):
        loss = method.loss(outputs, batch_of(data, index, epoch)).mean()
        p = softmax64(outputs)
        if epoch < 1:
            expected = entropy64(GIVEN[index], p).mean()
        else:
            t[index] = 0.8 * t[index] + 0.2 * p.detach()
            w = t[index].max(dim=1).values if weighted else torch.ones(len(index)).double()
            expected = (w * entropy64(t[index], p)).sum() / w.sum()
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))
    close(method.belief(no_sweep).full(), t if option == "II" else t / (1 - 0.8**4))


@pytest.mark.parametrize("method", [SELC(start=0, alpha=0.8), SAT(start=0, alpha=0.8)])
def test_soft_labels_are_where_the_targets_start(method: SELC | SAT) -> None:
    data = ready(method, train_set(soft_labels(), C), epochs=200)
    index, outputs = torch.arange(N), random_logits(N, C, seed=0)
    method.loss(outputs, batch_of(data, index))
    close(method.belief(no_sweep).full(), 0.8 * random_targets(N, C, seed=3).double() + 0.2 * softmax64(outputs))


@pytest.mark.parametrize("kind", [SELC, SAT])
def test_a_start_with_a_fraction_is_compared_with_the_clock(kind: type[SELC] | type[SAT]) -> None:
    method = kind(start=1.5)
    data = ready(method, epochs=200)
    for clock, index in ((1.25, torch.arange(6)), (1.5, torch.arange(6, N))):
        method.loss(random_logits(6, C, seed=0), batch_of(data, index, clock))
    changed = (method.belief(no_sweep).full().double() != GIVEN).any(dim=1)
    assert changed.tolist() == [False] * 6 + [True] * 6


def test_selc_option_i_believes_the_given_label_of_a_row_without_an_update() -> None:
    method = SELC(start=0, option="I")
    data = ready(method, epochs=200)
    method.loss(random_logits(6, C, seed=0), batch_of(data, torch.arange(6)))
    assert torch.equal(method.belief(no_sweep).full()[6:].double(), GIVEN[6:])


# SELC+


class Seen(nn.Module):
    """A linear model that keeps the inputs it was given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = random_logits(width, C, seed=9)

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return x @ self.weight


def mixed(batch: Batch, concentration: float = 0.9) -> tuple[Tensor, Tensor]:
    """The weights with which the samples of a batch were mixed, [B, B], and their losses.

    The inputs are unit vectors, so a mixed input shows by itself who was mixed with whom.
    """
    model = Seen(len(batch.index))
    step = SELCPlus(concentration=concentration).step(model, replace(batch, x=torch.eye(len(batch.index))))
    assert step.outputs is None
    return model.x, step.loss


def sharded(count: int, shards: int, seed: int = 0) -> Batch:
    index = torch.randperm(N, generator=rng(seed))[:count]
    data = train_set(soft_labels(), C)
    return replace(batch_of(data, index, shard=index % shards), seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_selc_plus_mixes_each_sample_with_one_of_its_shard_by_one_weight(seed: int) -> None:
    batch = sharded(10, 2, seed)
    weights, losses = mixed(batch)
    share = float(weights[0, 0])
    assert 0 < share < 1
    others = weights - share * torch.eye(10)
    partner = others.argmax(dim=1)
    close(others, (1 - share) * torch.eye(10)[partner])
    assert sorted(partner.tolist()) == list(range(10))
    assert not (partner == torch.arange(10)).any()
    assert torch.equal(batch.shard[partner], batch.shard)
    p = softmax64(weights @ random_logits(10, C, seed=9))
    t = batch.target
    close(losses, share * entropy64(t, p) + (1 - share) * entropy64(t[partner], p))


def test_selc_plus_draws_its_weight_from_beta() -> None:
    """Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)); bounds of 5 standard errors."""
    a, count = 0.9, 500
    batch = sharded(2, 1)
    shares = torch.stack([mixed(replace(batch, seed=seed), a)[0][0, 0] for seed in range(count)]).double()
    variance = 1 / (4 * (2 * a + 1))
    assert abs(float(shares.mean()) - 0.5) < 5 * math.sqrt(variance / count)
    # The distribution of (share - 1/2)^2 lies in [0, 1/4], so its standard deviation is below 1/8.
    assert abs(float(((shares - 0.5) ** 2).mean()) - variance) < 5 * 0.125 / math.sqrt(count)


def test_selc_plus_partners_of_a_shard_do_not_depend_on_the_other_shards() -> None:
    batch = sharded(N, 3)
    weights, _ = mixed(batch)
    for k in range(3):
        mine = (batch.shard == k).nonzero().flatten()
        alone = Batch(batch.x[mine], batch.target[mine], batch.index[mine], batch.clock, batch.seed, batch.shard[mine])
        assert torch.equal(mixed(alone)[0], weights[mine][:, mine])


def test_selc_plus_leaves_a_sample_alone_that_has_no_partner() -> None:
    batch = sharded(1, 1)
    weights, losses = mixed(batch)
    close(weights, torch.ones(1, 1))
    close(losses, entropy64(batch.target, softmax64(random_logits(1, C, seed=9))))


def test_selc_plus_without_concentration_is_soft_cross_entropy() -> None:
    batch = sharded(10, 2)
    weights, losses = mixed(batch, 0.0)
    assert torch.equal(weights, torch.eye(10))
    close(losses, entropy64(batch.target, softmax64(random_logits(10, C, seed=9))))


class TwoStages(NoTrain):
    """A training that is not one: it notes what it was asked to do, and hands out made-up targets."""

    def __init__(self) -> None:
        self.asked: list[tuple[Method, TrainSet]] = []
        self.targets = [Store(N, C), Store(N, C)]
        for number, store in enumerate(self.targets):
            store.write(torch.arange(N), random_targets(N, C, seed=20 + number))

    def __call__(self, method: Method, data: TrainSet, *, model: nn.Module | None = None, **changes: Any) -> Outcome:
        self.asked.append((method, data))
        target = self.targets[len(self.asked) - 1]
        nothing = torch.zeros(0, N)
        return Outcome(nn.Identity(), target, target, nothing, nothing, nothing, nothing)


@pytest.mark.parametrize("labels", ["hard", "soft"])
def test_selc_plus_trains_a_fresh_network_on_what_selc_corrected(labels: Any) -> None:
    method, train = SELCPlus(start=3, alpha=0.7, labels=labels), TwoStages()
    outcome = method.fit(train_set(LABELS, C), train)
    (first, given), (second, corrected) = train.asked
    assert isinstance(first, SELC)
    assert (first.start, first.alpha, second) == (3, 0.7, method)
    rows = torch.arange(N)
    assert torch.equal(given.labels.read(rows).double(), GIVEN)
    t = random_targets(N, C, seed=20)
    expected = one_hot64(t.argmax(dim=1), C).float() if labels == "hard" else t
    assert torch.equal(corrected.labels.read(rows), expected)
    assert outcome.target is train.targets[0]
    assert outcome.probs is train.targets[1]


# Co-teaching


def literal_co_teaching(outputs: Tensor, labels: Tensor, keep: int) -> Tensor:
    losses = [
        [float(-torch.log(softmax64(z.detach()))[y]) for z, y in zip(net, labels, strict=True)] for net in outputs
    ]
    chosen = [sorted(range(len(labels)), key=own.__getitem__)[:keep] for own in losses]
    return torch.stack(
        [
            -torch.log(softmax64(net[others])).gather(1, labels[others, None]).mean()
            for net, others in zip(outputs, reversed(chosen), strict=True)
        ]
    ).sum()


@pytest.mark.parametrize(("clock", "keep"), [(0, 8), (0.9, 8), (1, 7), (5, 6), (5.7, 6), (9.99, 4), (10, 4), (150, 4)])
def test_co_teaching_networks_learn_from_each_others_small_losses(clock: float, keep: int) -> None:
    """By hand: of 8 samples int(8 (1 - 0.5 min(epoch / 10, 1))) are kept."""
    method = CoTeaching(forget_rate=0.5, ramp=10)
    data = ready(method, epochs=200)
    for seed in range(4):
        index = torch.randperm(N, generator=rng(seed))[:8]
        outputs = random_logits(2, 8, C, seed=seed).requires_grad_()
        loss = method.loss(outputs, batch_of(data, index, clock))
        expected = literal_co_teaching(outputs, LABELS[index], keep)
        assert loss.shape == ()
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))


def test_co_teaching_gives_a_network_no_gradient_on_what_only_it_finds_easy() -> None:
    method = CoTeaching(forget_rate=0.5, ramp=1)
    data = ready(method, epochs=200)
    index = torch.arange(4)
    right, wrong = 4 * GIVEN[:4].float(), -4 * GIVEN[:4].float()
    first = torch.cat([right[:2], wrong[2:]])  # finds 0 and 1 easy
    second = torch.cat([wrong[:2], right[2:]])  # finds 2 and 3 easy
    outputs = torch.stack([first, second]).requires_grad_()
    found = gradient(method.loss(outputs, batch_of(data, index, 5)), outputs).abs().sum(dim=2) > 0
    assert found.tolist() == [[False, False, True, True], [True, True, False, False]]


@pytest.mark.parametrize("clock", [0, 3, 50])
def test_co_teaching_keeps_a_batch_of_one(clock: float) -> None:
    method = CoTeaching(forget_rate=0.9)
    data = ready(method, epochs=200)
    outputs = random_logits(2, 1, C, seed=0)
    expected = 2 * F.cross_entropy(outputs.squeeze(1), LABELS[[4, 4]])
    close(method.loss(outputs, batch_of(data, torch.tensor([4]), clock)), expected)


def test_co_teaching_takes_the_same_step_as_two_networks_trained_apart() -> None:
    torch.manual_seed(0)
    method = CoTeaching(forget_rate=0.25, ramp=1)
    data = ready(method, epochs=200)
    model = method.build(lambda outputs: nn.Linear(3, outputs), C)
    nets = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert not torch.equal(nets[0].weight, nets[1].weight)
    x, index = random_logits(N, 3, seed=1), torch.arange(N)
    loss = method.step(model, batch_of(data, index, 4, x=x)).loss
    small = [F.cross_entropy(net(x), LABELS, reduction="none").argsort()[:9] for net in nets]
    for net, others in zip(nets, reversed(small), strict=True):
        alone = F.cross_entropy(net(x)[others], LABELS[others])
        (together,) = torch.autograd.grad(loss, net.weight, retain_graph=True)
        close(together, gradient(alone, net.weight))


def test_co_teaching_predicts_the_mean_of_the_two_networks() -> None:
    outputs = random_logits(2, 6, C, seed=0)
    close(CoTeaching().probs(outputs), (softmax64(outputs[0]) + softmax64(outputs[1])) / 2)


@pytest.mark.parametrize("options", [{"forget_rate": 1.0}, {"forget_rate": -0.1}, {"ramp": 0}])
def test_co_teaching_refuses_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        CoTeaching(**options)


# Progressive label correction


def literal_plc(
    labels: list[int], window: list[Tensor], theta: float, growth: float, limit: float, quiet: float
) -> tuple[list[int], float]:
    """One epoch end of the authors' loop over the samples; ``window`` holds the last predictions of all rows."""
    labels, flips = list(labels), 0
    f = torch.stack(window).mean(dim=0)
    for i in range(len(labels)):
        if f[i].max() > 0 and f[i, labels[i]] / f[i].max() < theta:
            labels[i] = int(f[i].argmax())
            flips += 1
    return labels, min(theta + growth, limit) if flips < quiet * len(labels) else theta


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("quiet", [0.001, 0.2])
def test_plc_replaces_the_labels_that_the_mean_prediction_rejects(quiet: float, window: int) -> None:
    method = PLC(warm_up=2, theta=0.1, growth=0.15, limit=0.6, quiet=quiet, window=window)
    data = ready(method, epochs=200)
    labels, theta = LABELS.tolist(), 0.1
    history: list[Tensor] = []
    thetas, flipped = [theta], 0
    for epoch in range(9):
        p = torch.zeros(N, C, dtype=torch.float64)
        for _, index, outputs in updates(1):
            outputs = (outputs + random_logits(len(index), C, seed=1000 + epoch, scale=0.4)).detach().requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + 0.5))
            expected = F.cross_entropy(outputs, torch.tensor(labels)[index], reduction="none")
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
            p[index] = softmax64(outputs.detach())
        history.append(p)
        method.end_epoch(epoch, no_sweep)
        if epoch >= 2:
            before = labels
            labels, theta = literal_plc(labels, history[-window:], theta, 0.15, 0.6, quiet)
            flipped += sum(a != b for a, b in zip(before, labels, strict=True))
        thetas.append(theta)
        assert method.belief(no_sweep).argmax().tolist() == labels
        assert float(method.theta_now) == pytest.approx(theta)
    assert flipped > 0
    assert len(set(thetas)) > 2


@pytest.mark.parametrize(("epochs", "begins"), [(180, 8), (60, 3)])
def test_plc_begins_at_the_published_share_of_the_epochs(epochs: int, begins: int) -> None:
    """8 of 180 epochs; by hand 60 * 8 / 180 = 2.67."""
    method = PLC(window=1)
    data = ready(method, epochs=epochs)
    flipped = (8 * GIVEN.roll(1, dims=1)).float()
    for epoch in range(begins + 1):
        assert torch.equal(method.belief(no_sweep).full().double(), GIVEN)
        method.loss(flipped, batch_of(data, torch.arange(N), epoch))
        method.end_epoch(epoch, no_sweep)
    assert torch.equal(method.belief(no_sweep).full().double(), GIVEN.roll(1, dims=1))
    assert method.belief(no_sweep) is method.belief(no_sweep)  # no copy of the table


@pytest.mark.parametrize(("epochs", "start"), [(200, 60), (60, 18)])
def test_sat_starts_at_the_published_share_of_the_epochs(epochs: int, start: int) -> None:
    method = SAT()
    data = ready(method, epochs=epochs)
    index, outputs = torch.arange(N), random_logits(N, C, seed=0)
    method.loss(outputs, batch_of(data, index, start - 0.01))
    assert torch.equal(method.belief(no_sweep).full().double(), GIVEN)
    method.loss(outputs, batch_of(data, index, start))
    assert not torch.equal(method.belief(no_sweep).full().double(), GIVEN)


def test_plc_theta_grows_after_quiet_epochs_up_to_its_limit() -> None:
    method = PLC(warm_up=2)
    data = ready(method, epochs=200)
    sure = (8 * GIVEN).float()
    thetas = []
    for epoch in range(11):
        method.loss(sure, batch_of(data, torch.arange(N), epoch))
        method.end_epoch(epoch, no_sweep)
        thetas.append(float(method.theta_now))
    assert thetas == pytest.approx([0.3, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9])
    assert torch.equal(method.belief(no_sweep).full().double(), GIVEN)


@pytest.mark.parametrize(("flips", "theta"), [(2, 0.4), (3, 0.3), (4, 0.3)])
def test_plc_theta_grows_only_if_fewer_labels_changed_than_quiet_allows(flips: int, theta: float) -> None:
    """By hand: a quarter of 12 labels is 3."""
    method = PLC(warm_up=0, window=1, quiet=0.25)
    data = ready(method, epochs=200)
    guess = torch.cat([(LABELS[:flips] + 1) % C, LABELS[flips:]])
    method.loss((8 * one_hot64(guess, C)).float(), batch_of(data, torch.arange(N)))
    method.end_epoch(0, no_sweep)
    assert method.belief(no_sweep).argmax().tolist() == guess.tolist()
    assert float(method.theta_now) == pytest.approx(theta)


@pytest.mark.parametrize(("flips", "theta"), [(1, 0.4), (2, 0.3)])
def test_plc_quiet_is_a_share_of_the_rows_that_are_trained_on(flips: int, theta: float) -> None:
    """By hand: a quarter of 8 rows is 2; the other four of the twelve can never change."""
    method = PLC(warm_up=0, window=1, quiet=0.25)
    data = ready(method, replace(train_set(LABELS, C), rows=torch.arange(8)), epochs=200)
    guess = torch.cat([(LABELS[:flips] + 1) % C, LABELS[flips:8]])
    method.loss((8 * one_hot64(guess, C)).float(), batch_of(data, torch.arange(8)))
    method.end_epoch(0, no_sweep)
    assert float(method.theta_now) == pytest.approx(theta)


def test_plc_theta_stays_after_an_epoch_that_changed_labels() -> None:
    method = PLC(warm_up=0, window=1)
    data = ready(method, epochs=200)
    other = (LABELS + 1) % C
    method.loss((8 * one_hot64(other, C)).float(), batch_of(data, torch.arange(N)))
    method.end_epoch(0, no_sweep)
    assert method.belief(no_sweep).argmax().tolist() == other.tolist()
    assert float(method.theta_now) == pytest.approx(0.3)


def test_plc_keeps_the_label_of_a_row_that_it_never_saw() -> None:
    method = PLC(warm_up=0, window=1)
    data = ready(method, epochs=200)
    method.loss((8 * one_hot64((LABELS[:6] + 1) % C, C)).float(), batch_of(data, torch.arange(6)))
    method.end_epoch(0, no_sweep)
    assert method.belief(no_sweep).argmax()[6:].tolist() == LABELS[6:].tolist()


def test_plc_saves_theta_labels_and_history() -> None:
    method, other = PLC(warm_up=0, window=2), PLC(warm_up=0, window=2)
    data = ready(method, epochs=200)
    ready(other, epochs=200)
    for epoch, index, outputs in updates(3):
        method.loss(outputs, batch_of(data, index, epoch))
    method.end_epoch(0, no_sweep)
    other.load_state_dict(method.state_dict())
    for plc in (method, other):
        plc.loss(random_logits(N, C, seed=70), batch_of(data, torch.arange(N), 3))
        plc.end_epoch(3, no_sweep)
    assert torch.equal(method.belief(no_sweep).full(), other.belief(no_sweep).full())
    assert torch.equal(method.theta_now, other.theta_now)


@pytest.mark.parametrize("options", [{"theta": 0.0}, {"theta": 0.95}, {"limit": 1.0}, {"window": 0}, {"warm_up": -1}])
def test_plc_refuses_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        PLC(**options)


# Numerical edges


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1e4, 200.0])  # e^-200 is 0 in float32, so p is exactly 0 or 1 in both
@pytest.mark.parametrize("name", ["ce", "gce", "elr", "sat", "selc", "selc+", "co-teaching", "plc"])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(
    name: str, size: float, dtype: torch.dtype, soft: bool
) -> None:
    method = create(name)
    data = ready(method, train_set(soft_labels() if soft else LABELS, C), epochs=200)
    guess = torch.cat([LABELS[:6], (LABELS[6:] + 1) % C])  # the first half right, the other wrong
    for clock in (0.0, 50.0, 51.0):
        outputs = (size * one_hot64(guess, C)).to(dtype)
        two = isinstance(method, CoTeaching)
        outputs = (torch.stack([outputs, outputs.flip(1)]) if two else outputs).requires_grad_()
        assert set(softmax64(outputs.detach()).float().flatten().tolist()) == {0.0, 1.0}
        loss = method.loss(outputs, batch_of(data, torch.arange(N), clock))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
        p = method.probs(outputs.detach())
        assert p.isfinite().all()
        close(p.sum(dim=1), torch.ones(N))
        method.end_epoch(int(clock), no_sweep)
