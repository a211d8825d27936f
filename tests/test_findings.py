"""The table of findings: what a label is worth, and what to do with it."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from selc.core.turning import Turn
from selc.run import Config, RunFolder, execute
from selc.analysis.findings import ACTIONS, COLUMNS, KEEP, RELABEL, REVIEW, find, label_quality
from tests.helpers import random_labels, random_targets, rng


def turn_at(peak: float) -> Turn:
    return Turn(peak, peak, 0.7, 0.3, 0.2, 0.1, "")


def test_quality_is_the_geometric_mean_probability_from_the_turning_point_on() -> None:
    losses = torch.rand(20, 5, generator=rng(0)) * 3
    target, given = random_targets(5, 3, seed=1), random_labels(5, 3, seed=2)
    quality = label_quality(losses, target, given, turn_at(6.5))
    by_hand = [math.exp(-sum(float(losses[e, i]) for e in range(6, 12)) / 6) for i in range(5)]
    assert quality.tolist() == pytest.approx(by_hand)
    early = label_quality(losses, target, given, turn_at(1.5))  # never the first two epochs, at least three
    assert early.tolist() == pytest.approx([math.exp(-float(losses[2:5, i].mean())) for i in range(5)])
    assert label_quality(losses, target, given, None).tolist() == pytest.approx(torch.exp(-losses.mean(0)).tolist())


def test_samples_that_were_never_recorded_are_judged_by_their_target() -> None:
    losses = torch.full((4, 3), torch.nan)
    losses[2, 0] = 0.5  # seen once
    target, given = random_targets(3, 3, seed=1), torch.tensor([0, 1, 2])
    quality = label_quality(losses, target, given, None)
    assert float(quality[0]) == pytest.approx(math.exp(-0.5))
    assert quality[1:].tolist() == pytest.approx([float(target[1, 1]), float(target[2, 2])])


def example(rows: int = 200) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Half of the labels of class 0 and a tenth of those of class 1 are wrong and look so; class 2 is clean."""
    given = torch.arange(rows) % 3
    wrong = ((given == 0) & (torch.arange(rows) % 2 == 0)) | ((given == 1) & (torch.arange(rows) % 10 == 1))
    losses = torch.where(wrong, 3.0, 0.1) + 0.01 * torch.rand(6, rows, generator=rng(0))
    target = torch.full((rows, 3), 0.05)
    believed = torch.where(wrong, (given + 1) % 3, given)
    target[torch.arange(rows), believed] = 0.9
    return given, wrong, losses, target


def test_each_class_has_its_own_part_of_what_is_relabelled_and_reviewed() -> None:
    given, wrong, losses, target = example()
    share = float(wrong.double().mean())
    found = find(losses, target, target, given, target.argmax(1), None, (share, share / 2, 1.2 * share))
    assert bool(wrong[found.action == RELABEL].all())
    for label in (0, 1):
        mine = given == label
        relabelled = int(((found.action == RELABEL) & mine).sum())
        assert relabelled == pytest.approx(0.75 * int((wrong & mine).sum()), abs=1)  # half of [low, estimate]
        assert bool((found.action != KEEP)[wrong & mine].all())
    assert bool((found.action[given == 2] == KEEP).all())
    assert torch.equal(found.is_issue, wrong)


def test_a_change_that_the_run_did_not_make_is_worth_a_look_and_never_made() -> None:
    given, wrong, losses, target = example()
    found = find(losses, target, target, given, given, None, (0.2, 0.1, 0.2))  # nothing was corrected
    assert not bool((found.action == RELABEL).any())
    assert bool((found.action[wrong] == REVIEW).all())


def test_a_run_writes_a_row_per_sample_in_the_order_of_the_data(tmp_path: Path) -> None:
    settings = {
        "data": "moons",
        "noise": {"name": "symmetric", "rate": 0.3},
        "method": {"name": "selc", "start": 2, "alpha": 0.5},
        "net": {"name": "mlp", "hidden": [16]},
        "train": {"epochs": 5},
    }
    run = execute(Config.resolve(settings), tmp_path / "run")
    with open(run.path / "label_issues.csv") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert [row["sample_id"] for row in rows] == [str(i) for i in range(2000)]
    assert [row["given_label"] for row in rows] == [run.classes[k] for k in run.given.tolist()]
    assert [row["suggested_label"] for row in rows] == [run.classes[k] for k in run.targets().argmax(1).tolist()]
    assert all(0 <= float(row["label_quality"]) <= 1 for row in rows)
    assert {row["action"] for row in rows} <= set(ACTIONS)
    for row in rows:
        changed = row["suggested_label"] != row["given_label"]
        assert (row["is_label_issue"] == "True") == (changed and row["action"] != "keep")
        assert changed or row["action"] != "relabel"
    import pyarrow.parquet as pq

    table = pq.read_table(run.path / "label_issues.parquet")
    assert table.column_names == list(COLUMNS)
    assert table["action"].to_pylist() == [row["action"] for row in rows]
    again = RunFolder.open(run.path).findings()
    assert [ACTIONS[a] for a in again.action.tolist()] == [row["action"] for row in rows]
    counts = run.summary["actions"]
    assert counts["relabel"] == sum(row["action"] == "relabel" for row in rows)
