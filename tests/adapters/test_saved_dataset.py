"""A saved dataset of Hugging Face comes back from `selc apply` as a dataset, and one in Python as such."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import selc
from selc.analysis.findings import KEEP, RELABEL
from selc.errors import ConfigError
from selc.runs import RunFolder
from selc.runs.config import Config
from selc.runs.decisions import FORMAT, fingerprint
from selc.runs.job import execute
from tests.adapters.test_datasets import dataset

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
NEW = ["given_label", "label_source", "label_quality"]
QUICK = {"method": {"name": "ce"}, "train": {"epochs": 1}, "net": {"name": "mlp"}}


@pytest.fixture
def sure(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of which every run is sure that they have the next class."""
    rows = [3, 50]
    real = RunFolder.findings

    def findings(self: RunFolder) -> Any:
        found = real(self)
        suggested, action = found.given.clone(), torch.full_like(found.action, KEEP)
        for row in rows:
            suggested[row], action[row] = (found.given[row] + 1) % len(self.classes), RELABEL
        return type(found)(**{**vars(found), "suggested": suggested, "action": action})

    monkeypatch.setattr(RunFolder, "findings", findings)
    return rows


def trained(place: Path, out: Path) -> RunFolder:
    return execute(Config.resolve({"data": {"name": "hub", "path": str(place)}, **QUICK}), out)


def applied(run: Path, out: Path, *more: object) -> str:
    from typer.testing import CliRunner

    from selc.cli import app

    result = CliRunner().invoke(app, ["apply", str(run), "--out", str(out), *map(str, more)])
    assert result.exit_code == 0, result.output
    return result.output


def dropping(run: RunFolder, row: int, place: Path) -> Path:
    """The file of a reviewer who dropped a row."""
    given = run.classes[run.given[row]]
    made = {"sample_id": run.ids[row], "given": given, "suggested": given, "verdict": "drop", "label": None}
    file = {"format": FORMAT, "run": fingerprint(run), "samples": len(run.ids)}
    place.write_text(json.dumps({**file, "decisions": [made]}))
    return place


@pytest.mark.parametrize("kind", ["names", "classes"])
def test_a_saved_dataset_comes_back_with_its_columns_and_types(kind: str, sure: list[int], tmp_path: Path) -> None:
    from datasets import Value, load_from_disk

    before = dataset(kind)
    before.save_to_disk(tmp_path / "mine")
    run = trained(tmp_path / "mine", tmp_path / "run")
    said = applied(run.path, tmp_path / "out", "--decisions", dropping(run, 7, tmp_path / "decisions.json"))
    assert "mine: 2 labels corrected" in said
    after = load_from_disk(tmp_path / "out" / "mine")
    assert after.column_names == [*before.column_names, *NEW]
    assert after.features["label"] == after.features["given_label"] == before.features["label"]
    assert after.features["label_quality"] == Value("float64")
    kept = [row for row in range(len(before)) if row != 7]
    assert (
        after.select_columns(["a", "b", "c"]).to_dict() == before.select(kept).select_columns(["a", "b", "c"]).to_dict()
    )
    assert list(after["given_label"]) == list(before.select(kept)["label"])
    for new, row in zip(after, kept, strict=True):
        known = run.classes.index(before[row]["label"]) if kind == "names" else before[row]["label"]
        label = (known + 1) % 3 if row in sure else known
        assert new["label"] == (run.classes[label] if kind == "names" else label)
        assert new["label_source"] == ("relabelled" if row in sure else "given")
        assert 0 <= new["label_quality"] <= 1
    assert load_from_disk(tmp_path / "mine").to_dict() == before.to_dict()  # the original is not touched


def test_of_several_parts_the_others_stay_and_images_stay_bytes(sure: list[int], tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, load_from_disk
    from PIL import Image as Pillow

    def part(rows: int) -> Dataset:
        rng, images = np.random.default_rng(rows), []
        for _ in range(rows):
            Pillow.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(file := io.BytesIO(), "png")
            images.append({"bytes": file.getvalue(), "path": None})
        features = Features({"image": Image(), "label": ClassLabel(names=["ant", "bee"])})
        return Dataset.from_dict({"image": images, "label": [k % 2 for k in range(rows)]}, features=features)

    before = DatasetDict({"train": part(60), "test": part(6)})
    before.save_to_disk(tmp_path / "cleaned")
    run = trained(tmp_path / "cleaned", tmp_path / "run")
    applied(run.path, tmp_path / "out")
    after = load_from_disk(tmp_path / "out" / "cleaned-dataset")
    assert after["test"].column_names == ["image", "label"]
    assert after["train"].column_names == ["image", "label", *NEW]
    assert after["train"].features["image"] == Image()
    raw = [each.with_format("arrow")[:]["image"].to_pylist() for each in (before["train"], after["train"])]
    assert raw[0] == raw[1]
    changed = [k for k in range(60) if after["train"][k]["label"] != before["train"][k]["label"]]
    assert changed == sure


def test_a_dataset_in_python_comes_back_the_same_way(sure: list[int], tmp_path: Path) -> None:
    from datasets import DatasetDict

    from selc.integrations.datasets import cleaned

    before = dataset("classes")
    selc.fit(before, method="ce", epochs=1, out=tmp_path / "run")
    after = cleaned(before, tmp_path / "run")
    assert [k for k in range(len(before)) if after[k]["label"] != before[k]["label"]] == sure
    assert [k for k in range(len(before)) if after[k]["label_source"] == "relabelled"] == sure
    decisions = dropping(RunFolder.open(tmp_path / "run"), 3, tmp_path / "decisions.json")
    assert len(cleaned(before, tmp_path / "run", decisions)) == len(before) - 1
    alone = cleaned(before, tmp_path / "run", decisions, human_only=True)
    assert list(alone["label"]) == [label for k, label in enumerate(before["label"]) if k != 3]
    both = cleaned(DatasetDict({"train": before, "test": before}), tmp_path / "run")
    assert both["test"].column_names == before.column_names
    assert both["train"].to_dict() == after.to_dict()
    with pytest.raises(ConfigError, match="human_only needs decisions"):
        cleaned(before, tmp_path / "run", human_only=True)


def test_in_python_a_run_of_the_command_knows_its_columns(sure: list[int], tmp_path: Path) -> None:
    from datasets import load_from_disk

    from selc.integrations.datasets import cleaned

    before = dataset("classes").rename_column("label", "kind")
    before = before.add_column("who", [f"row {k}" for k in range(len(before))])
    before.save_to_disk(tmp_path / "mine")
    data = {"name": "hub", "path": str(tmp_path / "mine"), "label_column": "kind", "id_column": "who"}
    run = execute(Config.resolve({"data": data, **QUICK}), tmp_path / "run")
    applied(run.path, tmp_path / "out")
    after = cleaned(before, run)
    assert [k for k in range(len(before)) if after[k]["kind"] != before[k]["kind"]] == sure
    assert after.to_dict() == load_from_disk(tmp_path / "out" / "mine").to_dict()
