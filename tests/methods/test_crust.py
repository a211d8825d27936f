"""CRUST against the paper's selection, written out sample by sample with autograd and plain greedy search."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.data import ArrayInputs
from selc.errors import ConfigError
from selc.memory import Store
from selc.methods import crust
from selc.methods.crust import CRUST, coreset, head_of, lazy_greedy
from selc.types import Labels, StagePlan, Sweep, TrainSet
from tests import toy
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    one_hot64,
    random_labels,
    random_logits,
    rng,
    softmax64,
    train_set,
)

N, C = 30, 3
LABELS = random_labels(N, C, seed=0)


def inputs_set(width: int = 6, rows: Tensor | None = None) -> TrainSet:
    return TrainSet(ArrayInputs(random_logits(N, width, seed=8)), Labels(LABELS, C), rows)


def network(width: int) -> Callable[[int], nn.Module]:
    """Features and a head, apart."""
    return lambda outputs: nn.Sequential(
        OrderedDict(features=nn.Sequential(nn.Linear(6, width), nn.Tanh()), head=nn.Linear(width, outputs))
    )


def ready(method: CRUST, data: TrainSet, width: int = 8, epochs: int = 10) -> nn.Module:
    torch.manual_seed(0)
    model = method.build(network(width), C)
    method.setup(data, StagePlan(epochs, 16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)  # predictions that differ
    return model


def sweeping(model: nn.Module, data: TrainSet) -> Sweep:
    assert isinstance(data.inputs, ArrayInputs)
    x = data.inputs.x

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is None  # the plain pass is shared with whoever else needs it
        store = Store(N, C)
        store.write(torch.arange(N), model(x).softmax(dim=1))
        return store

    return sweep


# Selection


def plain_greedy(similarity: list[list[float]], count: int) -> list[int]:
    """In each step every point is tried."""
    points = range(len(similarity))
    chosen: list[int] = []
    for _ in range(count):

        def value(point: int) -> float:
            return sum(max(similarity[j][i] for j in [*chosen, point]) for i in points)

        chosen.append(max((point for point in points if point not in chosen), key=value))
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_lazy_greedy_takes_in_each_step_a_point_that_no_other_beats(seed: int) -> None:
    """Two points that are each other's nearest may gain the same, so that either will do."""
    points = random_logits(20, 3, seed=seed).double()
    distance = torch.cdist(points, points)
    similarity = distance.max() - distance
    chosen = lazy_greedy(similarity.numpy().astype(np.float32), 12)
    assert len(set(chosen)) == 12
    for step, point in enumerate(chosen):
        values = [similarity[[*chosen[:step], other]].amax(dim=0).sum() for other in range(20)]
        assert float(values[point]) == pytest.approx(float(max(values)), rel=1e-6)


def two_clusters() -> Tensor:
    """40 points and, far from them, 20."""
    return 0.1 * random_logits(60, 2, seed=1) + torch.tensor([[0.0, 0.0]] * 40 + [[9.0, 0.0]] * 20)


def test_greedy_stands_for_a_smaller_cluster_too_and_medoid_does_not() -> None:
    greedy, _ = coreset(two_clusters(), 0.5, True, 0.0)
    medoid, _ = coreset(two_clusters(), 0.5, False, 0.0)
    assert 5 < int((greedy >= 40).sum()) < 20
    assert int((medoid >= 40).sum()) == 0


def test_medoid_takes_the_points_nearest_to_all_others() -> None:
    points = random_logits(20, 3, seed=2)
    sums = torch.cdist(points.double(), points.double()).sum(dim=1).tolist()
    chosen, _ = coreset(points, 0.4, False, 0.0)
    assert chosen.tolist() == sorted(range(20), key=sums.__getitem__)[:8]


@pytest.mark.parametrize("radius", [0.0, 1.5])
def test_weights_are_sizes_of_clusters_or_numbers_within_a_radius(radius: float) -> None:
    points = random_logits(25, 3, seed=3)
    chosen, weight = coreset(points, 0.3, True, radius)
    distance = torch.cdist(points.double(), points.double())
    picked = chosen.tolist()
    if radius:
        expected = [sum(float(distance[j, i]) < radius for i in range(25)) for j in picked]
    else:
        nearest = [min(picked, key=lambda j: float(distance[i, j])) for i in range(25)]
        expected = [nearest.count(j) for j in picked]
        assert sum(expected) == 25
    assert weight.tolist() == expected


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_equal_gradients_and_single_samples_are_no_trouble(count: int, greedy: bool) -> None:
    chosen, weight = coreset(torch.zeros(count, 3), 0.5, greedy, 0.0)
    assert len(set(chosen.tolist())) == max(1, count // 2)
    assert bool((weight >= 1).all())
    assert float(weight.sum()) == count


def literal_weights(model: nn.Module, data: TrainSet, method: CRUST, rows: list[int]) -> Tensor:
    """Gradients of the loss with respect to the features by autograd, one sample at a time, then plain greedy."""
    assert isinstance(data.inputs, ArrayInputs)
    x, predicted = data.inputs.x, model(data.inputs.x).argmax(dim=1)
    slopes = []
    for row in range(N):
        features = model.features(x[[row]]).detach().requires_grad_()  # type: ignore[operator]
        slopes.append(gradient(F.cross_entropy(model.head(features), LABELS[[row]]), features)[0])  # type: ignore[operator]
    distance = torch.cdist(torch.stack(slopes).double(), torch.stack(slopes).double())
    group = predicted if method.groups == "prediction" else LABELS
    weights = torch.zeros(N)
    for c in range(C):
        members = [row for row in rows if int(group[row]) == c]
        if not members:
            continue
        d = distance[members][:, members]
        count = max(1, int(method.share * len(members)))
        similarity = (d.max() - d).tolist()
        if method.selection == "greedy":
            chosen = plain_greedy(similarity, count)
        else:
            chosen = sorted(range(len(members)), key=d.sum(dim=1).tolist().__getitem__)[:count]
        for j in chosen:
            if method.radius:
                weights[members[j]] = float((d[j] < method.radius).sum())
            else:
                nearest = [min(chosen, key=lambda k: float(d[i, k])) for i in range(len(members))]
                weights[members[j]] = nearest.count(j)
    return weights


@pytest.mark.parametrize("width", [8, 2])  # more and fewer features than classes
@pytest.mark.parametrize(
    "options",
    [
        {"share": 0.25},
        {"selection": "medoid"},
        {"selection": "medoid", "radius": 0.7},
        {"share": 0.25, "groups": "prediction"},
        {"share": 0.2, "radius": 0.5},
        {"share": 1.0},
    ],
)
def test_what_is_chosen_follows_the_paper(options: dict[str, Any], width: int) -> None:
    method, data = CRUST(start=2, **options), inputs_set()
    model = ready(method, data, width)
    assert method.select().tolist() == list(range(N))
    method.end_epoch(0, no_sweep)  # too early
    method.end_epoch(1, sweeping(model, data))
    expected = literal_weights(model, data, method, list(range(N)))
    assert torch.equal(method.weight.full().squeeze(1), expected)
    assert method.select().tolist() == expected.nonzero().flatten().tolist()


def test_rows_that_are_held_out_are_not_chosen() -> None:
    rows = torch.arange(0, N, 2)
    method, data = CRUST(start=1, share=0.25), inputs_set(rows=rows)
    model = ready(method, data)
    assert method.select().tolist() == rows.tolist()
    method.end_epoch(0, sweeping(model, data))
    expected = literal_weights(model, data, method, rows.tolist())
    assert torch.equal(method.weight.full().squeeze(1), expected)
    assert toy.fit(CRUST(start=1), val_fraction=0.2).history[-1]["val"]["top1"] >= 0


def test_a_class_too_large_to_compare_all_is_cut_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crust, "LARGEST", 4)
    method, data = CRUST(start=1), inputs_set()
    method.end_epoch(0, sweeping(ready(method, data), data))
    weights = method.weight.full().squeeze(1)
    for c in range(C):
        mine = weights[c == LABELS]
        parts = -(-len(mine) // 4)
        assert float(mine.sum()) == len(mine)  # each sample has one that stands for it
        assert len(mine) // 2 - parts <= int((mine > 0).sum()) <= len(mine) // 2


def test_every_class_keeps_somebody() -> None:
    labels = torch.tensor([0, 1, 1, 1] + [2] * (N - 4))
    data = replace(inputs_set(), labels=Labels(labels, C))
    method = CRUST(start=1, share=0.1)
    method.end_epoch(0, sweeping(ready(method, data), data))
    assert sorted(labels[method.select()].tolist()) == [0, 1, 2, 2]


# Loss and mixing


def test_loss_is_the_mean_weighted_by_how_many_a_sample_stands_for() -> None:
    method, data = CRUST(start=1), inputs_set()
    method.end_epoch(0, sweeping(ready(method, data), data))
    index = method.select()[:7]
    outputs = random_logits(7, C, seed=4).requires_grad_()
    loss = method.loss(outputs, batch_of(data, index, 3)).mean()
    w = method.weight.read(index).squeeze(1).double()
    losses = -torch.log(softmax64(outputs)).gather(1, LABELS[index, None]).squeeze(1)
    expected = (w * losses).sum() / w.sum()
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))
    assert len(set(w.tolist())) > 1


class Seen(nn.Module):
    """Keeps the inputs that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(random_logits(N, C, seed=9))

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return x @ self.weight


def unit_set() -> TrainSet:
    """The inputs are unit vectors, so a mixed one shows by itself who was mixed with whom."""
    return TrainSet(ArrayInputs(torch.eye(N)), Labels(LABELS, C), torch.arange(2, N))


@pytest.mark.parametrize("seed", range(4))
def test_an_input_is_mixed_with_one_of_its_given_class_by_one_weight(seed: int) -> None:
    method, data, model = CRUST(start=1, mix=1.0), unit_set(), Seen()
    ready(method, data)
    index = 2 + torch.randperm(N - 2, generator=rng(seed))[:10]
    batch = replace(batch_of(data, index, 5, x=torch.eye(N)[index]), seed=seed)
    step = method.step(model, batch)
    assert step.outputs is None  # the loss of a mixed input is not one of the sample
    others = model.x.clone()
    share = float(others[0, index[0]])
    assert 0 < share < 1
    others[torch.arange(10), index] -= share
    mate = others.argmax(dim=1)
    close(others, (1 - share) * torch.eye(N)[mate])
    assert torch.equal(LABELS[mate], LABELS[index])
    assert not bool((mate == index).any())
    assert bool((mate >= 2).all())  # rows that are held out are no mates
    losses = F.cross_entropy(model(model.x), LABELS[index], reduction="none")
    close(step.loss, losses)


def test_the_weight_of_the_input_itself_is_drawn_from_beta() -> None:
    """Beta(1, b) has mean 1 / (1 + b) and variance b / ((1 + b)^2 (2 + b)); bounds of 5 standard errors."""
    b, count = 0.1, 400
    method, data, model = CRUST(start=1, mix=b), unit_set(), Seen()
    ready(method, data)
    index = torch.tensor([3, 7])
    batch = batch_of(data, index, 5, x=torch.zeros(2, N))  # what is left is the mate's weight
    shares = []
    for seed in range(count):
        method.step(model, replace(batch, seed=seed))
        shares.append(1 - float(model.x[0].sum()))
    deviation = math.sqrt(b / ((1 + b) ** 2 * (2 + b)))
    assert abs(sum(shares) / count - 1 / (1 + b)) < 5 * deviation / math.sqrt(count)


def test_mates_are_drawn_from_the_whole_class() -> None:
    method, data = CRUST(), unit_set()
    ready(method, data)
    index = torch.tensor([3, 7])
    for place, row in enumerate(index.tolist()):
        others = [i for i in range(2, N) if LABELS[i] == LABELS[row] and i != row]
        turns = [(k + 0.5) / len(others) for k in range(len(others))]
        assert sorted(int(method.mates(index, turn)[place]) for turn in turns) == others


def test_a_sample_alone_in_its_class_is_its_own_mate() -> None:
    method = CRUST()
    ready(method, train_set(torch.tensor([0, 1, 1, 2]), C))
    assert method.mates(torch.tensor([0, 1, 2]), 0.99).tolist() == [0, 2, 1]


@pytest.mark.parametrize(("mix", "clock"), [(0.1, 0.9), (0.0, 5.0)])
def test_before_the_start_and_without_mix_inputs_stay_as_they_are(mix: float, clock: float) -> None:
    method, data, model = CRUST(start=1, mix=mix), unit_set(), Seen()
    ready(method, data)
    index = torch.tensor([3, 7])
    step = method.step(model, batch_of(data, index, clock, x=torch.eye(N)[index]))
    assert torch.equal(model.x, torch.eye(N)[index])
    assert step.outputs is not None
    close(step.loss, F.cross_entropy(step.outputs, LABELS[index], reduction="none"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_gradient_and_choice_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype) -> None:
    method, data = CRUST(start=1, mix=0.0), inputs_set()
    ready(method, data)
    for shift in (0, 1):
        outputs = (1e4 * one_hot64((LABELS + shift) % C, C)).to(dtype).requires_grad_()
        loss = method.loss(outputs, batch_of(data, torch.arange(N), 3))
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
        store = Store(N, C)
        store.write(torch.arange(N), method.probs(outputs.detach()))
        method.end_epoch(1, lambda fn=None, store=store: store)
        assert method.weight.full().isfinite().all()
        assert float(method.weight.full().sum()) == N


def test_a_batch_may_hold_one_sample_even_one_that_was_not_chosen() -> None:
    method, data = CRUST(start=1), inputs_set()
    method.end_epoch(0, sweeping(ready(method, data), data))
    chosen, outputs = method.select(), random_logits(1, C, seed=0)
    left_out = next(row for row in range(N) if row not in chosen.tolist())
    expected = F.cross_entropy(outputs, LABELS[chosen[:1]], reduction="none")
    close(method.loss(outputs, batch_of(data, chosen[:1], 3)), expected)
    assert method.loss(outputs, batch_of(data, torch.tensor([left_out]), 3)).tolist() == [0.0]


def test_the_public_code_chooses_right_labels_in_a_real_training() -> None:
    method = CRUST(start=0.1, selection="medoid", radius=2.0)
    toy.fit(method, epochs=20)
    chosen = method.select()
    assert len(chosen) == int((torch.bincount(toy.train_set().labels.hard) // 2).sum())
    assert bool((chosen >= 9).all())  # the first nine labels are wrong


# The head


def test_the_head_is_found_by_its_name_or_as_the_last_linear_layer() -> None:
    named = network(5)(C)
    assert head_of(named, C) is named.head
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, C), nn.Identity())
    assert head_of(plain, C) is plain[2]


@pytest.mark.parametrize(
    "model", [nn.Identity(), nn.Linear(4, C + 1), nn.Sequential(nn.Linear(4, 7), nn.Conv1d(7, C, 1))]
)
def test_a_network_without_a_linear_head_is_refused_when_it_is_built(model: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"needs a network that ends in a linear layer with 3 outputs"):
        CRUST().build(lambda outputs: model, C)


def test_the_head_belongs_to_the_network_alone() -> None:
    method = CRUST()
    ready(method, inputs_set())
    assert list(method.parameters()) == []
    assert list(method.state_dict()) == ["weight.table"]


@pytest.mark.parametrize(
    "options",
    [
        {"share": 0.0},
        {"share": 1.5},
        {"radius": -1.0},
        {"radius": math.nan},
        {"start": -0.1},
        {"mix": -0.1},
        {"selection": "lazy"},
        {"groups": "class"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        CRUST(**options)


def test_soft_labels_are_grouped_by_their_largest_class() -> None:
    store = Store(N, C)
    store.write(torch.arange(N), 0.7 * one_hot64(LABELS, C).float() + 0.1)
    hard, soft = CRUST(start=1, selection="medoid"), CRUST(start=1, selection="medoid")
    for method, labels in ((hard, LABELS), (soft, store)):
        data = train_set(labels, C)
        torch.manual_seed(0)
        method.build(network(4), C)
        method.setup(data, StagePlan(10, 16))
        probs = Store(N, C)
        probs.write(torch.arange(N), softmax64(random_logits(N, C, seed=2)))
        method.end_epoch(0, lambda fn=None, probs=probs: probs)
    # A label that is mixed evenly moves all gradients of a class by the same: the distances stay.
    assert torch.equal(hard.weight.full(), soft.weight.full())
