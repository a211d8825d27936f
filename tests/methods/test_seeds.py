"""What a method draws for a whole run depends on the seed of the run, and on nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from selc.methods import Method, create
from selc.types import Outcome, TrainSet
from tests import toy
from tests.methods.common import Over
from tests.tiers import but_for

# Methods that draw folds, halves, splits, or rows to hold out, with options for a short training.
DRAWING: dict[str, dict[str, Any]] = {
    "aum": {},
    "confident-learning": {"folds": 2},
    "dac": {"warm_up": 1},
    "dmi": {},
    "forward": {},
    "iterative-cv": {"iterations": 1, "cv_epochs": 1, "ramp": 1},
    "nested": {},
    "nested-co-teaching": {"tune": 1.0},
    "rsl": {},
    "self": {"iterations": 1},
}


class Noting(Over):
    """Hands trainings on to a real trainer, and notes on which rows and labels they were."""

    def __init__(self, seed: int) -> None:
        super().__init__(toy.trainer(epochs=2, seed=seed))
        self.drawn: list[list[list[int]]] = []

    def __call__(self, method: Method, data: TrainSet, **changes: Any) -> Outcome:
        outcome = super().__call__(method, data, **changes)
        rows = method.select() if data.rows is None else data.rows
        self.drawn.append([data.labels.hard.tolist(), [] if rows is None else rows.tolist()])
        return outcome


def first_draw(name: str, seed: int) -> list[list[int]]:
    """Labels and rows of the first training whose rows or labels are not simply all."""
    train, method, data = Noting(seed), create(name, DRAWING[name]), toy.train_set()
    method.fit(data, train)
    everything = [data.labels.hard.tolist(), []]
    return next(drawn for drawn in train.drawn if drawn != everything)


@pytest.mark.parametrize("name", but_for({"nested-co-teaching", "rsl", "self"}, DRAWING))
def test_two_seeds_draw_different_parts_and_one_seed_the_same(name: str) -> None:
    first, again, other = (first_draw(name, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_stages_of_nested_co_teaching_hold_out_the_same_rows() -> None:
    train, data = Noting(seed=5), toy.train_set()
    method = create("nested-co-teaching", {"forget_rate": 0.1, "tune": 1.0})
    method.fit(data, train)
    assert len(train.drawn) == 3
    assert train.drawn[0] == train.drawn[1] == train.drawn[2]
    assert len(train.drawn[0][1]) == 81  # of 90
