"""Trainings whose tables are kept in other forms than dense: what does not fit must change nothing else."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from selc.callbacks import Callback
from selc.data import ArrayInputs
from selc.errors import RunFolderError
from selc.methods import METHODS, create
from selc.runs import Config, RunFolder, execute
from selc.training import Plan, Trainer
from selc.types import Labels, Outcome, TrainSet
from tests.contract.test_methods import quick
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, fit, results

FORMS = ["half", "disk", "top-k"]


@pytest.fixture(autouse=True)
def nothing_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data here have few classes; top-k keeps the largest entries of them all the same."""
    monkeypatch.setattr("selc.memory.topk.Whole.fits", lambda columns: False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_the_same_bits_on_disk_and_where_top_k_keeps_all_classes(name: str) -> None:
    dense = results(fit(quick(name), store="dense"))
    for form in ("disk", "top-k"):
        outcome = fit(quick(name), store=form)
        assert outcome.probs.form == form
        assert_same_bits(dense, results(outcome))


# crust chooses among samples that are almost alike, so that a rounding is enough for another choice.
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(METHODS) - {"crust"}))
def test_every_method_ends_near_by_in_16_bits(name: str) -> None:
    dense, half = fit(quick(name), store="dense"), fit(quick(name), store="half")
    assert half.probs.form == "half"
    close = torch.isclose(half.probs.full(), dense.probs.full(), atol=0.02).all(dim=1)
    assert float(close.float().mean()) > 0.9  # a method that selects may select otherwise here and there
    same = half.corrected_labels == dense.corrected_labels
    assert float(same.float().mean()) > 0.9


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_is_broken_off_ends_with_the_same_bits(form: str, tmp_path: Path) -> None:
    whole = results(fit(quick("selc+"), tmp_path / "whole", store=form))
    with pytest.raises(BrokenOffError):
        fit(quick("selc+"), tmp_path / "broken", StopAfter(8), store=form)
    assert_same_bits(whole, results(fit(quick("selc+"), tmp_path / "broken", store=form)))
    assert not list(tmp_path.rglob(".selc-table-*"))


def wide(rows: int, classes: int) -> TrainSet:
    """Clouds of points around as many centres as there are classes, with a fifth of the labels wrong."""
    rng = torch.Generator().manual_seed(0)
    label = torch.arange(rows) % classes
    centres = 3 * torch.randn(classes, 16, generator=rng)
    given = label.clone()
    given[: rows // 5] = torch.randint(classes, (rows // 5,), generator=rng)
    return TrainSet(ArrayInputs(centres[label] + 0.3 * torch.randn(rows, 16, generator=rng)), Labels(given, classes))


def test_of_many_classes_the_corrected_labels_are_those_of_the_dense_table() -> None:
    data = wide(2000, 100)

    def net(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, outputs))

    def train(form: Any) -> Outcome:
        plan = Plan(epochs=12, lr=0.2, batch_size=64, schedule="constant", store=form, device="cpu")
        return Trainer(plan, net).fit(create("selc", {"start": 3, "alpha": 0.8}), data)

    dense, kept = train("dense"), train("top-k")
    assert kept.target.form == "top-k"
    assert kept.target.bytes_per_row <= 64
    changed = dense.corrected_labels != data.labels.hard
    assert float(changed.float().mean()) > 0.1
    assert float((kept.corrected_labels == dense.corrected_labels).float().mean()) >= 0.999


class Notices(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []

    def on_notice(self, text: str) -> bool:
        self.said.append(text)
        return True


def test_auto_says_what_it_has_chosen_and_a_resumed_run_stays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("selc.training.stages.free_bytes", lambda device: 1000)
    notices = Notices()
    outcome = fit(quick("elr"), tmp_path, notices, store="auto")
    assert outcome.target.form == "disk"
    assert any("90 x 3 numbers" in sentence and "on disk" in sentence for sentence in notices.said)
    monkeypatch.setattr("selc.training.stages.free_bytes", lambda device: 10**12)
    assert fit(quick("elr"), tmp_path, Notices(), store="auto").target.form == "disk"
    assert fit(quick("elr"), store="auto").target.form == "dense"


@pytest.mark.parametrize("form", FORMS)
def test_a_run_folder_tells_the_same_whatever_the_form(form: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "data": "digits",
        "noise": {"name": "symmetric", "rate": 0.3},
        "method": {"name": "selc", "start": 2, "alpha": 0.5},
        "net": {"name": "mlp", "hidden": [32]},
    }
    runs = {}
    for store in ("dense", form):
        train = {"epochs": 6, "lr": 0.1, "store": store}
        runs[store] = execute(Config.resolve({**settings, "train": train}), tmp_path / store)
    dense, other = runs["dense"], runs[form]
    assert other.table("target").form == {"half": "half", "disk": "dense", "top-k": "top-k"}[form]
    assert other.targets().shape == dense.targets().shape
    same = (other.corrected() == dense.corrected()).float().mean()
    assert float(same) >= 0.995
    with open(other.path / "label_issues.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["suggested_label"] for row in rows] == [
        other.classes[k] for k in other.table("target").argmax().tolist()
    ]
    found = other.findings()  # worked out again from the files
    assert [row["is_label_issue"] == "True" for row in rows] == found.is_issue.tolist()
    labels = {"path": str(other.path), "kind": "soft"}
    another = {**settings, "noise": {}, "method": {"name": "ce"}, "labels": labels, "train": {"epochs": 1}}
    again = execute(Config.resolve(another), tmp_path / "again")
    soft = again.given_targets()
    assert soft is not None
    assert torch.equal(soft.full(), RunFolder.open(other.path).targets())


def test_a_disk_without_space_is_a_sentence_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(RunFolderError, match=r"a table on disk needs .* No space left on device"):
        fit(quick("selc"), tmp_path, store="disk")
