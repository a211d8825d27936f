"""Labels that a person has verified are never changed by every method."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from selc.memory import Store
from selc.methods import METHODS, Method
from selc.training.loop import as_verified
from selc.types import Batch, Step, TrainSet
from tests.contract.test_methods import SEVERAL, quick
from tests.tiers import but_for
from tests.toy import CLASSES, BrokenOffError, StopAfter, assert_same_bits, results, train_set, trainer

every_method = pytest.mark.parametrize("name", METHODS)
# Every other one of the labels that are wrong: a network that learns the clouds would change them.
WRONG = torch.arange(0, 9, 2)


def verified_set() -> TrainSet:
    verified = torch.zeros(90, dtype=torch.bool)
    verified[WRONG] = True
    verified[60:70] = True
    return replace(train_set(), verified=verified)


@pytest.mark.parametrize("name", but_for(SEVERAL, METHODS))
def test_a_verified_label_is_what_the_method_believes_and_corrects_to(name: str) -> None:
    data = verified_set()
    assert data.verified is not None
    outcome = trainer().fit(quick(name), data)
    verdict = torch.eye(CLASSES)[data.labels.hard[data.verified]]
    torch.testing.assert_close(outcome.target.full()[data.verified], verdict)
    assert torch.equal(outcome.corrected_labels[data.verified], data.labels.hard[data.verified])
    kept = outcome.beliefs[:, data.verified]
    assert bool(((kept == -1) | (kept == data.labels.hard[data.verified])).all()), "also in the epochs before the last"


@every_method
@pytest.mark.exhaustive
def test_a_run_with_verified_labels_goes_on_to_the_same_bits(name: str, tmp_path: Path) -> None:
    whole = trainer().fit(quick(name), verified_set())
    with suppress(BrokenOffError):
        trainer(tmp_path, StopAfter(4)).fit(quick(name), verified_set())
    assert_same_bits(results(trainer(tmp_path).fit(quick(name), verified_set())), results(whole))


def test_the_loss_of_a_verified_label_is_cross_entropy_and_that_of_others_the_method_s_own() -> None:
    outputs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    target = torch.eye(3)[torch.tensor([0, 1, 2, 0, 1, 2])]
    index = torch.tensor([5, 3, 1, 0, 2, 4])
    verified = torch.tensor([True, False, False, True, False, False])
    own = torch.full((6,), 7.0)
    batch = Batch(torch.zeros(6, 1), target, index, 0.0, seed=0, shard=index)
    loss = as_verified(Method(), Step(own, outputs), batch, verified)
    by_hand = [-float(torch.log_softmax(outputs.detach(), 1)[k, target[k].argmax()]) for k in (1, 3)]  # rows 3 and 0
    assert loss[[1, 3]].tolist() == pytest.approx(by_hand)
    assert loss[[0, 2, 4, 5]].tolist() == [7.0] * 4
    whole = torch.tensor(3.0)
    assert as_verified(Method(), Step(whole, outputs), batch, verified) is whole


def test_relabelling_keeps_verified_labels_and_does_not_touch_what_it_was_given() -> None:
    data = verified_set()
    assert data.verified is not None
    other = (data.labels.hard + 1) % CLASSES
    hard = data.relabel(other).labels.hard
    assert torch.equal(hard[data.verified], data.labels.hard[data.verified])
    assert torch.equal(hard[~data.verified], other[~data.verified])
    table = Store.from_labels(other, CLASSES)
    soft = data.relabel(table)
    assert torch.equal(soft.labels.hard, hard)
    assert torch.equal(table.argmax(), other)


def test_a_network_learns_a_verified_label_that_the_method_would_have_corrected() -> None:
    verified = verified_set()
    free = replace(verified, verified=None)
    settings: dict[str, Any] = {"epochs": 40, "lr": 0.2}
    label = verified.labels.hard[WRONG]
    fixed, corrected = (trainer(**settings).fit(quick("selc"), data) for data in (verified, free))
    assert bool((corrected.corrected_labels[WRONG] != label).all()), "SELC alone corrects them all"
    chance = [outcome.probs.read(WRONG).gather(1, label[:, None]) for outcome in (fixed, corrected)]
    assert bool((chance[0] > chance[1]).all())
