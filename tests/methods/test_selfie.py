"""SELFIE against its published update, written out sample by sample with lists and dictionaries."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.selfie import SELFIE, refurbished_in
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
from tests.methods.common import PLAN, Asked, Stages, many, outcome

N, B, C = 24, 8, 4
LABELS = random_labels(N, C, seed=0)
DATA = train_set(LABELS, C)


class Literal:
    """The authors' loop over samples: their history, their refurbished labels, their choice within a batch."""

    def __init__(self, rate: float, warm_up: int, history: int, epsilon: float, carried: dict[int, int]) -> None:
        self.rate, self.warm_up, self.history, self.epsilon = rate, warm_up, history, epsilon
        self.votes: dict[int, list[int]] = {i: [] for i in range(N)}
        self.refurbished = dict(carried)
        self.used: list[int] = []

    def certain(self, i: int) -> int | None:
        last = self.votes[i][-self.history :]
        if len(last) < self.history:
            return None
        shares = [last.count(c) / self.history for c in range(C)]
        entropy = -sum(v * math.log(v) for v in shares if v > 0) / math.log(C)
        return max(range(C), key=shares.__getitem__) if entropy <= self.epsilon else None

    def step(self, epoch: int, index: list[int], outputs: Tensor) -> Tensor:
        """The mean loss of the samples that are used."""
        p = softmax64(outputs)
        use = list(range(len(index)))
        if epoch >= self.warm_up:
            for i in index:
                label = self.certain(i)
                if label is not None:
                    self.refurbished[i] = label
            losses = [-math.log(float(p[j, LABELS[i]].detach())) for j, i in enumerate(index)]
            clean = sorted(use, key=losses.__getitem__)[: math.ceil((1 - self.rate) * len(index))]
            use = [j for j, i in enumerate(index) if j in clean or i in self.refurbished]
        labels = [self.refurbished.get(index[j], int(LABELS[index[j]])) for j in use]
        for j, i in enumerate(index):
            self.votes[i].append(int(outputs[j].argmax()))
        self.used.append(len(use))
        return torch.stack([-torch.log(p[j, label]) for j, label in zip(use, labels, strict=True)]).mean()


@pytest.mark.parametrize("carried", [{}, {0: 2, 5: 1, 7: 0}])
@pytest.mark.parametrize(("history", "epsilon"), [(2, 0.05), (3, 0.0), (4, 0.5)])
def test_it_learns_from_clean_and_refurbished_samples(history: int, epsilon: float, carried: dict[int, int]) -> None:
    method = SELFIE(noise_rate=0.5, warm_up=2, history=history, epsilon=epsilon)
    method.carried = torch.tensor([carried.get(i, -1) + 1 for i in range(N)]) if carried else None
    method.setup(DATA, PLAN)
    loop = Literal(0.5, 2, history, epsilon, carried)
    habit = random_logits(N, C, seed=50, scale=2.0)  # so that some predictions agree over the epochs, and some do not
    for epoch in range(8):
        for part, index in enumerate(torch.randperm(N, generator=rng(epoch)).split(B)):
            noise = random_logits(B, C, seed=100 * epoch + part, scale=2.0)
            outputs = (habit[index] + noise).requires_grad_()
            loss = method.loss(outputs, batch_of(DATA, index, epoch + 0.3)).mean()
            expected = loop.step(epoch, index.tolist(), outputs)
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
    found = {i: int(label) - 1 for i, label in enumerate(method.refurbished.full().flatten()) if label > 0}
    assert found == loop.refurbished
    assert len(found) > len(carried)
    assert any(label != int(LABELS[i]) for i, label in found.items())
    assert len(set(loop.used)) > 2  # batches of all samples, of clean ones alone, and in between


def test_a_ring_forgets_the_oldest_prediction() -> None:
    """By hand: 0 0 1 with a history of two is not certain, 0 0 1 1 is, and of class 1."""
    method = SELFIE(noise_rate=0.5, warm_up=0, history=2)
    method.setup(DATA, PLAN)
    index = torch.tensor([3])
    labels = []
    for epoch, guess in enumerate([0, 0, 1, 1, 2, 2]):
        method.loss(8 * one_hot64(torch.tensor([guess]), C).float(), batch_of(DATA, index, epoch))
        labels.append(int(method.refurbished.read(index)) - 1)
    assert labels == [-1, -1, 0, 0, 1, 1]  # what was refurbished stays so until other predictions agree


@pytest.mark.parametrize(
    ("rate", "size", "keep"), [(0.3, 10, 7), (0.7, 10, 3), (0.9, 10, 1), (0.99, 10, 1), (0.0, 10, 10)]
)
def test_as_many_as_the_share_of_right_labels_are_clean(rate: float, size: int, keep: int) -> None:
    method = SELFIE(noise_rate=rate, warm_up=0, history=5)
    method.setup(DATA, PLAN)
    outputs = random_logits(size, C, seed=0).requires_grad_()
    loss = method.loss(outputs, batch_of(DATA, torch.arange(size), 1))
    used = gradient(loss, outputs).abs().sum(dim=1) > 0
    assert int(used.sum()) == keep
    p = softmax64(outputs)
    close(loss.mean(), entropy64(one_hot64(LABELS[:size], C), p)[used].mean())


def test_a_batch_of_one_is_used() -> None:
    method = SELFIE(noise_rate=0.9, warm_up=0)
    method.setup(DATA, PLAN)
    outputs = random_logits(1, C, seed=0)
    close(
        method.loss(outputs, batch_of(DATA, torch.tensor([2]), 4)),
        entropy64(one_hot64(LABELS[2:3], C), softmax64(outputs)),
    )


def test_soft_labels_count_until_they_are_refurbished() -> None:
    t = random_targets(N, C, seed=3)
    method, data = SELFIE(noise_rate=0.5, warm_up=1, history=1), train_set(stored(t), C)
    method.setup(data, PLAN)
    index, outputs = torch.arange(N), random_logits(N, C, seed=4)
    close(method.loss(outputs, batch_of(data, index, 0)), entropy64(t, softmax64(outputs)))
    guess = outputs.argmax(dim=1)
    close(method.loss(outputs, batch_of(data, index, 1)), entropy64(one_hot64(guess, C), softmax64(outputs)))


def test_the_history_is_a_share_of_the_epochs() -> None:
    method = SELFIE()
    method.setup(DATA, StagePlan(100, B))
    assert method.votes.columns == 15  # the paper's, for its 100 epochs
    method.setup(DATA, StagePlan(40, B))
    assert method.votes.columns == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype) -> None:
    method = SELFIE(noise_rate=0.5, warm_up=0, history=1)
    method.setup(DATA, PLAN)
    outputs = (1e4 * one_hot64((LABELS + torch.arange(N)) % C, C)).to(dtype).requires_grad_()
    for clock in range(3):
        loss = method.loss(outputs, batch_of(DATA, torch.arange(N), clock))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()


def beliefs(p: Tensor, labels: dict[int, int], data: TrainSet = DATA) -> Store:
    """The belief of a SELFIE that refurbished ``labels`` and whose network predicts ``p``."""
    method = SELFIE()
    method.carried = torch.tensor([labels.get(i, -1) + 1 for i in range(len(data))])
    method.setup(data, PLAN)
    return method.belief(lambda fn=None: stored(p))


def test_refurbished_labels_are_believed_and_the_network_elsewhere() -> None:
    p = random_targets(N, C, seed=6)
    p[3] = one_hot64(torch.tensor(1), C).float()  # sure, but not refurbished
    belief = beliefs(p, {0: 2, 7: 3}).full()
    expected = p.clone()
    expected[0], expected[7] = one_hot64(torch.tensor([2, 3]), C).float()
    close(belief, expected, atol=2e-6)
    close(belief.sum(dim=1), torch.ones(N))


def test_a_belief_says_which_labels_were_refurbished() -> None:
    p = random_targets(N, C, seed=6)
    p[3] = one_hot64(torch.tensor(1), C).float()
    assert refurbished_in(beliefs(p, {0: 2, 7: 3})).tolist() == [3, *[0] * 6, 4, *[0] * (N - 8)]


def test_restarts_begin_with_the_refurbished_labels_and_forget_less() -> None:
    """By hand: 180 of 240 refurbished leave a rate of 0.25; 200 leave 1/6; and 20 leave the rate as it is."""
    counts, data = {1: 180, 2: 200, 3: 20}, many()

    def answer(number: int, asked: Asked) -> Any:
        labels = {i: i % C for i in range(counts.get(number - 4, 0))}  # five trainings estimate the rate
        return outcome(
            random_targets(240, C, seed=0), target=beliefs(random_targets(240, C, seed=1), labels, data).full()
        )

    train = Stages(answer, wrong=0.4, epochs=40)
    method = SELFIE(warm_up=3, history=2, epsilon=0.1, restarts=3)
    method.fit(data, train)
    runs = [asked.method for asked in train.asked[5:]]
    assert len(runs) == 4
    for number, run in enumerate(runs):
        assert isinstance(run, SELFIE)
        assert (run.warm_up, run.history, run.epsilon) == (3, 2, 0.1)
        assert run.noise_rate == pytest.approx([0.4, 0.25, 1 / 6, 1 / 6][number], abs=1e-6 if number else 0.01)
        kept = [] if run.carried is None else [int(label) for label in run.carried if label > 0]
        assert kept == [i % C + 1 for i in range(counts.get(number, 0))]


def test_a_given_rate_is_not_estimated() -> None:
    train = Stages(lambda *_: outcome(random_targets(N, C, seed=0)))
    SELFIE(noise_rate=0.3, restarts=0).fit(DATA, train)
    assert len(train.asked) == 1


@pytest.mark.parametrize(
    "options", [{"noise_rate": 1.0}, {"epsilon": -0.1}, {"history": 0.0}, {"warm_up": -1.0}, {"restarts": -1}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SELFIE(**options)
