"""M-correction against its loss written out sample by sample in float64, and its schedule against the published one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Beta

from selc.errors import ConfigError
from selc.memory import Store
from selc.methods import create
from selc.methods.m_correction import MCorrection
from selc.types import Batch, StagePlan, TrainSet
from tests.helpers import (
    batch_of,
    close,
    no_sweep,
    one_hot64,
    random_labels,
    random_logits,
    random_targets,
    rng,
    softmax64,
    train_set,
)
from tests.methods.common import LABELS, PLAN, C, N
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, fit, results
from tests.toy import train_set as toy_set

VARIANTS: list[Any] = ["hard", "soft", "dynamic"]
every_variant = pytest.mark.parametrize("variant", VARIANTS)


class Linear(nn.Module):
    """A linear model that keeps the inputs it was given, and the mode it was in."""

    def __init__(self, width: int = N) -> None:
        super().__init__()
        self.weight = nn.Parameter(random_logits(width, C, seed=9))
        self.seen: list[tuple[Tensor, bool, bool]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append((x, self.training, torch.is_grad_enabled()))
        return x @ self.weight


def units(clock: float, seed: int = 4) -> Batch:
    """A batch of unit vectors: a mixed input shows by itself who was mixed with whom, and how."""
    index = torch.randperm(N, generator=rng(seed))
    return replace(batch_of(train_set(LABELS, C), index, clock, x=torch.eye(N)), seed=seed)


def ready(method: MCorrection, epochs: int = 300, data: TrainSet | None = None, low: float = 0.5) -> MCorrection:
    """A method in the middle of a run, whose table says how likely a label with a given loss is wrong."""
    data = data or train_set(LABELS, C)
    method.setup(data, StagePlan(epochs, N))
    method.table.copy_(torch.linspace(0.05, 0.95, 100))
    method.ends.copy_(torch.tensor([low, 4.0]))
    return method


def wrong64(loss: Tensor) -> Tensor:
    """The probability that the table of ``ready`` gives to each loss, by the authors' look-up."""
    x = ((loss.double() - 0.5) / 3.5).clamp(1e-3, 1 - 1e-3)
    return torch.linspace(0.05, 0.95, 100, dtype=torch.float64)[(100 * x).long()]


def written_out(
    weight: Tensor, batch: Batch, mixed: Tensor, temperature: float | None, halves: bool, prior: float
) -> Tensor:
    """The published loss of each sample; ``temperature`` None is the predicted class."""
    share = 0.5 if halves else float(mixed[0, 0])
    partner = (mixed - torch.diag(mixed.diagonal())).argmax(dim=1)
    own, there = softmax64(weight.detach()), softmax64(mixed.double() @ weight.double())
    y = LABELS[batch.index]
    w = wrong64(torch.stack([-own[i, y[i]].log() for i in range(N)]))
    rows = []
    for i in range(N):
        row = torch.zeros((), dtype=torch.float64)
        for who, part in ((i, share), (int(partner[i]), 1 - share)):
            given = -there[i, y[who]].log()
            if temperature is None:
                guess = -there[i, own[who].argmax()].log()
            else:
                soft = torch.softmax(weight[who].detach().double() / temperature, dim=0)
                guess = -(soft * there[i].log()).sum()
            row = row + part * ((1 - w[who]) * given + w[who] * guess)
        rows.append(row)
    mean = there.mean(dim=0)
    regulariser = sum((1 / C) * torch.log((1 / C) / mean[k]) for k in range(C))
    return torch.stack(rows) + prior * regulariser


def same(step_loss: Tensor, expected: Tensor, weight: Tensor) -> None:
    close(step_loss, expected, atol=1e-5)
    (ours,) = torch.autograd.grad(step_loss.mean(), weight, retain_graph=True)
    (theirs,) = torch.autograd.grad(expected.mean(), weight)
    close(ours, theirs, atol=1e-5)


@every_variant
def test_before_the_start_it_is_mixup(variant: Any) -> None:
    method, model, batch = ready(MCorrection(variant=variant)), Linear(), units(104.9)
    step = method.step(model, batch)
    ((x, training, _),) = model.seen
    assert training
    assert step.outputs is None
    share = float(x[0, 0])
    assert share == pytest.approx(np.random.default_rng(batch.seed).beta(32, 32))
    target = x.double() @ one_hot64(LABELS[batch.index], C)
    same(step.loss, -(target * softmax64(x @ model.weight).log()).sum(dim=1), model.weight)


@pytest.mark.parametrize(("variant", "temperature"), [("hard", None), ("soft", 1.0)])
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_after_the_start_wrong_labels_give_way_to_the_guess(
    variant: Any, temperature: float | None, prior: float
) -> None:
    method, model, batch = ready(MCorrection(variant=variant, prior=prior)), Linear(), units(105.0)
    step = method.step(model, batch)
    mixed = model.seen[-1][0]
    assert mixed.diagonal().unique().numel() == 1  # one weight for the batch
    same(step.loss, written_out(model.weight, batch, mixed, temperature, False, prior), model.weight)


@pytest.mark.parametrize(("clock", "steps"), [(110.0, 0), (130.7, 20), (198.0, 88), (250.0, 88)])
def test_the_dynamic_variant_mixes_by_the_posterior_and_cools_down(clock: float, steps: int) -> None:
    method, model, batch = ready(MCorrection(variant="dynamic")), Linear(), units(clock)
    step = method.step(model, batch)
    mixed = model.seen[-1][0]
    y = LABELS[batch.index]
    right = 1 - wrong64(torch.stack([-softmax64(model.weight.detach())[i, y[i]].log() for i in range(N)]))
    partner = (mixed - torch.diag(mixed.diagonal())).argmax(dim=1)
    close(mixed.diagonal(), right / (right + right[partner]))
    close(mixed.sum(dim=1), torch.ones(N))
    temperature = float(np.linspace(1, 0.001, 200 - 111)[steps])
    same(step.loss, written_out(model.weight, batch, mixed, temperature, True, 1.0), model.weight)


def test_the_dynamic_variant_mixes_by_the_posterior_before_it_corrects() -> None:
    method, model, batch = ready(MCorrection(variant="dynamic")), Linear(), units(109.9)
    step = method.step(model, batch)
    mixed = model.seen[-1][0]
    partner = (mixed - torch.diag(mixed.diagonal())).argmax(dim=1)
    y = one_hot64(LABELS[batch.index], C)
    log_p = softmax64(mixed @ model.weight).log()
    same(step.loss, -(0.5 * (y + y[partner]) * log_p).sum(dim=1), model.weight)


@every_variant
@pytest.mark.parametrize(("epochs", "first"), [(300, 105), (60, 21), (6, 2), (1, 0)])
def test_the_published_start_scales_with_the_epochs_of_the_run(variant: Any, epochs: int, first: int) -> None:
    method = ready(MCorrection(variant=variant), epochs)
    for clock, looks in ((first - 0.01, 1), (first, 2)):
        model = Linear()
        if clock >= 0:
            method.step(model, units(clock))
            assert len(model.seen) == looks  # from the start on there is one more, at the unmixed batch


@every_variant
def test_the_unmixed_batch_is_looked_at_in_eval_mode_without_gradients(variant: Any) -> None:
    method = ready(MCorrection(variant=variant))
    batch = replace(units(200.0), x=random_logits(N, 4, seed=1))
    linear, norm = Linear(4), nn.BatchNorm1d(C)
    model = nn.Sequential(linear, norm)
    step = method.step(model, batch)
    (_, training, grad), (_, training_then, grad_then) = linear.seen
    assert (training, grad, training_then, grad_then) == (False, False, True, True)
    assert model.training
    assert norm.num_batches_tracked is not None
    assert int(norm.num_batches_tracked) == 1  # only the mixed batch changes batch norm
    assert step.outputs is not None
    assert not step.outputs.requires_grad
    close(step.outputs, batch.x @ linear.weight / math.sqrt(1 + 1e-5))


def test_gradients_reach_the_weights_in_mixed_precision() -> None:
    """Weights cast for the look without gradients must not be used again for the training pass."""
    method, model = ready(MCorrection()), nn.Linear(N, C)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = method.step(model, units(200.0))
    assert step.loss.dtype == torch.float32
    step.loss.mean().backward()
    assert model.weight.grad is not None
    assert bool((model.weight.grad != 0).any())


def literal_table(losses: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float, float]:
    """The authors' fit after an epoch: cut at two percentiles, EM, posterior on 100 points, held at its maximum."""
    low, high = np.percentile(losses, 5), np.percentile(losses, 95)
    x = losses[(losses <= high) & (losses >= low)]
    x = np.clip((x - low) / (high - low), 1e-4, 1 - 1e-4)

    def density(x: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
        a, b = (torch.tensor(v[k], dtype=torch.float64) for v in (alpha, beta))
        result: np.ndarray[Any, Any] = weight[k] * Beta(a, b).log_prob(torch.from_numpy(x)).exp().numpy()
        return result

    alpha, beta, weight = [1.0, 2.0], [2.0, 1.0], [0.5, 0.5]
    for _ in range(10):
        joint = np.maximum(np.stack([density(x, 0), density(x, 1)]), 1e-12)
        r = joint / joint.sum(axis=0)
        for k in range(2):
            m = (r[k] * x).sum() / r[k].sum()
            v = (r[k] * (x - m) ** 2).sum() / r[k].sum()
            alpha[k] = m * (m * (1 - m) / v - 1)
            beta[k] = alpha[k] * (1 - m) / m
            weight[k] = r[k].mean()
    at = np.linspace(1e-12, 1 - 1e-12, 100)
    posterior = density(at, 1) / (density(at, 0) + density(at, 1))
    posterior[posterior.argmax() :] = posterior.max()
    return np.clip(posterior, 1e-4, 1 - 1e-4), float(low), float(high)


@pytest.mark.parametrize("seed", range(3))
def test_the_probability_of_a_wrong_label_is_that_of_the_published_mixture(seed: int) -> None:
    """Losses of right labels around 0.6, of wrong ones around 3, as in the middle of a training."""
    some = torch.rand(600, 2, generator=rng(seed))
    right, wrong = 0.2 + 0.8 * some[:400, 0], 2.0 + 2.0 * some[400:, 0] * some[400:, 1]
    losses = torch.cat([right, wrong])
    method = MCorrection()
    method.setup(train_set(LABELS, C), PLAN)
    method.refit(losses)
    table, low, high = literal_table(losses.double().numpy())
    x = np.clip((losses.double().numpy() - low) / (high - low), 1e-3, 1 - 1e-3)
    expected = torch.from_numpy(table[(100 * x).astype(int)])
    ours = method.wrong(losses)
    clear = torch.from_numpy(np.abs(100 * x - np.round(100 * x)) > 1e-3)  # at the edge of a bin rounding decides
    rising = torch.from_numpy(100 * x > table[:50].argmin())
    close(ours[clear & rising], expected[clear & rising], atol=1e-4)
    assert bool((ours[~rising] <= expected[~rising] + 1e-4).all())  # theirs may grow towards the smallest losses
    assert float(rising.float().mean()) > 0.8
    assert float(ours[:400].mean()) < 0.1
    assert float(ours[400:].mean()) > 0.9


def swept(outputs: Tensor, data: TrainSet) -> Callable[..., Store]:
    """A pass over the training set that gives these outputs."""

    def sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        assert fn is not None
        rows = fn(outputs, data.labels.read(torch.arange(len(data))))
        store = Store(len(rows), rows.shape[1])
        store.write(torch.arange(len(rows)), rows)
        return store

    return sweep


def test_nothing_is_swept_or_believed_otherwise_before_it_is_needed() -> None:
    data = train_set(LABELS, C)
    method = ready(MCorrection(), 20, data)
    for epoch in range(6):  # the mixture is needed from epoch 7 on
        method.end_epoch(epoch, no_sweep)
    assert torch.equal(method.belief(no_sweep).full().double(), one_hot64(LABELS, C))


@every_variant
@pytest.mark.parametrize("soft", [False, True], ids=["hard labels", "soft labels"])
def test_it_believes_the_label_or_the_guess_by_the_probability_that_the_label_is_wrong(
    variant: Any, soft: bool
) -> None:
    rows = 200
    labels = random_labels(rows, C, seed=1)
    table = Store(rows, C)
    table.write(torch.arange(rows), random_targets(rows, C, seed=2))
    data = train_set(table if soft else labels, C)
    method = ready(MCorrection(variant=variant, start=1), 4, data)
    outputs = random_logits(rows, C, seed=3)
    method.end_epoch(0, swept(outputs, data))
    y, p = data.labels.read(torch.arange(rows)).double(), softmax64(outputs)
    w = method.wrong(-(y * p.log()).sum(dim=1).float()).double()[:, None]
    guess = one_hot64(outputs.argmax(dim=1), C) if variant == "hard" else p
    belief = method.belief(no_sweep).full()
    close(belief, (1 - w) * y + w * guess)
    close(belief.sum(dim=1), torch.ones(rows))
    assert float(w.max() - w.min()) > 0.5


def test_before_the_first_mixture_no_label_is_wrong() -> None:
    method, model = MCorrection(prior=0.0), Linear()
    method.setup(train_set(LABELS, C), StagePlan(1, N))  # it starts with the first epoch
    batch = units(0.0)
    mixed = create("mixup", {"concentration": 32.0}).step(Linear(), batch)
    close(method.step(model, batch).loss, mixed.loss)


@pytest.mark.parametrize(
    "losses", [torch.full((50,), 0.7), torch.zeros(50), torch.tensor([0.1, math.nan, 0.3, 2.0] * 9), torch.ones(1)]
)
def test_a_mixture_that_cannot_be_fitted_leaves_the_last_one(losses: Tensor) -> None:
    method = ready(MCorrection())
    table, ends = method.table.clone(), method.ends.clone()
    method.refit(losses)
    assert torch.equal(method.table, table)
    assert torch.equal(method.ends, ends)


def test_rows_that_are_held_out_do_not_take_part_in_the_fit() -> None:
    data = train_set(random_labels(100, C, seed=1), C)
    outputs = random_logits(100, C, seed=3)
    method = ready(MCorrection(start=1), 4, replace(data, rows=torch.arange(60)))
    method.end_epoch(0, swept(outputs, data))
    table = method.table.clone()
    outputs[60:] *= 50  # losses of the others
    method.end_epoch(0, swept(outputs, data))
    assert torch.equal(method.table, table)


@every_variant
def test_losses_beyond_the_ends_count_as_the_smallest_and_the_largest(variant: Any) -> None:
    method = ready(MCorrection(variant=variant))
    close(method.wrong(torch.tensor([0.0, 0.5, 1e30, math.inf])), torch.tensor([0.05, 0.05, 0.95, 0.95]))


@every_variant
@pytest.mark.parametrize("clock", [0.0, 107.0, 200.0, 299.0])
@pytest.mark.parametrize("size", [1e4, 200.0])
@pytest.mark.parametrize("rows", [N, 1], ids=["batch", "batch of one"])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(
    variant: Any, clock: float, size: float, rows: int
) -> None:
    method, model, batch = ready(MCorrection(variant=variant)), Linear(), units(clock)
    batch = Batch(batch.x[:rows], batch.target[:rows], batch.index[:rows], clock, 0, batch.shard[:rows])
    guess = torch.cat([LABELS[:6], (LABELS[6:] + 1) % C])
    model.weight.data = (size * one_hot64(guess, C)).float()
    for certain in (1e-4, 1 - 1e-4):
        method.table.fill_(certain)  # everybody right, everybody wrong
        loss = method.step(model, batch).loss
        assert loss.isfinite().all()
        (grad,) = torch.autograd.grad(loss.mean(), model.weight)
        assert grad.isfinite().all()


@pytest.mark.parametrize("variant", ["soft", "dynamic"])
@pytest.mark.parametrize("epochs", [1, 4])
def test_the_other_variants_resume_to_the_last_bit_too(variant: Any, epochs: int, tmp_path: Path) -> None:
    whole = fit(MCorrection(variant=variant, start=2))
    with pytest.raises(BrokenOffError):
        fit(MCorrection(variant=variant, start=2), tmp_path, StopAfter(epochs))
    assert_same_bits(results(fit(MCorrection(variant=variant, start=2), tmp_path)), results(whole))


@every_variant
def test_it_corrects_wrong_labels(variant: Any) -> None:
    """Of the 90 labels of three clouds the first 9 are wrong; all others name the cloud."""
    belief = fit(MCorrection(variant=variant, start=8), epochs=24).believed_labels
    true = torch.arange(90) % 3
    assert int((toy_set().labels.hard != true).sum()) == 9
    assert int((belief != true).sum()) < 5


def test_a_start_after_the_end_is_warned_of() -> None:
    data = train_set(LABELS, C)
    assert "no label can change" in (MCorrection(start=10).check(data, StagePlan(10, N)) or "")
    assert MCorrection(start=9).check(data, StagePlan(10, N)) is None


@pytest.mark.parametrize(
    "options", [{"variant": "firm"}, {"start": -1.0}, {"prior": math.nan}, {"concentration": -1.0}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        MCorrection(**options)
