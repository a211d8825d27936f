"""How long it will take, said before: by the trainings that will be made, with the threads that they will have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from selc.nets import create as create_net
from selc.runs import encoder_choice


@pytest.mark.parametrize(
    ("rows", "seconds", "validation", "trainings"),
    [
        (3_000, 15.0, False, 6),  # four more take a minute: five decide, one counts
        (3_000, 15.1, False, 1.3),  # too long: one part stays out, and the training goes on for a while to be sure
        (20_000, 1.0, False, 1.3),  # one part of so many rows is enough
        (3_000, 1.0, True, 1.3),  # the user's own rows decide
    ],
)
def test_as_many_trainings_are_expected_as_will_be_made(
    rows: int, seconds: float, validation: bool, trainings: float
) -> None:
    assert encoder_choice._trainings(rows, seconds, validation) == trainings


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_is_timed_with_the_threads_of_the_training(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine two threads wait for each other: the same step was said to take a hundred times as long."""
    seen = []

    def create(*arguments: Any) -> torch.nn.Module:
        seen.append(torch.get_num_threads())
        return create_net(*arguments)

    monkeypatch.setattr(encoder_choice, "create_net", create)
    before = torch.get_num_threads()
    assert encoder_choice._seconds_per_step(6, 3, 8, threads) > 0
    assert (seen, torch.get_num_threads()) == ([threads], before)
