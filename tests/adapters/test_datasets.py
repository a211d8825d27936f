"""Datasets of Hugging Face: in by `selc.fit`, out with corrected labels; and cleanlab's Datalab on what we hand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import selc
from selc.analysis import LabelAnalysis, analyse_probabilities
from selc.errors import ConfigError, InputError

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
N, NAMES = 120, ["ant", "bee", "cow"]


def given() -> tuple[Any, Any]:
    """True labels, and those of which every tenth is wrong."""
    true = np.arange(N) % 3
    return true, np.where(np.arange(N) % 10 == 0, (true + 1) % 3, true)


def points() -> Any:
    return np.eye(3)[given()[0]] * 4 + np.random.default_rng(0).normal(size=(N, 3))


def dataset(kind: str) -> Any:
    from datasets import ClassLabel, Dataset, Features, Value

    labels = given()[1]
    columns = {"a": points()[:, 0], "b": points()[:, 1], "c": points()[:, 2]}
    values = [NAMES[k] for k in labels] if kind == "names" else labels.tolist()
    feature = {"names": Value("string"), "numbers": Value("int64"), "classes": ClassLabel(names=NAMES)}[kind]
    features = Features({**{name: Value("float64") for name in "abc"}, "label": feature})
    return Dataset.from_dict({**columns, "label": values}, features=features)


def analysis() -> LabelAnalysis:
    true, labels = given()
    probs = np.full((N, 3), 0.005)
    probs[np.arange(N), true] = 0.99
    return analyse_probabilities(probs, labels)


@pytest.mark.parametrize("kind", ["names", "numbers", "classes"])
def test_findings_are_columns_of_the_dataset(kind: str, tmp_path: Path) -> None:
    from datasets import load_from_disk

    from selc.integrations.datasets import with_findings

    before, found = dataset(kind), analysis()
    after = with_findings(before, found)
    assert after.column_names == ["a", "b", "c", "label", "given_label", "label_source", "label_quality"]
    assert after.features["label"] == after.features["given_label"] == before.features["label"]
    assert list(after["given_label"]) == list(before["label"])
    true = given()[0].tolist()
    assert [k for k in range(N) if after["label"][k] != (NAMES[true[k]] if kind == "names" else true[k])] == [
        k for k in range(N) if found.corrected[k] != true[k]
    ]
    assert list(after["label_quality"]) == pytest.approx(found.findings.quality.tolist())
    same = [a == b for a, b in zip(before["label"], after["label"], strict=True)]
    assert list(after["label_source"]) == ["given" if kept else "relabelled" for kept in same]
    after.save_to_disk(tmp_path / "cleaned")
    assert list(load_from_disk(tmp_path / "cleaned")["label"]) == list(after["label"])


@pytest.mark.parametrize("kind", ["names", "classes"])
def test_a_training_on_a_dataset_goes_back_into_it(kind: str, tmp_path: Path) -> None:
    from selc.integrations.datasets import with_findings

    outcome = selc.fit(dataset(kind), method="ce", epochs=2, out=tmp_path / "run")
    by_outcome, by_run = with_findings(dataset(kind), outcome), with_findings(dataset(kind), tmp_path / "run")
    assert list(by_outcome["given_label"]) == list(dataset(kind)["label"])
    assert list(by_outcome["label"]) == list(by_run["label"])
    assert list(by_outcome["label_quality"]) == pytest.approx(list(by_run["label_quality"]), abs=1e-6)


def test_a_dataset_that_is_another_one_is_refused() -> None:
    from selc.integrations.datasets import with_findings

    found = analysis()
    with pytest.raises(InputError, match="got 119 rows, and 120 labels"):
        with_findings(dataset("classes").select(range(119)), found)
    with pytest.raises(InputError, match="in its order"):
        with_findings(dataset("classes").select(range(N - 1, -1, -1)), found)
    with pytest.raises(InputError, match="label_column must be a column"):
        with_findings(dataset("classes"), found, label_column="target")
    with pytest.raises(InputError, match="'given_label' already"):
        with_findings(with_findings(dataset("classes"), found), found)
    with pytest.raises(ConfigError, match=r"must be a datasets\.Dataset; got list"):
        with_findings([1, 2], found)


def test_datalab_finds_by_our_hand_what_we_found() -> None:
    from cleanlab import Datalab

    found = analysis()
    handed = found.to_cleanlab(classes=NAMES)
    lab = Datalab({"label": handed.labels}, label_name="label", verbosity=0)
    lab.find_issues(pred_probs=handed.pred_probs, issue_types={"label": {}})
    issues = lab.get_issues("label")
    assert issues["is_label_issue"].to_numpy().nonzero()[0].tolist() == list(range(0, N, 10))
    order = torch.from_numpy(issues["label_score"].to_numpy()).argsort(stable=True)[: N // 10]
    assert set(order.tolist()) == set(range(0, N, 10))
