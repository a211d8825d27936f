"""LRT against the authors' loop over the samples and their matrix of the retroactive loss, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods.lrt import LRT
from selc.types import StagePlan
from tests.helpers import (
    batch_of,
    close,
    gradient,
    no_sweep,
    one_hot64,
    random_logits,
    random_targets,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import LABELS, B, C, N, ready


def literal_flip(f: Tensor, labels: list[int], delta: float) -> list[int]:
    """The test of Algorithm 1 for one sample after another."""
    result = list(labels)
    for i, y in enumerate(labels):
        guess = int(f[i].argmax())
        if guess != y and float(f[i].max() / f[i, y]) > delta:
            result[i] = guess
    return result


def literal_retro(log_p: Tensor, old: int, now: int) -> Tensor:
    """-(A s)^T log p with the C x C matrix A that the authors build from the old label."""
    eps, rho = 1e-4, 0.9
    A = torch.full((C, C), eps, dtype=torch.float64)
    A[old] = rho - eps / (C - 1)
    s = torch.full((C,), 1e-2 / (C - 1), dtype=torch.float64)  # their smoothed current label
    s[now] = 1 - 1e-2
    return -(A @ s) @ log_p


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("start", [1, 3, 6])
def test_losses_flips_and_old_labels_are_the_authors_over_several_epochs(start: int, window: int) -> None:
    epochs, update, interval = 10, 3, 4
    method = LRT(update=update, start=start, interval=interval, delta=1.2, last=3.0, window=window)
    data = ready(method, epochs=epochs)
    labels, old = LABELS.tolist(), LABELS.tolist()
    slots = torch.zeros(window, N, C, dtype=torch.float64)
    flips = 0
    for epoch in range(epochs):
        for part, index in enumerate(torch.split(torch.randperm(N, generator=rng(epoch)), B)):
            outputs = random_logits(len(index), C, seed=100 * epoch + part, scale=1.0).requires_grad_()
            loss = method.loss(outputs, batch_of(data, index, epoch + 0.4))
            log_p = torch.log(softmax64(outputs))
            expected = torch.stack([-log_p[k, labels[i]] for k, i in enumerate(index.tolist())])
            if epoch >= start:
                retro = [literal_retro(log_p[k], old[i], labels[i]) for k, i in enumerate(index.tolist())]
                expected = expected + torch.stack(retro)
            close(loss, expected)
            close(gradient(loss, outputs), gradient(expected, outputs))
            slots[epoch % window, index] = softmax64(outputs.detach())
        method.end_epoch(epoch, no_sweep)
        if epoch in (start - 1, start + interval - 1):
            old = list(labels)
        if epoch >= update:
            delta = 1.2 + (3.0 - 1.2) * (epoch - update + 1) / (epochs - update)
            before, labels = labels, literal_flip(slots.mean(dim=0), labels, delta)
            flips += sum(a != b for a, b in zip(before, labels, strict=True))
        assert method.belief(no_sweep).argmax().tolist() == labels
    assert flips > 0


def test_at_180_epochs_the_schedule_is_the_published_one() -> None:
    method = LRT()
    data = ready(method, epochs=180)
    for epoch in (30, 31, 100, 179):
        assert method.threshold(epoch) == pytest.approx(1.2 + 0.02 * max(epoch - 30 + 1, 0))
    certain = (50 * one_hot64((LABELS + 1) % C, C)).float()
    method.loss(certain, batch_of(data, torch.arange(N), 29))
    method.end_epoch(29, no_sweep)
    assert method.belief(no_sweep).argmax().tolist() == LABELS.tolist()
    method.end_epoch(30, no_sweep)
    assert method.belief(no_sweep).argmax().tolist() == ((LABELS + 1) % C).tolist()
    retro = [float(method.loss(certain, batch_of(data, torch.arange(N), clock)).sum()) for clock in (24.9, 25.0)]
    assert retro[1] > retro[0] + 0.8 * 50 * N  # the given labels, which the network rejects, weigh in from 25 on


@pytest.mark.parametrize(("ratio", "flipped"), [(1.9, False), (2.1, True)])
def test_a_label_is_flipped_when_the_likelihood_ratio_exceeds_delta(ratio: float, flipped: bool) -> None:
    method = LRT(update=0, delta=2.0, last=2.0, window=1)
    data = ready(method, epochs=10)
    outputs = torch.full((N, C), -20.0)
    outputs.scatter_(1, LABELS[:, None], 0.0).scatter_(1, (LABELS[:, None] + 1) % C, math.log(ratio))
    method.loss(outputs, batch_of(data, torch.arange(N)))
    method.end_epoch(0, no_sweep)
    assert method.belief(no_sweep).argmax().tolist() == (((LABELS + 1) % C) if flipped else LABELS).tolist()


def test_without_the_retroactive_term_it_is_cross_entropy_on_the_current_label() -> None:
    method = LRT(retro=0.0, start=0, update=0, window=1)
    data = ready(method, epochs=10)
    method.loss((9 * one_hot64((LABELS + 1) % C, C)).float(), batch_of(data, torch.arange(N)))
    method.end_epoch(0, no_sweep)
    outputs = random_logits(N, C, seed=1)
    expected = -torch.log(softmax64(outputs)).gather(1, (LABELS[:, None] + 1) % C).squeeze(1)
    close(method.loss(outputs, batch_of(data, torch.arange(N), 1)), expected)


def test_soft_labels_stay_soft_until_they_are_flipped() -> None:
    soft = random_targets(N, C, seed=3)
    given = Store(N, C)
    given.write(torch.arange(N), soft)
    method = LRT(retro=0.0, update=0, delta=1.5, last=1.5, window=1)
    data = ready(method, train_set(given, C), epochs=10)
    outputs = random_logits(N, C, seed=4)
    close(method.loss(outputs, batch_of(data, torch.arange(N))), -(soft.double() * softmax64(outputs).log()).sum(dim=1))
    method.end_epoch(0, no_sweep)
    now = torch.tensor(literal_flip(softmax64(outputs), soft.argmax(dim=1).tolist(), 1.5))
    flipped = now != soft.argmax(dim=1)
    assert 0 < int(flipped.sum()) < N
    target = torch.where(flipped[:, None], one_hot64(now, C), soft.double())
    close(method.loss(outputs, batch_of(data, torch.arange(N), 1)), -(target * softmax64(outputs).log()).sum(dim=1))


def test_rows_that_were_never_seen_keep_their_label() -> None:
    method = LRT(update=0, window=2)
    data = ready(method, epochs=10)
    method.loss((9 * one_hot64((LABELS[:6] + 1) % C, C)).float(), batch_of(data, torch.arange(6)))
    method.end_epoch(0, no_sweep)
    assert method.belief(no_sweep).argmax()[6:].tolist() == LABELS[6:].tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, N])
def test_a_label_of_probability_zero_is_flipped_and_everything_stays_finite(rows: int, dtype: torch.dtype) -> None:
    method = LRT(update=0, start=0, window=1)
    data = ready(method, epochs=10)
    outputs = (1e4 * one_hot64((LABELS[:rows] + 1) % C, C)).to(dtype).requires_grad_()
    for epoch in range(2):
        loss = method.loss(outputs, batch_of(data, torch.arange(rows), epoch))
        assert loss.dtype == torch.float32
        assert loss.isfinite().all()
        assert gradient(loss, outputs).isfinite().all()
        method.end_epoch(epoch, no_sweep)
    assert method.belief(no_sweep).argmax()[:rows].tolist() == ((LABELS[:rows] + 1) % C).tolist()


def test_it_says_before_training_when_no_label_can_change() -> None:
    assert "no label can change" in str(LRT(update=30).check(train_set(LABELS, C), StagePlan(20, B)))


@pytest.mark.parametrize(
    "options",
    [{"delta": 0.9}, {"delta": 5.0}, {"window": 0}, {"update": -1}, {"start": -1}, {"interval": -1}, {"retro": -0.1}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        LRT(**options)
