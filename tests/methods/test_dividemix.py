"""DivideMix against its published division, targets and losses, written out in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn

from selc.data import ArrayInputs
from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.dividemix import DivideMix
from selc.methods.parts import Pair
from selc.types import Batch, Labels, StagePlan, Sweep, TrainSet
from tests import toy
from tests.helpers import close, entropy64, no_sweep, one_hot64, random_labels, rng, softmax64, stored
from tests.methods.common import GIVEN, LABELS, C, N, ready

WIDTH = 3
X = torch.randn(N, WIDTH, generator=rng(7))


def shifted(x: Tensor, draws: Tensor) -> Tensor:
    """An augmentation: every input moves by as much as was drawn for it."""
    return x + draws


def data(augment: bool = True) -> TrainSet:
    return TrainSet(ArrayInputs(X, shifted if augment else None), Labels(LABELS, C))


def nets() -> Pair:
    torch.manual_seed(0)
    return Pair(nn.Linear(WIDTH, C), nn.Linear(WIDTH, C)).train()


def part(of: TrainSet, clock: float, seed: int = 5) -> Batch:
    index = torch.arange(N)
    x = next(iter(of.inputs.stream([index], seed=99)))
    return Batch(x, of.labels.read(index), index, clock, seed=seed, shard=torch.zeros_like(index))


def seeing(outputs: Tensor) -> Sweep:
    """A pass in which the networks have these outputs, [2, N, C]."""

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is not None
        return stored(fn(outputs, GIVEN.float()))

    return sweep


@pytest.mark.parametrize("lambda_u", [0.0, 25.0])
@pytest.mark.parametrize(("clock", "risen"), [(10.0, 0.0), (18.0, 0.5), (40.0, 1.0)])
def test_a_step_is_the_published_one(clock: float, risen: float, lambda_u: float) -> None:
    method, given = DivideMix(lambda_u=lambda_u), data()
    ready(method, given, epochs=300)
    right = torch.rand(N, 2, generator=rng(3))
    method.right.write(torch.arange(N), right)
    model, batch = nets(), part(given, clock)
    step = method.step(model, batch)
    second = next(iter(given.inputs.stream([batch.index], seed=batch.seed)))
    views = torch.cat([batch.x, second]).double()
    parameters = [{k: v.double() for k, v in net.named_parameters()} for net in (model.first, model.second)]

    def said(k: int, x: Tensor) -> Tensor:
        return softmax64(x @ parameters[k]["weight"].T + parameters[k]["bias"])

    guesses = [said(k, views).detach() for k in range(2)]
    total = torch.zeros((), dtype=torch.float64)
    for k in range(2):
        w = right[:, 1 - k].double()
        targets = []
        for i in range(N):
            own = (guesses[k][i] + guesses[k][N + i]) / 2
            both = (own + (guesses[1 - k][i] + guesses[1 - k][N + i]) / 2) / 2
            q = w[i] * GIVEN[i] + (1 - w[i]) * own if w[i] > 0.5 else both
            targets.append(q**2 / (q**2).sum())  # T = 1/2
        aims = torch.stack([*targets, *targets])
        draws = np.random.default_rng([batch.seed, k])
        share = draws.beta(4, 4)
        share, partner = max(share, 1 - share), torch.from_numpy(draws.permutation(2 * N))
        aims = share * aims + (1 - share) * aims[partner]
        p = said(k, share * views + (1 - share) * views[partner])
        labelled = torch.cat([w, w]) > 0.5
        assert 0 < int(labelled.sum()) < 2 * N
        supervised = entropy64(aims, p)[labelled].mean()
        guessed = ((p - aims) ** 2)[~labelled].mean()
        uniform = sum((1 / C) * torch.log((1 / C) / p.mean(dim=0)[c]) for c in range(C))
        total = total + supervised + lambda_u * risen * guessed + uniform
    close(step.loss, total, atol=1e-5)
    ours = torch.autograd.grad(step.loss, list(model.parameters()), retain_graph=True)
    for own, literal in zip(ours, torch.autograd.grad(total, list(model.parameters())), strict=True):
        close(own, literal, atol=1e-4)
    assert step.outputs is not None
    assert not step.outputs.requires_grad
    close(step.outputs, torch.stack([model.first(batch.x), model.second(batch.x)]))


@pytest.mark.parametrize("penalised", [False, True])
def test_the_warm_up_is_the_cross_entropy_of_both_networks(penalised: bool) -> None:
    method, given = DivideMix(penalised=penalised), data()
    ready(method, given, epochs=300)
    model, batch = nets(), part(given, 9.9)
    p = [softmax64(net(batch.x)) for net in (model.first, model.second)]
    expected = sum(entropy64(GIVEN, q) - penalised * entropy64(q, q) for q in p)
    assert isinstance(expected, Tensor)
    close(method.step(model, batch).loss, expected)


def test_samples_are_divided_by_the_mixture_that_scikit_learn_fits_to_their_losses() -> None:
    """A mixture that stands still is the same whatever found it; their ten steps end near it."""
    count = 4000
    labels = random_labels(count, C, seed=1)
    method = DivideMix(warm_up=1)
    ready(method, TrainSet(ArrayInputs(torch.zeros(count, 1)), Labels(labels, C)), epochs=10)
    wrong = torch.rand(count, generator=rng(2)) < 0.3
    logits = torch.randn(2, count, C, generator=rng(3)) + 3 * one_hot64((labels + wrong) % C, C).float()
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat(2), reduction="none").view(2, -1)

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is not None
        return stored(fn(logits, one_hot64(labels, C).float()))

    method.end_epoch(0, sweep)
    for k in range(2):
        x = losses[k].double().numpy()
        x = ((x - x.min()) / (x.max() - x.min()))[:, None]
        theirs = GaussianMixture(2, max_iter=1000, tol=1e-9, reg_covar=5e-4, random_state=0).fit(x)
        expected = torch.from_numpy(theirs.predict_proba(x)[:, theirs.means_.argmin()])
        ours = method.right.full()[:, k]
        assert float((ours - expected).abs().max()) < 0.02
        assert float(((ours > 0.5) == (expected > 0.5)).double().mean()) > 0.995


def test_each_network_divides_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where network 1 finds a label wrong and network 2 does not, network 2 takes it for unlabelled."""
    method, given = DivideMix(), data()
    ready(method, given, epochs=300)
    right = torch.ones(N, 2)
    right[0, 0] = 0.0
    method.right.write(torch.arange(N), right)
    seen: list[Tensor] = []
    plain = method.targets

    def noting(own: Tensor, both: Tensor, label: Tensor, w: Tensor) -> Tensor:
        seen.append(w)
        return plain(own, both, label, w)

    monkeypatch.setattr(method, "targets", noting)
    method.step(nets(), part(given, 50.0))
    assert [float(w[0]) for w in seen] == [1.0, 0.0]


def test_it_believes_the_label_by_how_likely_it_is_right_and_the_networks_else() -> None:
    method = DivideMix(warm_up=1)
    ready(method, epochs=10)
    close(method.belief(no_sweep).full(), GIVEN)
    outputs = 2 * torch.randn(2, N, C, generator=rng(4))
    method.end_epoch(0, seeing(outputs))
    w = method.right.full().double().mean(dim=1, keepdim=True)
    close(method.belief(no_sweep).full(), w * GIVEN + (1 - w) * softmax64(outputs.mean(dim=0)), atol=1e-5)
    assert 0 < float(w.min()) + float(w.max()) < 2


def test_a_verified_label_is_right_and_rows_that_are_left_out_do_not_take_part_in_the_fit() -> None:
    verified = torch.zeros(N, dtype=torch.bool)
    verified[3] = True
    method, rows = DivideMix(warm_up=1), torch.arange(N - 2)
    given = data()
    ready(method, replace(given, verified=verified, rows=rows), epochs=10)
    outputs = 2 * torch.randn(2, N, C, generator=rng(4))
    method.end_epoch(0, seeing(outputs))
    found = method.right.full()
    assert found[3].tolist() == [1.0, 1.0]
    other = outputs.clone()
    other[:, N - 2 :] = 100 * one_hot64((LABELS[N - 2 :] + 1) % C, C).float()  # huge losses, of rows left out
    method.end_epoch(0, seeing(other))
    close(method.right.full()[: N - 2], found[: N - 2])


def test_inputs_that_are_not_augmented_get_noise_and_those_that_are_get_two_augmentations() -> None:
    method, plain = DivideMix(jitter=0.5), data(augment=False)
    ready(method, plain, epochs=10)
    batch = part(plain, 5.0)
    first, second = method._views(batch)
    assert not torch.equal(first, second)
    many = replace(batch, x=torch.randn(N, WIDTH, generator=rng(0)) * torch.tensor([1.0, 10.0, 0.0]))
    method.data = TrainSet(ArrayInputs(many.x), Labels(LABELS, C))
    apart = torch.stack([method._views(replace(many, seed=seed))[0] - many.x for seed in range(400)]).flatten(0, 1)
    close(apart.std(dim=0), 0.5 * many.x.std(dim=0, correction=0), rtol=0.05)
    augmented = data()
    method.data = augmented
    one, two = method._views(part(augmented, 5.0))
    assert torch.equal(one, part(augmented, 5.0).x)
    assert torch.equal(two, next(iter(augmented.inputs.stream([torch.arange(N)], seed=5))))


@pytest.mark.parametrize("w", [0.0, 1.0])
def test_a_batch_of_one_kind_alone_has_a_finite_loss_and_teaches_both_networks(w: float) -> None:
    method, given, model = DivideMix(), data(), nets()
    ready(method, given, epochs=300)
    method.right.write(torch.arange(N), torch.full((N, 2), w))
    step = method.step(model, part(given, 100.0))
    assert bool(step.loss.isfinite())
    for gradient in torch.autograd.grad(step.loss, tuple(model.parameters())):
        assert bool(gradient.isfinite().all())
        assert bool(gradient.any())


def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1() -> None:
    method = DivideMix()
    ready(method, epochs=300)
    for shift in (0, 1):
        outputs = (1e4 * one_hot64((LABELS + shift) % C, C)).float().requires_grad_()
        loss = method.mixed_loss(outputs, GIVEN.float(), torch.arange(N) % 2 == 0, 100.0)
        assert loss.isfinite()
        (gradient,) = torch.autograd.grad(loss, outputs)
        assert gradient.isfinite().all()


def test_guesses_do_not_move_batch_norm() -> None:
    method, given = DivideMix(), data()
    ready(method, given, epochs=300)
    torch.manual_seed(0)
    norms = [nn.BatchNorm1d(WIDTH, momentum=1.0) for _ in range(2)]
    model = Pair(*(nn.Sequential(norm, nn.Linear(WIDTH, C)) for norm in norms)).train()
    method.step(model, part(given, 100.0))
    assert [int(norm.num_batches_tracked) for norm in norms if norm.num_batches_tracked is not None] == [1, 1]
    assert model.training


def test_the_published_times_scale_with_the_run() -> None:
    method = DivideMix()
    ready(method, epochs=300)
    assert method._first() == 10
    assert [method._lambda(clock) for clock in (5, 10, 18, 26, 200)] == pytest.approx([0, 0, 12.5, 25, 25])
    ready(method, epochs=60)
    assert method._first() == 2
    assert method._lambda(2 + 1.6) == pytest.approx(12.5)


def test_wrong_labels_are_found_in_a_real_training() -> None:
    outcome = toy.fit(DivideMix(warm_up=4), epochs=15)
    assert (outcome.believed_labels[:9] == toy.blobs()[1][:9]).float().mean() > 0.8
    assert (outcome.believed_labels[9:] == toy.blobs()[1][9:]).float().mean() > 0.9


def test_a_warm_up_without_an_end_is_warned_of() -> None:
    assert "10 epochs" in (DivideMix(warm_up=10).check(data(), StagePlan(8, 4)) or "")
    assert DivideMix().check(data(), StagePlan(8, 4)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"warm_up": -1.0},
        {"ramp": -1.0},
        {"lambda_u": math.inf},
        {"jitter": -0.1},
        {"threshold": 1.0},
        {"temperature": 0.0},
        {"concentration": 0.0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        DivideMix(**options)
