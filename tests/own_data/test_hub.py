"""Datasets of Hugging Face: read through what the library documents, with stand-ins where it is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import selc
from selc.callbacks import Silent
from selc.data import ImageInputs
from selc.data.preprocess.features import FeatureInputs
from selc.data.sources.hub import content_digest, hub, hub_bundle
from selc.data.sources.recognise import choice_for
from selc.errors import ConfigError, InputError
from selc.runs.predict import predict
from tests.own_data.miniature import encoded, flowers, in_order, picture
from tests.own_data.reviews import reviews


class ClassLabel:
    """A feature that knows the names of its classes."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


class Dataset:
    """What the library's Dataset does of that which is used here: rows as an Arrow table, and features by column."""

    def __init__(self, table: Any, features: dict[str, Any] | None = None, arrow: bool = False) -> None:
        self.table, self.features, self.arrow = table, features or {}, arrow

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return Dataset(self.table, self.features, arrow=True)

    def __getitem__(self, rows: slice) -> Any:
        assert self.arrow
        assert rows == slice(None)
        return self.table


Dataset.__module__ = "datasets.arrow_dataset"


def feature_rows(rows: int = 30, seed: int = 0) -> Dataset:
    x, labels = flowers(rows, seed)
    names = ["tulip", "rose", "aster"]
    columns = {f"f{k}": x[:, k] for k in range(4)} | {"label": [names.index(label) for label in labels]}
    return Dataset(pa.table(columns), {"label": ClassLabel(names)})


def image_rows() -> Dataset:
    structs = [{"bytes": encoded(picture(n, k)), "path": None} for n in ("blue", "green", "red") for k in range(4)]
    return Dataset(pa.table({"image": structs, "label": ["blue"] * 4 + ["green"] * 4 + ["red"] * 4}))


def test_features_come_with_the_names_of_their_classes_in_their_order() -> None:
    bundle = hub_bundle({"train": feature_rows(), "test": feature_rows(9, seed=1), "validation": feature_rows(6)})
    assert bundle.classes == ("tulip", "rose", "aster")
    assert [bundle.classes[k] for k in bundle.labels.tolist()] == flowers()[1]
    assert isinstance(bundle.inputs, FeatureInputs)
    x, _ = flowers()
    np.testing.assert_allclose(bundle.inputs.x.numpy(), (x - x.mean(0)) / x.std(0), atol=1e-5)
    assert len(bundle.tests["test"].labels) == 9
    assert bundle.val is not None
    assert len(bundle.val.labels) == 6


def test_images_are_decoded_from_bytes_or_from_the_files_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(encoded(picture("green", 2)))
    table = image_rows().table
    structs = table["image"].to_pylist()
    structs[6] = {"bytes": None, "path": str(tmp_path / "x.png")}
    for part in (image_rows(), Dataset(table.set_column(0, "image", pa.array(structs)))):
        bundle = hub_bundle(part)
        assert isinstance(bundle.inputs, ImageInputs)
        (pixels,) = bundle.inputs.pixels.stream([torch.arange(12)])
        assert np.array_equal(pixels.numpy(), in_order())


def test_fit_takes_a_dataset_with_its_labels() -> None:
    settings: dict[str, Any] = {"method": "ce", "epochs": 15, "lr": 0.05, "net_options": {"hidden": [16]}}
    outcome = selc.fit(feature_rows(60), tests={"test": feature_rows(30, seed=1)}, **settings)
    assert outcome.history[-1]["test"]["top1"] > 0.95
    assert outcome.classes == ("tulip", "rose", "aster")
    by_name = selc.fit(feature_rows(60), "label", **settings)
    assert torch.equal(by_name.target.full(), outcome.target.full())


def test_what_fit_cannot_use_gets_its_sentence() -> None:
    with pytest.raises(InputError, match="must be the name of a column; got an array"):
        selc.fit(feature_rows(), np.zeros(30, dtype=int), epochs=1)
    with pytest.raises(InputError, match="test must be a Hugging Face dataset like the data"):
        selc.fit(feature_rows(), tests={"test": (np.zeros((2, 4)), [0, 1])}, epochs=1)
    with pytest.raises(InputError, match="must give rows by number; got the stream 'train'"):
        hub_bundle({"train": iter([])})
    with pytest.raises(InputError, match="must have a part 'train'; got 'test'"):
        hub_bundle({"test": feature_rows()})
    with pytest.raises(InputError, match="must have a row per sample; got none"):
        hub_bundle(Dataset(pa.table({"a": pa.array([], pa.float64()), "label": pa.array([], pa.int64())})))


def test_the_digest_is_that_of_the_rows() -> None:
    table = feature_rows().table
    assert content_digest(table) == content_digest(table.replace_schema_metadata({"a": "b"}))
    assert content_digest(table) != content_digest(table.slice(1))
    assert content_digest(table.slice(5, 10)) == content_digest(table.slice(5, 10))


def test_a_saved_dataset_is_recognised_and_read_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state.json").write_text("{}")
    choice = choice_for(str(tmp_path))
    assert choice == {"name": "hub", "path": str(tmp_path)}
    library = ModuleType("datasets")
    library.load_from_disk = lambda path: feature_rows() if path == str(tmp_path) else None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert hub(path=choice["path"]).classes == ("tulip", "rose", "aster")


def test_texts_of_a_saved_dataset_are_read_by_the_model_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, labels = reviews(40)
    library, rows = ModuleType("datasets"), pa.table({"review": texts, "label": labels})
    library.load_from_disk = lambda path: Dataset(rows)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert hub(path=str(tmp_path), text_model="tf-idf").shape == (10,)
    with pytest.raises(ConfigError, match="text_model must be auto"):
        hub(path=str(tmp_path), text_model=str(tmp_path / "none"))


def test_without_the_library_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"needs the package datasets; .*pip install datasets"):
        hub(path=str(tmp_path))


def test_the_library_itself_hands_out_the_same(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    x, labels = flowers()
    names = ["tulip", "rose", "aster"]
    rows = {f"f{k}": x[:, k].tolist() for k in range(4)} | {"label": [names.index(label) for label in labels]}
    kinds = {f"f{k}": datasets.Value("float64") for k in range(4)} | {"label": datasets.ClassLabel(names=names)}
    data = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    data.save_to_disk(str(tmp_path / "saved"))
    ours = hub_bundle(feature_rows())
    for bundle in (hub_bundle(data), hub(path=choice_for(str(tmp_path / "saved"))["path"])):
        assert bundle.classes == ours.classes
        assert torch.equal(bundle.labels, ours.labels)
        assert isinstance(bundle.inputs, FeatureInputs)
        assert isinstance(ours.inputs, FeatureInputs)
        assert torch.equal(bundle.inputs.x, ours.inputs.x)


@pytest.mark.parametrize("kind", ["features", "images", "texts"])
def test_a_run_predicts_a_saved_dataset_as_it_does_a_table(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows without labels; of several parts one has to be named."""
    texts, labels = reviews(40)
    whole = {
        "features": feature_rows(),
        "images": image_rows(),
        "texts": Dataset(pa.table({"review": texts, "label": labels})),
    }[kind]
    settings: dict[str, Any] = {"method": "ce", "epochs": 1, "batch_size": 4, "text_model": "tf-idf"}
    made = selc.fit(whole, net="mlp", callbacks=[Silent()], out=tmp_path / "run", **settings)
    bare = Dataset(whole.table.drop_columns(["label"]))
    saved = {"new": bare, "parts": {"train": bare, "test": bare}, "one": {"test": bare}}
    library = ModuleType("datasets")
    library.load_from_disk = lambda path: saved[Path(path).name]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", library)
    for name in saved:
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
    found = predict(tmp_path / "run", tmp_path / "new")
    torch.testing.assert_close(found.probs.float(), made.probs.full().float(), atol=1e-5, rtol=1e-5)
    assert list(found.ids) == [str(row) for row in range(len(whole))]
    assert torch.equal(predict(tmp_path / "run", tmp_path / "one").probs, found.probs)
    with pytest.raises(InputError, match=r"must hold a single dataset; got the parts train, test\. Give the folder"):
        predict(tmp_path / "run", tmp_path / "parts")
