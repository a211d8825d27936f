"""Co-teaching+ against its published update, written out sample by sample in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods import CoTeaching
from selc.methods.co_teaching_plus import CoTeachingPlus
from selc.types import StagePlan
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
from tests.methods.common import Stages, many, outcome, set_up

N, B, C = 40, 16, 4
LABELS = random_labels(N, C, seed=0)
DATA = train_set(LABELS, C)


def literal(outputs: Tensor, labels: Tensor, share: float) -> Tensor:
    """The update on the disagreement, with the mean taken once and nobody's softmax taken twice."""
    guesses = [[int(z.argmax()) for z in net] for net in outputs]
    disagree = [i for i in range(len(labels)) if guesses[0][i] != guesses[1][i]]
    loss = [[-torch.log(softmax64(z))[y] for z, y in zip(net, labels, strict=True)] for net in outputs]
    keep = max(1, int(share * len(disagree)))
    small = [sorted(disagree, key=lambda i, own=own: float(own[i].detach()))[:keep] for own in loss]  # type: ignore[misc]
    first = torch.stack([loss[0][i] for i in small[1]]).mean()
    second = torch.stack([loss[1][i] for i in small[0]]).mean()
    return first + second


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("clock", "share"), [(2, 0.75), (3.5, 0.625), (4, 0.5), (90, 0.5)])
def test_networks_learn_from_each_others_small_losses_where_they_disagree(
    clock: float, share: float, seed: int
) -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.5, ramp=4, warm_up=2))
    index = torch.randperm(N, generator=rng(seed))[:B]
    outputs = random_logits(2, B, C, seed=seed).requires_grad_()
    loss = method.loss(outputs, batch_of(DATA, index, clock))
    expected = literal(outputs, LABELS[index], share)
    assert loss.shape == ()
    close(loss, expected)
    close(gradient(loss, outputs), gradient(expected, outputs))


@pytest.mark.parametrize("clock", [0, 1.9, 5])
def test_it_is_co_teaching_during_the_warm_up(clock: float) -> None:
    outputs, batch = random_logits(2, B, C, seed=1), batch_of(DATA, torch.arange(B), clock)
    plain = set_up(CoTeaching(forget_rate=0.5, ramp=4)).loss(outputs, batch)
    assert torch.equal(set_up(CoTeachingPlus(forget_rate=0.5, ramp=4, warm_up=6)).loss(outputs, batch), plain)


def test_samples_on_which_the_networks_agree_have_no_gradient() -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.0, ramp=1, warm_up=0, agreed=0))
    outputs = random_logits(2, B, C, seed=2)
    outputs[1, :5] = outputs[0, :5]
    outputs.requires_grad_()
    found = gradient(method.loss(outputs, batch_of(DATA, torch.arange(B), 9)), outputs).abs().sum(dim=2) > 0
    apart = outputs[0].argmax(dim=1) != outputs[1].argmax(dim=1)
    assert found[0].tolist() == found[1].tolist() == apart.tolist()
    assert not found[:, :5].any()


def test_a_batch_without_disagreement_is_learnt_whole_at_first_and_skipped_later() -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.5, ramp=1, warm_up=0, agreed=3))
    one = random_logits(B, C, seed=3)
    outputs = torch.stack([one, 2 * one]).requires_grad_()
    whole = sum(entropy64(one_hot64(LABELS[:B], C), softmax64(net)).mean() for net in outputs)
    assert isinstance(whole, Tensor)
    early = method.loss(outputs, batch_of(DATA, torch.arange(B), 2.9))
    close(early, whole)
    close(gradient(early, outputs), gradient(whole, outputs))
    late = method.loss(outputs, batch_of(DATA, torch.arange(B), 3))
    assert float(late.detach()) == 0
    assert not gradient(late, outputs).any()


def test_one_sample_in_dispute_is_kept_whatever_the_rate() -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.9, ramp=1, warm_up=0))
    outputs = torch.stack([8 * one_hot64(LABELS[:B], C), 8 * one_hot64(LABELS[:B], C)]).float()
    outputs[1, 7] = outputs[1, 7].roll(1)
    expected = sum(entropy64(one_hot64(LABELS[7:8], C), softmax64(net[7:8])).sum() for net in outputs)
    assert isinstance(expected, Tensor)
    close(method.loss(outputs, batch_of(DATA, torch.arange(B), 50)), expected)


def test_a_batch_of_one() -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.5, ramp=1, warm_up=0, agreed=0))
    apart = torch.tensor([[[2.0, 0, 0, 0]], [[0, 3.0, 0, 0]]])
    expected = entropy64(one_hot64(LABELS[4:5], C), softmax64(apart.flatten(0, 1))).sum()
    batch = batch_of(DATA, torch.tensor([4]), 9)
    close(method.loss(apart, batch), expected)
    assert float(method.loss(apart[[0, 0]], batch)) == 0


def test_soft_targets_give_the_expected_loss() -> None:
    t = random_targets(N, C, seed=4)
    method = set_up(CoTeachingPlus(forget_rate=0.0, ramp=1, warm_up=0))
    outputs = random_logits(2, B, C, seed=5)
    apart = outputs[0].argmax(dim=1) != outputs[1].argmax(dim=1)
    losses = torch.stack([entropy64(t[:B], softmax64(net)) for net in outputs])
    batch = batch_of(train_set(stored(t), C), torch.arange(B), 9)
    close(method.loss(outputs, batch), losses[:, apart].mean(dim=1).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1(dtype: torch.dtype) -> None:
    method = set_up(CoTeachingPlus(forget_rate=0.25, ramp=1, warm_up=0))
    right = 1e4 * one_hot64(LABELS[:B], C)
    outputs = torch.stack([right, right.roll(1, dims=1)]).to(dtype).requires_grad_()
    loss = method.loss(outputs, batch_of(DATA, torch.arange(B), 9))
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert gradient(loss, outputs).isfinite().all()


def test_times_are_shares_of_the_epochs() -> None:
    method = CoTeachingPlus(forget_rate=0.5, ramp=0.05, warm_up=0.1)
    method.setup(DATA, StagePlan(40, B))  # warm-up until epoch 4, ramp over 2
    outputs = random_logits(2, B, C, seed=6)
    for clock, share in ((4, 0.5), (30, 0.5)):
        close(method.loss(outputs, batch_of(DATA, torch.arange(B), clock)), literal(outputs, LABELS[:B], share))
    batch = batch_of(DATA, torch.arange(B), 3.9)
    plain = set_up(CoTeaching(forget_rate=0.5, ramp=2))
    assert torch.equal(method.loss(outputs, batch), plain.loss(outputs, batch))


def test_it_predicts_the_mean_of_the_two_networks() -> None:
    outputs = random_logits(2, 6, C, seed=0)
    close(CoTeachingPlus().probs(outputs), (softmax64(outputs[0]) + softmax64(outputs[1])) / 2)


def test_auto_estimates_the_rate_and_keeps_the_other_options() -> None:
    train = Stages(lambda number, _: outcome(random_targets(240, C, seed=number)), wrong=0.3)
    CoTeachingPlus(ramp=7, warm_up=3, agreed=2).fit(many(), train)
    method = train.asked[-1].method
    assert len(train.asked) == 6
    assert isinstance(method, CoTeachingPlus)
    assert method.forget_rate == pytest.approx(0.3, abs=0.01)
    assert (method.ramp, method.warm_up, method.agreed) == (7, 3, 2)


@pytest.mark.parametrize("options", [{"forget_rate": 1.0}, {"ramp": 0}, {"warm_up": -1}, {"agreed": -0.5}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        CoTeachingPlus(**options)
