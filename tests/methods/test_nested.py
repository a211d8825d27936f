"""Nested and Nested Co-teaching against the published updates, written out in float64."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import selc.methods.nested_co_teaching as stage_two
from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.nested import Nested, NestedNet, choose_width, drawn_width, width_weights, widths
from selc.methods.nested_co_teaching import NestedCoTeaching
from selc.methods.parts import Pair
from selc.types import Batch, StagePlan
from tests.helpers import (
    batch_of,
    close,
    entropy64,
    gradient,
    one_hot64,
    random_labels,
    random_logits,
    random_targets,
    rng,
    softmax64,
    stored,
    train_set,
)
from tests.methods.common import PLAN, Asked, Stages, many, outcome
from tests.toy import fit
from tests.toy import train_set as toy_set

N, D, C = 30, 8, 4
LABELS = random_labels(N, C, seed=0)
DATA = train_set(LABELS, C)
X = random_logits(N, 5, seed=1)


def net(outputs: int = C, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    features = nn.Sequential(nn.Linear(5, D), nn.BatchNorm1d(D), nn.ReLU())
    return nn.Sequential(OrderedDict(features=features, head=nn.Linear(D, outputs)))


def nested_net(seed: int = 0) -> NestedNet:
    """A network whose batch norm has seen something, in eval mode."""
    model = NestedNet(net(seed=seed))
    model(X)
    return model.eval()


def batch(index: Tensor, clock: float = 0.0) -> Batch:
    return batch_of(DATA, index, clock, x=X[index])


def sweep_of(model: nn.Module, labels: Store | Tensor = LABELS) -> Callable[..., Store]:
    """A pass over the training set, as the training would make it."""

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is not None
        model.eval()
        with torch.no_grad():
            return stored(fn(model(X), train_set(labels, C).labels.read(torch.arange(N))))

    return sweep


# Nested


@pytest.mark.parametrize("sigma", [2.0, 5.0])
def test_the_width_of_a_batch_follows_a_half_gaussian(sigma: float) -> None:
    """P(k) is proportional to exp(-(k / sigma)^2); bounds of 5 standard errors."""
    count = 3000
    head, one = nn.Linear(D, C), batch(torch.arange(2))
    drawn = [
        int(drawn_width(head, sigma, Batch(one.x, one.target, one.index, 0.0, s, one.shard))) for s in range(count)
    ]
    weight = [math.exp(-((k / sigma) ** 2)) for k in range(1, D + 1)]
    for k in range(1, D + 1):
        p = weight[k - 1] / sum(weight)
        assert abs(drawn.count(k) / count - p) < 5 * math.sqrt(p * (1 - p) / count) + 1e-12


def test_the_smallest_sigma_gives_finite_weights_for_thousands_of_channels() -> None:
    weights = width_weights(4096, 1.0)
    assert weights.isfinite().all()
    assert float(weights[0]) == 1


def test_sigma_is_the_number_of_classes_but_at_least_10() -> None:
    few, many, one = nn.Linear(512, 10), nn.Linear(512, 100), batch(torch.arange(2))
    for head, sigma in ((few, 10.0), (many, 100.0)):
        for seed in range(20):
            b = Batch(one.x, one.target, one.index, 0.0, seed, one.shard)
            assert int(drawn_width(head, "auto", b)) == int(drawn_width(head, sigma, b))


@pytest.mark.parametrize("k", [1, 3, D])
def test_the_head_sees_the_first_channels_and_no_bias(k: int) -> None:
    model = nested_net()
    phi = model.features(X[:6]).double()
    w = model.head.weight.double()
    expected = torch.stack([sum(w[:, j] * row[j] for j in range(k)) for row in phi])
    close(model(X[:6], torch.tensor(k)), expected)


def test_the_loss_is_cross_entropy_of_the_masked_outputs() -> None:
    method, model = Nested(sigma=2.0), nested_net()
    for seed in range(5):
        index = torch.randperm(N, generator=rng(seed))[:7]
        b = Batch(X[index], one_hot64(LABELS[index], C).float(), index, 0.0, seed, torch.zeros_like(index))
        step = method.step(model, b)
        k = int(drawn_width(model.head, 2.0, b))
        phi = model.features(X[index]).double()
        phi[:, k:] = 0
        expected = entropy64(b.target, softmax64(phi @ model.head.weight.double().T))
        close(step.loss, expected)
        close(gradient(step.loss, model.head.weight)[:, k:], torch.zeros(C, D - k))


def test_widths_are_compared_by_the_outputs_that_they_would_give() -> None:
    model = nested_net()
    apart = [model(X, torch.tensor(k)) for k in widths(D)]
    model.all_widths = True
    close(model(X), torch.stack(apart))


@pytest.mark.parametrize("channels", [1, 2, 20, 512, 4096])
def test_every_small_width_is_compared_and_the_full_one(channels: int) -> None:
    found = widths(channels)
    assert found == sorted(set(found))
    assert found[: min(20, channels)] == list(range(1, min(20, channels) + 1))
    assert found[-1] == channels
    assert len(found) < 80
    assert all(b <= 1.1 * a + 1 for a, b in itertools.pairwise(found))


@pytest.mark.parametrize("rows", [torch.arange(N), torch.arange(3, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_k_has_the_best_accuracy_on_the_judges_less_a_little_for_each_channel(rows: Tensor, seed: int) -> None:
    model = nested_net(seed)
    scores = []
    for k in range(1, D + 1):
        right = [int(model(X[i : i + 1], torch.tensor(k)).argmax()) == int(LABELS[i]) for i in rows.tolist()]
        scores.append(sum(right) / len(right) - 1e-5 * k)
    choose_width([model], sweep_of(model), rows)
    assert int(model.width) == 1 + scores.index(max(scores))
    assert not model.all_widths
    close(model(X), model(X, model.width))


def test_two_networks_get_the_k_that_is_best_for_the_mean_of_their_outputs() -> None:
    first, second = nested_net(1), nested_net(2)
    scores = []
    for k in range(1, D + 1):
        mean = (first(X, torch.tensor(k)) + second(X, torch.tensor(k))) / 2
        scores.append(float((mean.argmax(dim=1) == LABELS).double().mean()) - 1e-5 * k)
    choose_width([first, second], sweep_of(Pair(first, second)), torch.arange(N))
    assert int(first.width) == int(second.width) == 1 + scores.index(max(scores))


def test_soft_labels_count_with_the_probability_of_the_prediction() -> None:
    model, t = nested_net(), random_targets(N, C, seed=4)
    scores = [
        sum(float(t[i, int(model(X, torch.tensor(k))[i].argmax())]) for i in range(N)) / N - 1e-5 * k
        for k in range(1, D + 1)
    ]
    choose_width([model], sweep_of(model, stored(t)), torch.arange(N))
    assert int(model.width) == 1 + scores.index(max(scores))


def test_rows_that_are_held_out_are_not_trained_on_and_choose_k() -> None:
    method = Nested(held_out=0.2)
    result = fit(method, epochs=3)
    held = result.predictions[0] < 0
    assert int(held.sum()) == 18  # a fifth of 90
    assert torch.equal(held.nonzero().flatten(), method.judges)
    assert bool((result.predictions < 0).eq(held).all())
    model = result.model.eval()
    assert isinstance(model, NestedNet)
    assert int(model.width) < 16  # the toy needs few of the 16 channels
    x = torch.cat(list(toy_set().inputs.stream([torch.arange(90)], None)))
    model.all_widths = True
    hits = (model(x)[:, held].argmax(dim=2) == toy_set().labels.hard[held]).double().mean(dim=1)
    assert int(model.width) == 1 + int((hits - 1e-5 * torch.arange(1, 17)).argmax())


def test_with_nothing_held_out_every_row_is_trained_on() -> None:
    result = fit(Nested(held_out=0.0), epochs=1)
    assert bool((result.predictions >= 0).all())


def test_the_width_is_saved_with_the_network() -> None:
    model, other = nested_net(), nested_net(1)
    model.width.fill_(3)
    other.load_state_dict(model.state_dict())
    close(other(X), model(X, torch.tensor(3)))
    assert "head.bias" not in model.state_dict()


def test_the_last_layer_of_a_plain_sequence_is_the_head() -> None:
    plain = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, D), nn.ReLU(), nn.Linear(D, C))
    within = nn.Sequential(plain[:4], nn.Sequential(nn.Dropout(0.0), plain[4]))
    for net_ in (plain, within):
        model = NestedNet(net_)
        assert model.head is plain[4]
        close(model(X), F.linear(plain[:4](X), plain[4].weight))


class Own(nn.Module):
    """A network that does not say where its features end."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(5, D), nn.Linear(D, C)


@pytest.mark.parametrize("wrong", [Own(), nn.Linear(5, C), nn.Sequential(nn.Linear(5, C)), nn.Sequential(nn.ReLU())])
def test_a_network_without_features_and_head_is_refused(wrong: nn.Module) -> None:
    with pytest.raises(ConfigError, match="features"):
        Nested().build(lambda outputs: wrong, C)


@pytest.mark.parametrize("options", [{"sigma": 0.5}, {"sigma": "wide"}, {"held_out": 1.0}, {"held_out": -0.1}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    for kind in (Nested, NestedCoTeaching):
        with pytest.raises(ConfigError, match=next(iter(options))):
            kind(**options)


def test_data_that_leave_nothing_to_train_on_are_refused() -> None:
    few = train_set(torch.tensor([0, 1]), 2)
    for method in (Nested(held_out=0.5), NestedCoTeaching(held_out=0.5)):
        with pytest.raises(ConfigError, match="held_out"):
            method.check(few, StagePlan(10, 8))


# Nested Co-teaching


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> int:
    """Every mask of the second stage keeps three channels."""
    monkeypatch.setattr(stage_two, "drawn_width", lambda *_: torch.tensor(3))
    return 3


def pair() -> Pair:
    first, second = nested_net(1), nested_net(2)
    first.width.fill_(5)
    second.width.fill_(2)
    return Pair(first, second)


def literal(model: Pair, index: Tensor, keep: int, k: int) -> Tensor:
    """The loss of a batch of 16: one half judged by the first network, the other by the second, in eval mode."""
    total = torch.zeros((), dtype=torch.float64)
    halves = ((model.first, model.second, index[:8]), (model.second, model.first, index[8:]))
    for judge, learner, half in halves:
        losses = [float(entropy64(one_hot64(LABELS[[i]], C), softmax64(judge(X[[i]]).detach()))) for i in half.tolist()]
        small = half[sorted(range(8), key=losses.__getitem__)[:keep]]
        assert isinstance(learner, NestedNet)
        masked = learner.features(X[small]).double()[:, :k] @ learner.head.weight.double()[:, :k].T
        total = total + entropy64(one_hot64(LABELS[small], C), softmax64(masked)).mean()
    return total


@pytest.mark.parametrize(("forget", "keep"), [(0.2, 6), (0.5, 4), (0.0, 8), (0.99, 1)])
def test_each_half_is_judged_by_one_network_and_learnt_by_the_other(three: int, forget: float, keep: int) -> None:
    model = pair()
    index = torch.randperm(N, generator=rng(0))[:16]
    loss = NestedCoTeaching(forget_rate=forget).step(model.train(), batch(index)).loss
    expected = literal(model.eval(), index, keep, three)
    assert loss.shape == ()
    close(loss, expected)
    weights = [p for name, p in model.named_parameters() if "weight" in name]
    found = torch.autograd.grad(loss, weights)
    for ours, theirs in zip(found, torch.autograd.grad(expected, weights), strict=True):
        close(ours, theirs)
        assert bool(ours.any())


def test_batch_norm_stays_what_it_was() -> None:
    model = pair()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    NestedCoTeaching().step(model.train(), batch(torch.arange(16)))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_what_the_judges_saw_is_recorded() -> None:
    method, model = NestedCoTeaching(), pair()
    step = method.step(model.train(), batch(torch.arange(9)))
    model.eval()
    assert step.outputs is not None
    seen = torch.cat([model.first(X[:5]), model.second(X[5:9])])
    close(method.probs(step.outputs), softmax64(seen))


def test_a_batch_of_one_is_judged_and_learnt() -> None:
    model = pair()
    step = NestedCoTeaching(forget_rate=0.9).step(model.train(), batch(torch.tensor([4])))
    assert step.loss.isfinite()
    step.loss.backward()
    assert step.outputs is not None
    assert step.outputs.shape == (2, 1, C)


def test_predictions_come_from_the_mean_of_the_logits() -> None:
    outputs = random_logits(2, 6, C, seed=0)
    close(NestedCoTeaching().probs(outputs), softmax64(outputs.mean(dim=0)))


def test_two_nested_networks_are_tuned_with_frozen_batch_norm_at_a_lower_rate() -> None:
    """By hand: 0.25 of 40 epochs are 10, with a drop after 5; a tenth of the learning rate 0.5 is 0.05."""
    built: list[nn.Module] = []

    def answer(number: int, asked: Asked) -> Any:
        if asked.model is not None:
            norms = [m for m in asked.model.modules() if isinstance(m, nn.BatchNorm1d)]
            assert len(norms) == 2
            assert not any(p.requires_grad for m in norms for p in m.parameters())
            assert all(
                p.requires_grad for m in asked.model.modules() if isinstance(m, nn.Linear) for p in m.parameters()
            )
        else:
            built.append(asked.method.build(lambda outputs: net(outputs, number), C))
        model = asked.model or built[-1]
        return outcome(random_targets(240, C, seed=number), history=[{"lr": 0.5}], model=model)

    train, data = Stages(answer, wrong=0.3, epochs=40), many()
    method = NestedCoTeaching(tune=0.25, sigma=2.0, held_out=0.0, lr=0.1)
    result = method.fit(data, train)
    *splits, first, second, last = train.asked
    assert len(splits) == 5
    for asked in (first, second):
        assert isinstance(asked.method, Nested)
        assert (asked.method.sigma, asked.method.held_out) == (2.0, 0.0)
    assert isinstance(last.method, NestedCoTeaching)
    assert last.method.forget_rate == pytest.approx(0.3, abs=0.01)
    assert last.changes == {"epochs": 10, "schedule": "step", "lr": 0.05, "milestones": [5], "gamma": 0.1}
    assert isinstance(last.model, Pair)
    assert [last.model.first, last.model.second] == built[5:7]
    assert all(p.requires_grad for p in result.model.parameters())


def test_the_same_rows_are_held_out_in_every_stage() -> None:
    first, second = Nested(held_out=0.2), NestedCoTeaching(held_out=0.2)
    for method in (first, second):
        method.setup(DATA, PLAN)
    assert torch.equal(first.judges, second.judges)
    assert torch.equal(first.select(), second.select())
    assert sorted([*first.judges.tolist(), *first.select().tolist()]) == list(range(N))


@pytest.mark.parametrize("options", [{"forget_rate": 1.0}, {"tune": 0.0}, {"lr": 0.0}])
def test_options_of_the_second_stage_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        NestedCoTeaching(**options)
