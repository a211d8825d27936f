"""The table of findings: what a label is worth, and what to do with it."""

from __future__ import annotations

import csv
import math
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from selc.analysis import analyse
from selc.analysis.findings import ACTIONS, COLUMNS, KEEP, RELABEL, REVIEW, Findings
from selc.runs import Config, RunFolder, execute
from selc.types import Outcome
from tests.helpers import random_targets, rng, stored

MOONS = {"data": "moons", "noise": {"name": "symmetric", "rate": 0.3}, "net": {"name": "mlp", "hidden": [16]}}


def table(run: RunFolder, name: str = "label_issues.csv") -> list[dict[str, str]]:
    with open(run.path / name, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that judged by held-out samples."""
    settings = {"data": "digits", "noise": {"name": "symmetric", "rate": 0.4}, "net": {"name": "mlp", "hidden": [32]}}
    plan = {"train": {"epochs": 12, "lr": 0.02}}
    return execute(Config.resolve({**settings, **plan}), tmp_path_factory.mktemp("judged") / "run")


@pytest.fixture(scope="module")
def believing(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that held nothing out: its start was given."""
    method = {"name": "selc", "start": 2, "alpha": 0.5}
    settings = {**MOONS, "method": method, "train": {"epochs": 5}}
    return execute(Config.resolve(settings), tmp_path_factory.mktemp("believing") / "run")


# One table


def test_an_issue_has_another_label_and_something_to_do() -> None:
    given, suggested = torch.tensor([0, 0, 0, 0]), torch.tensor([1, 1, 1, 0])
    share = torch.full((4,), 0.5)
    found = Findings(given, given, suggested, share, share, torch.tensor([KEEP, REVIEW, RELABEL, REVIEW]))
    assert found.is_issue.tolist() == [False, True, True, False]


def test_columns_are_of_the_kind_that_ids_and_classes_are_given_as() -> None:
    given, suggested = torch.tensor([0, 1]), torch.tensor([1, 1])
    quality = torch.tensor([0.12345678, 1.0])
    found = Findings(given, suggested, suggested, quality, quality, torch.tensor([RELABEL, KEEP]))
    columns = found.columns([10, 20], ["cat", "dog"])
    assert tuple(columns) == COLUMNS
    assert columns["sample_id"].tolist() == [10, 20]
    assert columns["given_label"].tolist() == ["cat", "dog"]
    assert columns["predicted_label"].tolist() == columns["suggested_label"].tolist() == ["dog", "dog"]
    assert columns["label_quality"].tolist() == [0.123457, 1.0]
    assert columns["action"].tolist() == ["relabel", "keep"]
    assert columns["is_label_issue"].tolist() == [True, False]
    numbers = found.columns(["a", "b"], np.arange(2))
    assert numbers["given_label"].tolist() == [0, 1]
    assert numbers["sample_id"].tolist() == ["a", "b"]


# Quality where nothing was held out


def outcome(losses: Tensor, target: Tensor) -> Outcome:
    nothing = torch.full(losses.shape, -1)
    predictions = torch.where(torch.isnan(losses), -1, 0)
    return Outcome(nn.Identity(), stored(target), stored(target), losses, predictions, nothing.float(), nothing)


def test_without_held_out_samples_quality_is_the_geometric_mean_probability_of_the_label() -> None:
    losses = torch.rand(20, 5, generator=rng(0)) * 3
    found = analyse(outcome(losses, random_targets(5, 3, seed=1)), torch.tensor([0, 1, 2, 0, 1]), 3).findings
    by_hand = [math.exp(-sum(float(losses[e, i]) for e in range(20)) / 20) for i in range(5)]
    assert found.quality.tolist() == pytest.approx(by_hand)


def test_samples_that_were_never_recorded_are_judged_by_their_target() -> None:
    losses = torch.full((4, 3), torch.nan)
    losses[2, 0] = 0.5  # seen once
    target, given = random_targets(3, 3, seed=1), torch.tensor([0, 1, 2])
    quality = analyse(outcome(losses, target), given, 3).findings.quality
    assert float(quality[0]) == pytest.approx(math.exp(-0.5))
    assert quality[1:].tolist() == pytest.approx([float(target[1, 1]), float(target[2, 2])])


# The files of a run


@pytest.mark.parametrize("which", ["judged", "believing"])
def test_a_run_writes_a_row_per_sample_in_the_order_of_the_data(which: str, request: pytest.FixtureRequest) -> None:
    run: RunFolder = request.getfixturevalue(which)
    rows = table(run)
    assert tuple(rows[0]) == COLUMNS
    assert [row["sample_id"] for row in rows] == run.ids
    assert [row["given_label"] for row in rows] == [run.classes[k] for k in run.given.tolist()]
    assert all(0 <= float(row[name]) <= 1 for row in rows for name in ("label_quality", "suggested_confidence"))
    assert {row["action"] for row in rows} <= set(ACTIONS)
    for row in rows:
        changed = row["suggested_label"] != row["given_label"]
        assert (row["is_label_issue"] == "True") == (changed and row["action"] != "keep")
        assert changed or row["action"] != "relabel"
    parquet = pq.read_table(run.path / "label_issues.parquet")
    assert parquet.column_names == list(COLUMNS)
    assert parquet["action"].to_pylist() == [row["action"] for row in rows]
    counts = {action: sum(row["action"] == action for row in rows) for action in ACTIONS}
    assert run.summary["actions"] == counts


@pytest.mark.parametrize("which", ["judged", "believing"])
def test_findings_come_back_as_they_were_written(which: str, request: pytest.FixtureRequest) -> None:
    run: RunFolder = request.getfixturevalue(which)
    rows, again = table(run), RunFolder.open(run.path).findings()
    columns: dict[str, Any] = again.columns(run.ids, run.classes)
    for name in ("action", "suggested_label", "predicted_label"):
        assert columns[name].tolist() == [row[name] for row in rows]
    for name in ("label_quality", "suggested_confidence"):
        assert columns[name].tolist() == pytest.approx([float(row[name]) for row in rows], abs=1e-9)


def test_with_held_out_samples_the_corrected_labels_are_those_to_relabel(judged: RunFolder) -> None:
    rows, corrected = table(judged), table(judged, "corrected_labels.csv")
    assert judged.summary["actions"]["relabel"] > 0
    assert judged.summary["actions"]["review"] > 0
    for row, label in zip(rows, corrected, strict=True):
        assert label["corrected_label"] == row["suggested_label" if row["action"] == "relabel" else "given_label"]
    found = judged.findings()
    assert judged.summary["changed"] == pytest.approx(judged.summary["actions"]["relabel"] / len(rows))
    assert float(found.confidence[found.action == RELABEL].min()) > 0.5


def test_without_them_what_the_method_believes_is_handed_out_and_for_review(believing: RunFolder) -> None:
    rows, corrected = table(believing), table(believing, "corrected_labels.csv")
    believed = [believing.classes[k] for k in believing.targets().argmax(1).tolist()]
    assert [row["suggested_label"] for row in rows] == believed
    assert [row["corrected_label"] for row in corrected] == believed
    assert believing.summary["actions"]["relabel"] == 0
    changed = sum(row["suggested_label"] != row["given_label"] for row in rows)
    assert 0 < changed == believing.summary["actions"]["review"]
