"""The next round: verdicts of a person are never changed, alone or on top of labels that a run corrected."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selc._io.files import read_tensors
from selc.analysis.findings import KEEP
from selc.data.sources.recognise import choice_for
from selc.errors import InputError
from selc.runs import Config, RunFolder, execute, fit, resume
from selc.runs.cleaned import SOURCES
from selc.runs.decisions import fingerprint
from tests.own_data.miniature import write_csv
from tests.test_cli import call, refused
from tests.test_review import Quiet
from tests.tiers import exhaustive
from tests.toy import BrokenOffError, StopAfter

NET = ["--set", "net.hidden=[16]", "--epochs", "12", "--batch-size", "20", "--lr", "0.05"]
# Where it does not matter when correction starts: to decide that takes five more trainings.
GIVEN = ["--set", "method.start=4"]


def write_data(path: Path, ids: bool = True) -> Path:
    """Two clouds of 60 points; every sixth label is wrong."""
    rng = np.random.default_rng(0)
    true = np.arange(120) % 2
    x = 2.0 * (2 * true[:, None] - 1) + rng.normal(size=(120, 3))
    given = np.where(np.arange(120) % 6 == 0, 1 - true, true)
    rows = [[f"s{k}", *x[k].round(4), "ab"[given[k]]] for k in range(120)]
    head = ["id", "u", "v", "w", "label"]
    return write_csv(path, head if ids else head[1:], rows if ids else [row[1:] for row in rows])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("first")
    result = call("train", str(write_data(folder / "data.csv")), "--out", str(folder / "run"), *NET, *GIVEN)
    assert result.exit_code == 0, result.output
    return RunFolder.open(folder / "run")


def data_of(run: RunFolder) -> str:
    return str(run.config.data.options["path"])


def decide(run: RunFolder, verdicts: dict[int, str | None], path: Path) -> Path:
    """A file as the page saves it; None drops the sample."""
    made: list[dict[str, Any]] = []
    for row, label in verdicts.items():
        given = run.classes[int(run.given[row])]
        verdict = "drop" if label is None else "keep" if label == given else "other"
        entry = {"sample_id": run.ids[row], "given": given, "suggested": given, "confidence": 0.9}
        made.append({**entry, "verdict": verdict, "label": label})
    content = {"format": 1, "run": fingerprint(run), "samples": len(run.given), "decisions": made}
    path.write_text(json.dumps(content))
    return path


# Rows 0, 6, 12, ... have wrong labels. The person is mistaken about some: what stays is the verdict, not the truth.
VERDICTS: dict[int, str | None] = {0: "b", 1: "a", 6: "b", 7: "b", 12: None, 13: None}


def check_verified(run: RunFolder) -> None:
    number = {name: k for k, name in enumerate(run.classes)}
    rows = [row for row, label in VERDICTS.items() if label is not None]
    verdict = torch.tensor([number[str(VERDICTS[row])] for row in rows])
    assert run.verified is not None
    assert run.verified.nonzero().flatten().tolist() == rows
    assert torch.equal(run.given[rows], verdict)
    assert torch.equal(run.corrected()[rows], verdict)
    assert torch.equal(run.targets()[rows], torch.eye(2)[verdict])
    findings = run.findings()
    assert findings.action[list(VERDICTS)].tolist() == [KEEP] * len(VERDICTS)
    assert torch.equal(findings.suggested[rows], verdict)
    with open(run.path / "label_issues.csv") as file:
        table = list(csv.DictReader(file))
    for row in rows:
        assert (table[row]["action"], table[row]["is_label_issue"]) == ("keep", "False")
        assert table[row]["suggested_label"] == VERDICTS[row]
    losses = run.records().losses
    dropped = [row for row, label in VERDICTS.items() if label is None]
    assert bool(losses[:, dropped].isnan().all())
    assert not bool(losses[:, rows].isnan().any())


@pytest.mark.parametrize("method", ["selc", "ce", *exhaustive("selc+", "joint-opt")])
def test_verdicts_alone_are_held_on_the_given_labels(first: RunFolder, method: str, tmp_path: Path) -> None:
    path = decide(first, VERDICTS, tmp_path / "decisions.json")
    out = tmp_path / "run"
    flags = ["--verified", str(path), "--method", method, "--out", str(out), *(GIVEN if method == "selc+" else [])]
    result = call("train", data_of(first), *flags, *NET)
    assert result.exit_code == 0, result.output
    second = RunFolder.open(out)
    check_verified(second)
    others = [row for row in range(120) if row not in VERDICTS]
    assert torch.equal(second.given[others], first.given[others])


def test_verdicts_are_held_on_top_of_cleaned_labels_and_carry_over_to_the_round_after(
    first: RunFolder, tmp_path: Path
) -> None:
    path = decide(first, VERDICTS, tmp_path / "decisions.json")
    cleaned = tmp_path / "cleaned"
    assert call("apply", str(first.path), "--decisions", str(path), "--out", str(cleaned)).exit_code == 0
    runs = []
    for name, flags in (("both", ["--verified", str(path)]), ("table", [])):
        out = tmp_path / name
        result = call("train", data_of(first), "--labels", str(cleaned), *flags, "--out", str(out), *NET, *GIVEN)
        assert result.exit_code == 0, result.output
        runs.append(RunFolder.open(out))
        check_verified(runs[-1])
    assert torch.equal(runs[0].given, runs[1].given)
    # A second review, of the second run; the verdicts of the first stay human, its drops stay dropped.
    later = decide(runs[0], {20: "b"}, tmp_path / "later.json")
    again = tmp_path / "again"
    assert call("apply", str(runs[0].path), "--decisions", str(later), "--out", str(again)).exit_code == 0
    with open(again / "cleaned.csv") as file:
        source = [row["source"] for row in csv.DictReader(file)]
    assert set(source) <= set(SOURCES)
    expected = {row: "dropped" if label is None else "human" for row, label in VERDICTS.items()} | {20: "human"}
    assert {row: kind for row, kind in enumerate(source) if kind in ("human", "dropped")} == expected
    # Verdicts on the labels of the second run fit on the labels that it started from.
    out = tmp_path / "third"
    flags = ["--labels", str(cleaned), "--verified", str(later), "--out", str(out)]
    result = call("train", data_of(first), *flags, *NET, *GIVEN)
    assert result.exit_code == 0, result.output
    verified = RunFolder.open(out).verified
    assert verified is not None
    assert verified.nonzero().flatten().tolist() == sorted([0, 1, 6, 7, 20])


def test_soft_targets_of_a_run_are_one_hot_where_a_person_decided(first: RunFolder, tmp_path: Path) -> None:
    path = decide(first, VERDICTS, tmp_path / "decisions.json")
    out = tmp_path / "run"
    flags = ["--labels", str(first.path), "--soft", "--verified", str(path), "--method", "ce", "--out", str(out)]
    assert call("train", data_of(first), *flags, *NET).exit_code == 0
    second = RunFolder.open(out)
    check_verified(second)
    soft = second.given_targets()
    assert soft is not None
    assert soft.full()[1].tolist() == [1.0, 0.0]
    others = [row for row in range(120) if row not in VERDICTS]
    assert torch.equal(soft.full()[others], first.targets()[others])


@pytest.mark.filterwarnings("ignore:.* far from all others")
def test_a_run_with_verdicts_goes_on_after_an_interrupt_without_the_file(first: RunFolder, tmp_path: Path) -> None:
    path = decide(first, VERDICTS, tmp_path / "decisions.json")
    settings = {
        "data": choice_for(data_of(first)),
        "labels": {"verified": str(path)},
        "method": {"name": "selc", "start": 2},
        "net": {"name": "mlp", "hidden": [16]},
        "train": {"epochs": 12, "batch_size": 20, "lr": 0.05},
    }
    whole = execute(Config.resolve(settings), tmp_path / "whole", [Quiet()])
    with pytest.raises(BrokenOffError):
        execute(Config.resolve(settings), tmp_path / "broken", [StopAfter(4)])
    path.unlink()
    broken = resume(tmp_path / "broken", [Quiet()])
    check_verified(broken)
    ours, theirs = (read_tensors(run.path / "targets.safetensors") for run in (whole, broken))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_rows_that_were_dropped_are_not_held_out_for_validation_either(first: RunFolder, tmp_path: Path) -> None:
    path = decide(first, dict.fromkeys(range(60)), tmp_path / "decisions.json")
    out = tmp_path / "run"
    flags = ["--verified", str(path), "--method", "ce", "--val-fraction", "0.2", "--out", str(out)]
    assert call("train", data_of(first), *flags, *NET).exit_code == 0
    seen = ~RunFolder.open(out).records().losses[0].isnan()
    assert not bool(seen[:60].any())
    assert int(seen.sum()) == 48  # of the 60 that are left a fifth is held out


def test_verdicts_about_other_data_are_refused_before_a_folder_is_made(first: RunFolder, tmp_path: Path) -> None:
    good = decide(first, VERDICTS, tmp_path / "good.json")
    out = str(tmp_path / "run")
    moons = refused("train", "moons", "--verified", str(good), "--out", out)
    assert "the very same labels and data" in moons
    other = write_csv(tmp_path / "other.csv", ["id", "u", "label"], [[f"t{k}", k, "ab"[k % 2]] for k in range(40)])
    assert "which the data do not have" in refused("train", str(other), "--verified", str(good), "--out", out)
    turned = write_csv(tmp_path / "turned.csv", ["id", "u", "label"], [[f"s{k}", k, "ab"[k // 60]] for k in range(120)])
    assert "the given label of" in refused("train", str(turned), "--verified", str(good), "--out", out)
    (tmp_path / "half.json").write_text(good.read_text()[:-20])
    assert "whole JSON" in refused("train", data_of(first), "--verified", str(tmp_path / "half.json"), "--out", out)
    gone = refused("train", data_of(first), "--verified", str(tmp_path / "gone.json"), "--out", out)
    assert "gone.json" in gone
    everything = decide(first, dict.fromkeys(range(120)), tmp_path / "all.json")
    assert "leave samples" in refused("train", data_of(first), "--verified", str(everything), "--out", out)
    assert not Path(out).exists()


def test_samples_without_names_need_a_review_of_the_very_same_labels(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.csv", ids=False)
    assert call("train", str(data), "--out", str(tmp_path / "run"), *NET, *GIVEN).exit_code == 0
    run = RunFolder.open(tmp_path / "run")
    path = decide(run, VERDICTS, tmp_path / "decisions.json")
    out = tmp_path / "second"
    assert call("train", str(data), "--verified", str(path), "--out", str(out), *NET, *GIVEN).exit_code == 0
    check_verified(RunFolder.open(out))
    noisy = ["--noise", "symmetric", "--rate", "0.5"]
    third = str(tmp_path / "third")
    assert "very same" in refused("train", str(data), *noisy, "--verified", str(path), "--out", third, *NET)


def test_one_call_holds_the_rows_that_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    true = np.arange(120) % 2
    x = (2.0 * (2 * true[:, None] - 1) + rng.normal(size=(120, 3))).astype(np.float32)
    given = np.where(np.arange(120) % 6 == 0, 1 - true, true)
    settings: dict[str, Any] = {
        "epochs": 12,
        "batch_size": 20,
        "lr": 0.05,
        "callbacks": [Quiet()],
        "options": {"start": 4},
    }
    mask = np.zeros(120, dtype=bool)
    mask[[0, 6]] = True
    for verified in ([0, 6], mask, torch.tensor([0, 6])):
        outcome = fit(x, given, verified=verified, **settings)
        assert outcome.corrected_names[[0, 6]].tolist() == given[[0, 6]].tolist()
        with pytest.warns(DeprecationWarning, match="use corrected_names"):
            assert (outcome.corrected_labels_ == outcome.corrected_names).all()
        assert outcome.label_issues_["action"][[0, 6]].tolist() == ["keep", "keep"]
    run = fit(x, given, verified=[0, 6], out=tmp_path / "run", **settings)
    kept = RunFolder.open(tmp_path / "run").verified
    assert kept is not None
    assert kept.nonzero().flatten().tolist() == [0, 6]
    with pytest.warns(DeprecationWarning, match="use selc.RunFolder.verified"):
        before = RunFolder.open(tmp_path / "run").held  # the name that it had in 0.1.0
    assert before is not None
    assert torch.equal(before, kept)
    assert torch.equal(run.target.read(torch.tensor([0, 6])), torch.eye(2)[given[[0, 6]]])
    for wrong in ([0, 120], [-1], np.zeros(3, dtype=bool), [0.5], "decisions.json"):
        with pytest.raises(InputError, match="verified must be"):
            fit(x, given, verified=wrong, **settings)
