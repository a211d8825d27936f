"""Iterative cross validation (INCV) against its published loop, written out with sets, and its final training."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods import CE
from selc.methods.iterative_cv import IterativeCV, rate_of, selected_rate
from selc.types import StagePlan, TrainSet
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
from tests.methods.common import PLAN, Stages, outcome

N, B, C = 60, 12, 4
LABELS = random_labels(N, C, seed=0)
DATA = train_set(LABELS, C)


# The noise rate


@pytest.mark.parametrize("accuracy", [0.999, 0.9, 0.7, 0.5, 0.3, 0.26])
@pytest.mark.parametrize("num_classes", [4, 10, 100])
def test_the_rate_is_the_smallest_at_which_noisy_networks_are_right_so_seldom(
    accuracy: float, num_classes: int
) -> None:
    """The authors count up in steps of 0.001."""
    rate = 0.0
    while (1 - rate) ** 2 + rate**2 / (num_classes - 1) > accuracy:
        rate += 0.001
    assert rate_of(accuracy, num_classes) == pytest.approx(rate, abs=0.0011)


def test_an_accuracy_of_one_means_no_noise_and_one_below_chance_the_most_there_can_be() -> None:
    assert rate_of(1.0, 10) == 0
    assert rate_of(0.1, 10) == pytest.approx(0.9)
    assert rate_of(0.0, 10) == pytest.approx(0.9)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_the_rate_among_selected_samples_follows_from_two_independent_errors(rate: float) -> None:
    """Label and prediction of a sample of class 0 are each wrong with that rate, as any other class alike."""
    p = [1 - rate] + [rate / (C - 1)] * (C - 1)
    agree = {(a, b): p[a] * p[b] for a, b in product(range(C), repeat=2) if a == b}
    wrong = sum(weight for (a, _), weight in agree.items() if a != 0)
    assert selected_rate(rate, C - 1) == pytest.approx(wrong / sum(agree.values()))


def test_a_pair_of_classes_that_are_mistaken_for_each_other_has_one_rival() -> None:
    assert selected_rate(0.2, 1) == pytest.approx(0.04 / (0.04 + 0.64))


# The selection


def judge(number: int) -> Tensor:
    """Probabilities of the network of a stage: right on about half of the labels."""
    p = random_targets(N, C, seed=100 + number)
    helped = torch.rand(N, generator=rng(number)) < 0.4
    return torch.where(helped[:, None], (p + one_hot64(LABELS, C).float()) / 2, p)


def literal(train: Stages, iterations: int, symmetric: bool) -> tuple[set[int], set[int], float]:
    """The published loop, on the halves that were asked for."""
    selected: set[int] = set()
    left, rate, number = set(range(N)), None, 0
    for _ in range(iterations):
        if len(left) < 2:
            break
        trained = []
        for stage in (number, number + 1):
            rows = train.asked[stage].data.rows
            assert rows is not None
            trained.append(set(rows.tolist()) - selected)
            assert selected <= set(rows.tolist())
        first, second = trained
        assert first | second == left
        assert not first & second
        assert abs(len(first) - len(second)) <= 1
        found, gone = set(), set()
        for stage, theirs in ((number, second), (number + 1, first)):
            p = judge(stage)
            right = [i for i in theirs if int(p[i].argmax()) == int(LABELS[i])]
            if rate is None:
                rate = rate_of(len(right) / len(theirs), C)
            ratio = min(2, rate / (1 - rate))
            by_loss = sorted(theirs, key=lambda i: float(p[i, LABELS[i]]))
            found |= set(right)
            gone |= set(by_loss[: int(ratio * len(right))]) if symmetric else set()
        selected |= found
        left -= found | gone
        number += 2
    assert rate is not None
    return selected, left, rate


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("iterations", [1, 2])
def test_samples_whose_label_the_other_half_predicts_are_selected(iterations: int, symmetric: bool) -> None:
    train = Stages(lambda number, _: outcome(judge(number)))
    method = IterativeCV(iterations=iterations, cv_epochs=0.25, ramp=3, symmetric=symmetric)
    train.epochs = 40
    method.fit(DATA, train)
    *cross, last = train.asked
    assert len(cross) == 2 * iterations
    for asked in cross:
        assert isinstance(asked.method, CE)
        assert asked.model is None
        assert asked.changes == {"epochs": 10, "schedule": "cosine"}
    selected, left, rate = literal(train, iterations, symmetric)
    assert 0 < len(selected) < N
    assert isinstance(last.method, IterativeCV)
    assert last.data.rows is not None
    assert last.data.rows.tolist() == sorted(selected)
    assert last.method.candidates is not None
    assert last.method.candidates.tolist() == sorted(left)
    assert last.method.rate == pytest.approx(rate)
    assert (last.method.ramp, last.method.symmetric) == (3, symmetric)


def test_rows_that_are_held_out_take_no_part() -> None:
    train = Stages(lambda number, _: outcome(judge(number)))
    rows = torch.arange(10, N)
    IterativeCV(iterations=2).fit(TrainSet(DATA.inputs, DATA.labels, rows), train)
    for asked in train.asked:
        assert asked.data.rows is not None
        assert int(asked.data.rows.min()) >= 10


def test_it_ends_early_when_every_sample_was_selected() -> None:
    train = Stages(lambda *_: outcome(one_hot64(LABELS, C).float()))
    IterativeCV(iterations=4).fit(DATA, train)
    assert len(train.asked) == 3
    last = train.asked[-1]
    assert last.data.rows is not None
    assert len(last.data.rows) == N
    assert isinstance(last.method, IterativeCV)
    assert last.method.rate == 0
    last.method.setup(last.data, PLAN)
    last.method.end_epoch(100, lambda fn=None: stored(judge(0)))
    chosen = last.method.select()
    assert chosen is None or chosen.tolist() == list(range(N))


def test_everything_is_trained_on_if_nothing_was_selected() -> None:
    train = Stages(lambda *_: outcome(one_hot64((LABELS + 1) % C, C).float()))
    IterativeCV(iterations=2, symmetric=False).fit(DATA, train)
    last = train.asked[-1]
    assert last.data.rows is None
    assert isinstance(last.method, IterativeCV)
    assert last.method.candidates is None


def test_the_same_halves_are_drawn_when_the_training_is_replayed() -> None:
    def rows() -> list[Tensor | None]:
        train = Stages(lambda number, _: outcome(judge(number)))
        IterativeCV(iterations=2).fit(DATA, train)
        return [asked.data.rows for asked in train.asked]

    for ours, theirs in zip(rows(), rows(), strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.equal(ours, theirs)


# The final training


def final(rate: float = 0.5, ramp: float = 4, symmetric: bool = True, epochs: int = 40) -> IterativeCV:
    """A method for its last stage: the even rows are selected, every third odd one is a candidate."""
    method = IterativeCV(ramp=ramp, symmetric=symmetric)
    method.rate, method.candidates = rate, torch.arange(1, N, 6)
    method.setup(TrainSet(DATA.inputs, DATA.labels, torch.arange(0, N, 2)), StagePlan(epochs, B))
    return method


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("clock", "ramped"), [(0.5, 0.0), (2, 0.5), (30, 1.0)])
def test_as_many_small_losses_are_exchanged_as_selected_samples_should_be_right(
    clock: float, ramped: float, symmetric: bool
) -> None:
    """By hand: at rate 1/2, 1/4 of what the halves agree on is wrong among four classes, and 1/2 of a pair."""
    method = final(symmetric=symmetric)
    forget = (0.25 if symmetric else 0.5) * ramped
    for seed in range(3):
        index = torch.randperm(N, generator=rng(seed))[:B]
        outputs = random_logits(2, B, C, seed=seed).requires_grad_()
        losses = torch.stack([entropy64(one_hot64(LABELS[index], C), softmax64(net)) for net in outputs])
        ours = sum(int(i) % 2 == 0 for i in index)
        keep = max(1, round(ours * (1 - forget)))
        small = [row.argsort()[:keep] for row in losses.detach()]
        expected = losses[0, small[1]].mean() + losses[1, small[0]].mean()
        loss = method.loss(outputs, batch_of(DATA, index, clock))
        assert loss.shape == ()
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))


def test_a_batch_without_a_selected_sample_keeps_one() -> None:
    outputs = random_logits(2, 3, C, seed=0).requires_grad_()
    loss = final().loss(outputs, batch_of(DATA, torch.tensor([1, 7, 13]), 20))
    used = gradient(loss, outputs).abs().sum(dim=2) > 0
    assert used.sum(dim=1).tolist() == [1, 1]


def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1() -> None:
    right = 1e4 * one_hot64(LABELS[:B], C)
    outputs = torch.stack([right, right.roll(1, dims=1)]).float().requires_grad_()
    loss = final().loss(outputs, batch_of(DATA, torch.arange(B), 20))
    assert loss.isfinite()
    assert gradient(loss, outputs).isfinite().all()


@pytest.mark.parametrize(("rate", "symmetric", "join"), [(0.3, True, 8), (0.7, True, 16), (0.3, False, 16)])
def test_candidates_join_after_a_fifth_of_the_epochs_or_later_where_there_is_much_noise(
    rate: float, symmetric: bool, join: int
) -> None:
    """By hand: 41 and 81 of the authors' 200 epochs are 8 and 16 of 40."""
    method = final(rate, symmetric=symmetric)
    begun = []
    for epoch in range(20):
        if method.select() is not None:
            begun.append(epoch)
        method.end_epoch(epoch, lambda fn=None: stored(judge(0)))
    assert begun == list(range(join, 20))


@pytest.mark.parametrize(("rate", "first"), [(0.3, 41), (0.7, 81)])
def test_candidates_join_when_the_authors_let_them(rate: float, first: int) -> None:
    """Their epochs count from 0, and samples are only exchanged while ``e <= 40`` (80 with much noise)."""
    method = final(rate, epochs=200)
    for epoch in range(first):
        assert method.select() is None
        method.end_epoch(epoch, lambda fn=None: stored(judge(0)))
    assert method.select() is not None


def test_half_as_many_candidates_as_selected_samples_join_at_most_and_others_in_each_epoch() -> None:
    method = final()
    method.candidates = torch.arange(1, N, 2)
    seen = []
    for epoch in range(10, 14):
        method.end_epoch(epoch, lambda fn=None: stored(judge(0)))
        rows = method.select()
        assert rows is not None
        joined = sorted(set(rows.tolist()) - set(range(0, N, 2)))
        assert set(range(0, N, 2)) <= set(rows.tolist())
        assert len(rows) == len(set(rows.tolist())) == 45
        assert all(i % 2 == 1 for i in joined)
        seen.append(joined)
    assert len({tuple(joined) for joined in seen}) == 4


def test_the_epoch_of_the_choice_is_saved() -> None:
    method, other = final(), final()
    method.end_epoch(11, lambda fn=None: stored(judge(0)))
    other.load_state_dict(method.state_dict())
    ours, theirs = method.select(), other.select()
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours, theirs)


def test_selected_labels_are_believed_and_the_networks_elsewhere() -> None:
    p = judge(0)
    expected = p.double()
    expected[::2] = one_hot64(LABELS[::2], C)
    close(final().belief(lambda fn=None: stored(p)).full(), expected)


def test_it_predicts_the_mean_of_the_two_networks() -> None:
    outputs = random_logits(2, 6, C, seed=0)
    close(IterativeCV().probs(outputs), (softmax64(outputs[0]) + softmax64(outputs[1])) / 2)


def test_data_too_few_to_be_halved_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 4 samples"):
        IterativeCV().check(train_set(torch.tensor([0, 1, 1]), 2), StagePlan(10, 8))


@pytest.mark.parametrize("options", [{"iterations": 0}, {"cv_epochs": 0.0}, {"ramp": 0}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        IterativeCV(**options)
