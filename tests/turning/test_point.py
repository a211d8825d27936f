"""What was decided by held-out rows goes to the folder of a run and comes back."""

from __future__ import annotations

from pathlib import Path

import torch

from selc.turning import Decision, Evidence, TurningPoint, decide
from selc.turning.point import saved_decision, saved_evidence
from tests.helpers import random_labels, rng

C, L, M = 3, 6, 40


def evidence() -> Evidence:
    labels = random_labels(M, C, seed=0)
    predictions = torch.where(torch.rand(L, M, generator=rng(1)) < 0.7, labels, (labels + 1) % C)
    sure, given = torch.rand(2, L, M, generator=rng(2))
    rows, learnt = torch.arange(M), torch.rand(L // 2, M, generator=rng(3))
    return Evidence(labels, predictions, sure, given, C, splits=5, rows=rows, looks_per_epoch=2, learnt=learnt)


def test_it_is_read_as_it_was_saved(tmp_path: Path) -> None:
    seen = evidence()
    TurningPoint(seen, decide(seen, L)).save(tmp_path)
    read = saved_evidence(tmp_path, C)
    assert read is not None
    assert (read.num_classes, read.splits, read.looks_per_epoch) == (C, 5, 2)
    for name, value in seen.tensors().items():
        assert torch.equal(read.tensors()[name], value), name
    assert saved_decision(tmp_path) == decide(seen, L)


def test_where_nothing_was_held_out_there_is_a_decision_alone(tmp_path: Path) -> None:
    assert (saved_evidence(tmp_path, C), saved_decision(tmp_path)) == (None, None)
    TurningPoint(None, Decision.too_few()).save(tmp_path)
    assert saved_evidence(tmp_path, C) is None
    assert saved_decision(tmp_path) == Decision.too_few()


def test_what_else_an_outcome_may_carry_is_not_taken_for_it() -> None:
    ours = TurningPoint(None, Decision.too_few())
    assert TurningPoint.of(ours) is ours
    assert TurningPoint.of(None) is None
    assert TurningPoint.of(Decision.too_few()) is None
