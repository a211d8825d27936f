"""The epoch that is best on held-out noisy rows, against what it is chosen from."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from selc.errors import ConfigError
from selc.methods.base import Method, Train
from selc.methods.noisy_validation import BestEpoch, agreement, check_held_out, check_leaves_rows, hold_out, likelihood
from selc.types import Outcome, TrainSet
from tests import toy
from tests.helpers import close, random_targets, stored, train_set
from tests.methods.common import GIVEN, LABELS, PLAN, C, N, sweeping


def test_held_out_rows_and_the_others_are_all_rows_once() -> None:
    data = train_set(LABELS, C)
    judges, rest = hold_out(data, 0.25, "a", 0)
    assert rest.rows is not None
    assert len(judges) == 3
    assert sorted([*judges.tolist(), *rest.rows.tolist()]) == list(range(N))
    some = replace(data, rows=torch.tensor([1, 4, 6, 9]))
    judges, rest = hold_out(some, 0.25, "a", 0)
    assert rest.rows is not None
    assert len(judges) == 1
    assert sorted([*judges.tolist(), *rest.rows.tolist()]) == [1, 4, 6, 9]


def test_scores_are_the_share_of_labels_predicted_and_the_mean_log_probability() -> None:
    p, rows = random_targets(N, C, seed=0), torch.tensor([0, 3, 8])
    given = train_set(LABELS, C).labels
    right = [float(int(p[i].argmax()) == int(LABELS[i])) for i in rows]
    assert float(agreement(stored(p), given, rows)) == pytest.approx(sum(right) / 3)
    logs = [math.log(float(p[i, LABELS[i]])) for i in rows]
    assert float(likelihood(stored(p), given, rows)) == pytest.approx(sum(logs) / 3)
    sure_and_wrong = stored(GIVEN.roll(1, dims=1).float())
    assert likelihood(sure_and_wrong, given, rows).isfinite()


def mixed_with(share: float) -> Tensor:
    """Predictions that have ``share`` of the given label and the rest on another class."""
    return (share * GIVEN + (1 - share) * GIVEN.roll(1, dims=1)).float()


@pytest.mark.parametrize(
    ("by", "shares", "best"),
    [
        ("loss", [0.3, 0.8, 0.6], 1),
        ("accuracy", [0.3, 0.7, 0.9], 1),  # as good: the first
        ("loss", [0.3, 0.7, 0.9], 2),
    ],
)
def test_network_and_predictions_of_the_best_epoch_are_kept(by: Any, shares: list[float], best: int) -> None:
    method = BestEpoch(torch.tensor([2, 5, 7]), by)
    model = method.build(lambda outputs: nn.Linear(1, outputs), C)
    method.setup(train_set(LABELS, C), PLAN)
    for epoch, share in enumerate(shares):
        with torch.no_grad():
            next(model.parameters()).fill_(float(epoch))
        method.end_epoch(epoch, sweeping(mixed_with(share)))
    close(method.belief(sweeping(mixed_with(0.0))).full(), mixed_with(shares[best]))
    assert float(next(method.best.parameters()).detach()[0, 0]) == best
    assert all(parameter.requires_grad for parameter in method.best.parameters())  # it is to be trained on
    assert not any("model" in name for name, _ in method.named_modules())


class GoesOn(Method):
    """Trains on with the best network of a first stage."""

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        judges, rest = hold_out(data, 0.2, "test", train.seed)
        first = BestEpoch(judges, "loss")
        train(first, rest)
        return train(self, rest, model=first.best)


@pytest.mark.parametrize("epochs", [3, 6, 8])
def test_broken_off_in_either_stage_the_same_best_network_goes_on(epochs: int, tmp_path: Path) -> None:
    whole = toy.fit(GoesOn())
    with pytest.raises(toy.BrokenOffError):
        toy.fit(GoesOn(), tmp_path, toy.StopAfter(epochs))
    toy.assert_same_bits(toy.results(toy.fit(GoesOn(), tmp_path)), toy.results(whole))


def test_shares_that_hold_out_nothing_or_everything_are_refused() -> None:
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ConfigError, match="held_out must be in"):
            check_held_out(share)
    with pytest.raises(ConfigError, match=r"held_out must hold out a row .* got 0.05 of 12 rows"):
        check_leaves_rows(train_set(LABELS, C), 0.05)
