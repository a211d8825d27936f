"""What a path holds, and which settings suit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from selc.data import DATASETS, RECIPES
from selc.data.sources.hub import hub
from selc.data.sources.image_folder import folder as folder_loader
from selc.data.sources.npz import npz
from selc.data.sources.recognise import choice_for, suits
from selc.data.sources.tables import table
from selc.errors import InputError
from selc.training import Plan
from tests.own_data.miniature import folder, options_for

LOADERS = {"folder": folder_loader, "table": table, "npz": npz, "hub": hub}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a.csv", "table"),
        ("a.TSV", "table"),
        ("a.parquet", "table"),
        ("a.npz", "npz"),
    ],
)
def test_a_file_is_known_by_its_ending(tmp_path: Path, file: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    expected = {"name": name, "path": str(tmp_path / file), "skip_bad": True, "val": str(tmp_path / file)}
    assert choice_for(file, skip_bad=True, test=None, val=file) == expected
    with pytest.raises(InputError, match=r"test must be a path that exists; got 'nowhere.csv'"):
        choice_for(file, test="nowhere.csv")


def test_a_folder_is_known_by_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choice_for("~/data") == {"name": "folder", "path": str(tmp_path / "data")}


def test_anything_else_is_told_what_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    for path, got in ((tmp_path / "a.zip", "got the file"), (tmp_path, "which has no sub-folders")):
        with pytest.raises(InputError, match=rf"data must be a folder with a sub-folder of images or .*{got}"):
            choice_for(str(path))
    (tmp_path / "labels.csv").touch()
    with pytest.raises(InputError, match=r"Do you mean .*labels.csv\?"):
        choice_for(str(tmp_path))
    with pytest.raises(InputError, match="data must be a path that exists; got 'nowhere'"):
        choice_for("nowhere")


@pytest.mark.parametrize("name", LOADERS)
def test_own_data_is_a_dataset_by_name_and_needs_a_path(name: str) -> None:
    assert DATASETS[name] is LOADERS[name]
    with pytest.raises(InputError, match=r"path must be the path of your data; got none.* say \./texts"):
        DATASETS[name]()
    assert name in RECIPES


@pytest.mark.parametrize("name", ["folder", "table", "npz"])
def test_each_form_loads_as_a_dataset(name: str, tmp_path: Path) -> None:
    options = options_for(name, tmp_path)
    bundle = DATASETS[name](**DATASETS.checked(name, options))
    assert bundle.labels.unique().tolist() == [0, 1, 2]
    assert len(bundle.tests["test"].labels) > 0
    assert bundle.digest
    assert bundle.recipe is not None


@pytest.mark.parametrize("side", [None, 8, 32, 224])
@pytest.mark.parametrize("rows", [1, 10, 200, 2_000, 20_000, 200_000, 2_000_000])
def test_what_suits_is_a_valid_plan_with_enough_steps_and_not_too_many(rows: int, side: int | None) -> None:
    recipe = suits(rows, side)
    plan = Plan(**recipe.plan)
    steps = plan.epochs * rows / plan.batch_size
    assert 8 <= plan.batch_size <= 128
    assert plan.epochs >= 20
    if rows >= 200:
        assert steps >= 800
    assert recipe.net == ("mlp" if side is None else "cnn" if rows < 5_000 and side <= 64 else "resnet18")


def test_more_rows_never_get_more_epochs_or_smaller_batches() -> None:
    plans: list[dict[str, Any]] = [dict(suits(rows).plan) for rows in (50, 200, 1_000, 5_000, 50_000, 500_000)]
    assert [p["epochs"] for p in plans] == sorted((p["epochs"] for p in plans), reverse=True)
    assert [p["batch_size"] for p in plans] == sorted(p["batch_size"] for p in plans)
