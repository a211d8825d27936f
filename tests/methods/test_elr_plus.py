"""ELR+ against its published loss, targets and mean weights, written out in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.elr_plus import ELRPlus, Followed, followed_in, risen
from selc.types import Batch
from tests import toy
from tests.helpers import batch_of, close, entropy64, no_sweep, one_hot64, rng, softmax64
from tests.methods.common import GIVEN, LABELS, C, N, ready

WIDTH = 3


def nets(seed: int = 0) -> Followed:
    torch.manual_seed(seed)
    return Followed(nn.Linear(WIDTH, C), nn.Linear(WIDTH, C)).train()


def part(index: Tensor, clock: float, seed: int) -> Batch:
    x = torch.randn(len(index), WIDTH, generator=rng(seed))
    return Batch(x, GIVEN[index].float(), index, clock, seed=seed, shard=torch.zeros_like(index))


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(("beta", "lambda_", "ramp"), [(0.7, 3.0, 0.0), (0.9, 7.0, 10.0)])
def test_loss_targets_and_mean_weights_follow_the_paper_over_several_epochs(
    weighed: bool, beta: float, lambda_: float, ramp: float
) -> None:
    method = ELRPlus(beta=beta, lambda_=lambda_, gamma=0.9, ramp=ramp, weighed=weighed)
    ready(method, epochs=20)
    model = nets()
    t = torch.zeros(2, N, C, dtype=torch.float64)
    mean = [{k: v.detach().double() for k, v in net.named_parameters()} for net in (model.first, model.second)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(4):
        for number, index in enumerate(torch.randperm(N, generator=rng(epoch)).split(6)):
            clock, seed = epoch + number / 2, 10 * epoch + number
            batch = part(index, clock, seed)
            grown = math.exp(-5 * (1 - min(clock / (40_000 / 78_200 * 20), 1)) ** 2)
            weights = [dict(net.named_parameters()) for net in (model.first, model.second)]
            for k in range(2):
                for name, weight in weights[k].items():
                    mean[k][name] = 0.9 * grown * mean[k][name] + (1 - 0.9 * grown) * weight.detach().double()
            step = method.step(model, batch)
            share = np.random.default_rng(seed).beta(1, 1)
            share = max(share, 1 - share)
            partner = torch.arange(6).roll(-1)  # one shard: the next in the cycle

            def mixed(rows: Tensor, share: float = share, partner: Tensor = partner) -> Tensor:
                return share * rows + (1 - share) * rows[partner]

            expected = torch.zeros(6, dtype=torch.float64)
            for k in range(2):
                other = mean[1 - k]
                taught = softmax64(batch.x.double() @ other["weight"].T + other["bias"])
                t[k, index] = beta * t[k, index] + (1 - beta) * taught
                q, y = mixed(t[k, index]), mixed(GIVEN[index])
                if weighed:
                    y = y * q / (y * q).sum(dim=1, keepdim=True)
                logits = mixed(batch.x.double()) @ weights[k]["weight"].double().T + weights[k]["bias"].double()
                p = softmax64(logits)
                coefficient = 1.0 if ramp == 0 else math.exp(-5 * (1 - min(clock / ramp, 1)) ** 2)
                agreement = (q * p.clamp(1e-4, 1 - 1e-4)).sum(dim=1)
                expected = expected + entropy64(y, p) + coefficient * lambda_ * torch.log(1 - agreement)
            close(step.loss, expected, atol=1e-5)
            ours = torch.autograd.grad(step.loss.sum(), list(model.parameters()), retain_graph=True)
            theirs = torch.autograd.grad(expected.sum(), list(model.parameters()))
            for own, literal in zip(ours, theirs, strict=True):
                close(own, literal, atol=1e-4)
            optimizer.zero_grad()
            step.loss.mean().backward()
            optimizer.step()
    scaled = t / t.sum(dim=2, keepdim=True)
    close(method.belief(no_sweep).full(), scaled.mean(dim=0), atol=1e-5)


def test_what_is_recorded_is_the_mean_weights_on_unmixed_inputs() -> None:
    method, model = ELRPlus(), nets()
    ready(method)
    batch = part(torch.arange(6), 1.0, 0)
    step = method.step(model, batch)
    assert step.outputs is not None
    assert not step.outputs.requires_grad
    close(step.outputs, torch.stack([model.first_mean(batch.x), model.second_mean(batch.x)]))


def test_it_predicts_by_the_mean_of_the_logits_of_the_networks_themselves() -> None:
    model = nets().eval()
    x = torch.randn(5, WIDTH, generator=rng(1))
    p = ELRPlus().probs(model(x))
    close(p, softmax64((model.first(x) + model.second(x)) / 2))


def test_the_memory_of_the_mean_weights_is_that_share_of_the_steps_which_the_authors_have() -> None:
    method = ELRPlus()
    ready(method, epochs=100, batch_size=1)  # 1,200 steps
    assert 1 - method._gamma(100.0) == pytest.approx(0.003 * 78_200 / 1200)
    method.steps = 78_200
    assert method._gamma(100.0) == pytest.approx(0.997)
    method.steps = 5  # shorter than the memory: the mean is the network itself
    assert method._gamma(100.0) == 0.0


def test_what_grows_is_the_published_curve() -> None:
    assert risen(3.0, 0.0) == 1.0
    assert [risen(clock, 4.0) for clock in (0.0, 2.0, 4.0, 9.0)] == pytest.approx([math.exp(-5), math.exp(-1.25), 1, 1])


def test_without_mixing_and_regulariser_it_is_the_cross_entropy_of_both() -> None:
    method, model = ELRPlus(lambda_=0.0, concentration=0.0), nets()
    ready(method)
    batch = part(torch.arange(N), 2.0, 3)
    expected = entropy64(GIVEN, softmax64(model.first(batch.x))) + entropy64(GIVEN, softmax64(model.second(batch.x)))
    close(method.step(model, batch).loss, expected)


def test_a_compiled_or_wrapped_model_is_found() -> None:
    model = nets()
    assert followed_in(nn.Sequential(model)) is model


def test_mean_weights_are_no_parameters() -> None:
    model = nets()
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"first", "second"}


def test_loss_and_gradient_are_finite_where_p_is_exactly_0_or_1() -> None:
    method = ELRPlus(weighed=True)
    data = ready(method)
    for shift in (0, 1):
        outputs = (1e4 * one_hot64((LABELS + shift) % C, C)).float().requires_grad_()
        target = method.first.updated(torch.arange(N), softmax64(outputs.detach()).float())
        loss = method.loss_of(outputs, batch_of(data, torch.arange(N)).target, target, 3.0)
        assert loss.isfinite().all()
        (gradient,) = torch.autograd.grad(loss.sum(), outputs)
        assert gradient.isfinite().all()


def test_a_belief_before_the_first_step_is_the_given_labels() -> None:
    method = ELRPlus()
    ready(method)
    close(method.belief(no_sweep).full(), GIVEN)


def test_wrong_labels_are_found_in_a_real_training() -> None:
    outcome = toy.fit(ELRPlus(), epochs=20)
    assert (outcome.believed_labels[:9] == toy.blobs()[1][:9]).float().mean() > 0.7


@pytest.mark.parametrize(
    "options",
    [{"beta": 1.0}, {"lambda_": -1.0}, {"gamma": 1.0}, {"gamma": "much"}, {"concentration": -1.0}, {"ramp": -1.0}],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        ELRPlus(**options)
