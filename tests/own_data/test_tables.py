"""CSV and Parquet: features, paths of images, images themselves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from selc.data import ImageInputs
from selc.data.preprocess.features import FeatureInputs
from selc.data.sources.tables import table
from selc.errors import ConfigError, InputError
from selc.runs import Config, execute
from tests.counting import instructions
from tests.own_data.miniature import encoded, flower_csv, flowers, folder, in_order, picture, write_csv

COLUMNS = ["length", "width", "weight", "thickness", "label"]


def features(inputs: object) -> np.ndarray[Any, Any]:
    assert isinstance(inputs, FeatureInputs)
    return inputs.x.numpy()


def expected(rows: int = 30) -> tuple[np.ndarray[Any, Any], list[str]]:
    x, labels = flowers(rows)
    return (x - x.mean(0)) / x.std(0), labels


# Features


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", [False, True])
def test_separators_and_a_mark_at_the_beginning_make_no_difference(tmp_path: Path, separator: str, mark: bool) -> None:
    path = flower_csv(tmp_path / "data.csv", separator=separator)
    if mark:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    bundle = table(path=str(path))
    x, labels = expected()
    np.testing.assert_allclose(features(bundle.inputs), x, atol=1e-5)
    assert [bundle.classes[k] for k in bundle.labels.tolist()] == labels
    assert bundle.classes == ("aster", "rose", "tulip")
    assert bundle.shape == (4,)
    assert bundle.ids is not None
    assert list(bundle.ids) == [str(k) for k in range(30)]
    assert isinstance(bundle.inputs, FeatureInputs)
    assert bundle.inputs.how.columns == tuple(COLUMNS[:-1])


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    x, labels = flowers()
    columns = {name: x[:, k] for k, name in enumerate(COLUMNS[:-1])} | {"label": labels}
    pq.write_table(pa.table(columns), tmp_path / "data.parquet", row_group_size=7)
    by_parquet, by_csv = table(path=str(tmp_path / "data.parquet")), table(path=str(flower_csv(tmp_path / "data.csv")))
    np.testing.assert_allclose(features(by_parquet.inputs), features(by_csv.inputs), atol=1e-6)
    assert torch.equal(by_parquet.labels, by_csv.labels)
    assert by_parquet.classes == by_csv.classes


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint32(), pa.float16(), pa.float32(), pa.bool_(), pa.decimal128(25, 2), pa.float64()]
)
def test_every_kind_of_number_in_parquet_is_a_number(tmp_path: Path, kind: Any) -> None:
    values = [k % 2 for k in range(20)]
    column = pa.array(np.array(values, dtype=np.float16)) if kind == pa.float16() else pa.array(values).cast(kind)
    pq.write_table(pa.table({"a": column, "label": ["x", "y"] * 10}), tmp_path / "t.parquet")
    bundle = table(path=str(tmp_path / "t.parquet"))
    assert features(bundle.inputs)[:, 0].tolist() == [2.0 * value - 1 for value in values]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([3, 1, 10] * 10, ("1", "3", "10")),
        ([1.0, 2.0, 10.0] * 10, ("1", "2", "10")),
        ([True, False, True] * 10, ("False", "True")),
        (["b", "a", "b"] * 10, ("a", "b")),
    ],
)
def test_labels_of_any_kind_become_classes(tmp_path: Path, values: list[Any], classes: tuple[str, ...]) -> None:
    a = np.arange(30.0)
    pq.write_table(pa.table({"a": a, "label": values}), tmp_path / "t.parquet")
    write_csv(tmp_path / "t.csv", ["a", "label"], list(zip(a, values, strict=True)))
    for name in ("t.parquet", "t.csv"):
        bundle = table(path=str(tmp_path / name))
        assert bundle.classes == classes
        assert bundle.labels.tolist() == [sorted(set(values)).index(value) for value in values]


def test_labels_in_a_dictionary_column_are_their_texts(tmp_path: Path) -> None:
    labels = pa.array(["b", "a", "b"] * 10).dictionary_encode()
    pq.write_table(pa.table({"a": np.arange(30.0), "label": labels}), tmp_path / "t.parquet")
    assert table(path=str(tmp_path / "t.parquet")).labels.tolist() == [1, 0, 1] * 10


@pytest.mark.parametrize("name", ["label", "Labels", "CLASS", "target", "y"])
def test_the_label_column_is_known_by_its_name(tmp_path: Path, name: str) -> None:
    rows = [[k, k, ("a", "b")[k % 2]] for k in range(8)]
    assert table(path=str(write_csv(tmp_path / "t.csv", ["p", "q", name], rows))).shape == (2,)


def test_the_first_known_name_is_the_label_and_the_others_are_features(tmp_path: Path) -> None:
    rows = [[k, ("a", "b")[k % 2], k % 3] for k in range(9)]
    bundle = table(path=str(write_csv(tmp_path / "t.csv", ["y", "class", "z"], rows)))
    assert bundle.classes == ("a", "b")
    assert bundle.shape == (2,)
    other = table(path=str(tmp_path / "t.csv"), label_column="z", drop=("class",))
    assert other.classes == ("0", "1", "2")
    assert other.shape == (1,)


def test_test_rows_are_scaled_by_the_training_rows_and_columns_found_by_name(tmp_path: Path) -> None:
    path = flower_csv(tmp_path / "data.csv")
    x, labels = flowers(12, seed=5)
    mixed = [[label, row[3], row[0], "ignored", row[2], row[1]] for row, label in zip(x, labels, strict=True)]
    names = ["label", "thickness", "length", "remark", "weight", "width"]
    write_csv(tmp_path / "test.csv", names, mixed, ";")
    bundle = table(path=str(path), test=str(tmp_path / "test.csv"), val=str(tmp_path / "test.csv"))
    train, _ = flowers()
    np.testing.assert_allclose(features(bundle.tests["test"].inputs), (x - train.mean(0)) / train.std(0), atol=1e-4)
    assert [bundle.classes[k] for k in bundle.tests["test"].labels.tolist()] == labels
    assert bundle.val is not None
    assert torch.equal(bundle.val.labels, bundle.tests["test"].labels)
    assert isinstance(bundle.inputs, FeatureInputs)
    np.testing.assert_allclose(bundle.inputs.how.scale.mean, train.mean(0))
    np.testing.assert_allclose(bundle.inputs.how.scale.std, train.std(0))


def test_a_test_table_may_call_its_labels_otherwise(tmp_path: Path) -> None:
    path = flower_csv(tmp_path / "data.csv")
    noisy = path.read_text().replace("label", "crowd", 1)
    path.write_text(noisy)
    bundle = table(path=str(path), label_column="crowd", test=str(flower_csv(tmp_path / "test.csv", 9)))
    assert len(bundle.tests["test"].labels) == 9


def test_a_column_that_never_changes_is_zero(tmp_path: Path) -> None:
    rows = [[1e9, k, ("a", "b")[k % 2]] for k in range(10)]
    bundle = table(path=str(write_csv(tmp_path / "t.csv", ["same", "b", "label"], rows)))
    assert not features(bundle.inputs)[:, 0].any()


def test_quoted_cells_spaces_and_empty_lines_are_read_as_they_are_meant(tmp_path: Path) -> None:
    text = '"a ""one""",label\n 1 ,"x, y"\n\n2.5e1," z "\n-3,"x, y"\n4,z\n'
    (tmp_path / "t.csv").write_text(text)
    bundle = table(path=str(tmp_path / "t.csv"))
    assert bundle.classes == ("x, y", "z")
    assert isinstance(bundle.inputs, FeatureInputs)
    assert bundle.inputs.how.columns == ('a "one"',)
    x = np.array([1, 25, -3, 4])
    np.testing.assert_allclose(features(bundle.inputs)[:, 0], (x - x.mean()) / x.std(), atol=1e-6)


# Ids


@pytest.mark.parametrize("name", ["id", "sample_id", "", "Unnamed: 0"])
def test_a_column_of_ids_is_no_feature(tmp_path: Path, name: str) -> None:
    rows = [[f"s{k}", k, ("a", "b")[k % 2]] for k in range(8)]
    bundle = table(path=str(write_csv(tmp_path / "t.csv", [name, "f", "label"], rows)))
    assert bundle.shape == (1,)
    assert bundle.ids is not None
    assert list(bundle.ids) == [f"s{k}" for k in range(8)]


def test_ids_by_name_must_differ_and_others_are_not_used(tmp_path: Path) -> None:
    rows = [[k // 2, k, ("a", "b")[k % 2]] for k in range(8)]
    path = str(write_csv(tmp_path / "t.csv", ["id", "f", "label"], rows))
    with pytest.raises(InputError, match="id_column must tell samples apart; got 'id'"):
        table(path=path, id_column="id")
    bundle = table(path=path)
    assert bundle.ids is not None
    assert list(bundle.ids) == [str(k) for k in range(8)]
    assert bundle.shape == (1,)
    assert "column 'id' is no feature by its name, and repeats" in bundle.notes[0]
    assert table(path=path, id_column="f").shape == (1,)


# Images


def image_csv(tmp_path: Path, **more: Any) -> Path:
    folder(tmp_path / "pictures")
    rows = [[f"pictures/{name}/{k}.png", name] for name in ("blue", "green", "red") for k in range(4)]
    return write_csv(tmp_path / "data.csv", ["path", "label"], rows, **more)


def pixels_of(inputs: object) -> np.ndarray[Any, Any]:
    assert isinstance(inputs, ImageInputs)
    return torch.cat(list(inputs.pixels.stream([torch.arange(len(inputs))]))).numpy()


def test_paths_count_from_the_folder_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = image_csv(tmp_path)
    monkeypatch.chdir("/")
    bundle = table(path=str(path), test=str(path))
    assert np.array_equal(pixels_of(bundle.inputs), in_order())
    assert bundle.ids is not None
    assert bundle.ids[5] == "pictures/green/1.png"
    assert bundle.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert torch.equal(bundle.tests["test"].labels, bundle.labels)


@pytest.mark.parametrize("name", ["File_Name", "image", "Img"])
def test_the_column_of_paths_is_known_by_its_name_or_given(tmp_path: Path, name: str) -> None:
    path = image_csv(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("path", name, 1))
    assert table(path=str(path)).shape == (3, 10, 10)
    path.write_text(text.replace("path", "where", 1))
    assert table(path=str(path), path_column="where").shape == (3, 10, 10)


def test_paths_inside_may_be_absolute_or_go_up_and_down(tmp_path: Path) -> None:
    folder(tmp_path / "pictures", each=2)
    rows = [
        [str(tmp_path / "pictures" / "red" / "0.png"), "a"],
        ["./pictures/red/../red/1.png", "a"],
        ["pictures//blue/0.png", "b"],
        [" pictures/blue/1.png ", "b"],
    ]
    bundle = table(path=str(write_csv(tmp_path / "t.csv", ["path", "label"], rows)))
    assert bundle.ids is not None
    assert list(bundle.ids) == [
        "pictures/red/0.png",
        "pictures/red/1.png",
        "pictures/blue/0.png",
        "pictures/blue/1.png",
    ]


def test_images_in_parquet_are_decoded(tmp_path: Path) -> None:
    data = [encoded(picture(name, k)) for name in ("blue", "green", "red") for k in range(4)]
    labels = [name for name in ("blue", "green", "red") for _ in range(4)]
    pq.write_table(pa.table({"image": data, "label": labels}), tmp_path / "plain.parquet", row_group_size=5)
    structs = [{"bytes": item, "path": f"{k}.png"} for k, item in enumerate(data)]
    pq.write_table(pa.table({"image": structs, "label": labels}), tmp_path / "hub.parquet", row_group_size=5)
    for name in ("plain", "hub"):
        for workers in (0, 2):
            bundle = table(path=str(tmp_path / f"{name}.parquet"), workers=workers, cache_gb=float(workers > 0))
            assert np.array_equal(pixels_of(bundle.inputs), in_order())
            assert bundle.classes == ("blue", "green", "red")


def test_images_in_parquet_are_called_by_a_column_of_ids_if_it_tells_them_apart(tmp_path: Path) -> None:
    data = [encoded(picture(name, k)) for name in ("blue", "green", "red") for k in range(2)]
    columns = {"image": data, "label": ["b", "b", "g", "g", "r", "r"]}
    for ids, called in ((list("uvwxyz"), list("uvwxyz")), (list("uuwxyz"), list("012345"))):
        pq.write_table(pa.table({**columns, "ID": ids}), tmp_path / "t.parquet")
        assert table(path=str(tmp_path / "t.parquet"), cache="off").ids == called
    with pytest.raises(InputError, match="id_column must tell samples apart"):
        table(path=str(tmp_path / "t.parquet"), id_column="ID", cache="off")


def test_parquet_of_one_column_has_no_labels_and_no_separator(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [encoded(picture("red", 0))]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="the column of the labels must be called"):
        table(path=str(tmp_path / "t.parquet"))


def test_names_of_classes_in_the_schema_are_used(tmp_path: Path) -> None:
    info = {"info": {"features": {"label": {"names": ["zebra", "ape", "bee"], "_type": "ClassLabel"}}}}
    columns = pa.table({"a": np.arange(9.0), "label": [0, 1, 1, 0, 1, 0, 0, 1, 1]})
    columns = columns.replace_schema_metadata({b"huggingface": json.dumps(info).encode()})
    pq.write_table(columns, tmp_path / "t.parquet")
    bundle = table(path=str(tmp_path / "t.parquet"))
    assert bundle.classes == ("zebra", "ape", "bee")
    assert bundle.labels.tolist() == [0, 1, 1, 0, 1, 0, 0, 1, 1]
    wrong = columns.set_column(1, "label", pa.array([0, 1, 1, 0, 1, 0, 0, 1, -1]))
    pq.write_table(wrong, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="must be known classes, such as 'zebra', 'ape', 'bee'; got '-1' in 1 of 9"):
        table(path=str(tmp_path / "t.parquet"))


def test_bytes_and_paths_that_a_parquet_file_only_names_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(encoded(picture("red", 0)))
    structs = [{"bytes": None, "path": str(tmp_path / "x.png")}, {"bytes": encoded(picture("red", 1)), "path": None}]
    pq.write_table(pa.table({"image": structs, "label": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"got 1 of 2 that is not: 0 \(the file is empty\)"):
        table(path=str(tmp_path / "t.parquet"))


# Size, digest, runs


def test_numbers_are_read_by_whole_columns_and_not_cell_by_cell(tmp_path: Path) -> None:
    def cost_of_twenty_columns(rows: int) -> int:
        def cost(columns: int) -> int:
            path = write_csv(
                tmp_path / "t.csv",
                [*(f"f{k}" for k in range(columns)), "label"],
                [[*values, k % 5] for k, values in enumerate(drawn.normal(size=(rows, columns)).round(6).tolist())],
            )
            return instructions(lambda: table(path=str(path)))

        drawn = np.random.default_rng(0)
        return cost(30) - cost(10)

    table(path=str(flower_csv(tmp_path / "first.csv")))  # what it imports does not count
    assert cost_of_twenty_columns(2_000) < 1.2 * cost_of_twenty_columns(1_000)


def test_the_digest_follows_the_table_and_its_images(tmp_path: Path) -> None:
    path = flower_csv(tmp_path / "data.csv")
    before = table(path=str(path)).digest
    assert table(path=str(path)).digest == before
    path.write_text(path.read_text().replace("rose", "iris", 1))
    assert table(path=str(path)).digest != before
    images = image_csv(tmp_path)
    before = table(path=str(images)).digest
    images.write_text(images.read_text().replace("0.png,red", "0.png,blue"))
    relabelled = table(path=str(images)).digest
    assert relabelled != before
    (tmp_path / "pictures" / "red" / "0.png").write_bytes(encoded(picture("blue", 7)))
    assert table(path=str(images)).digest not in (before, relabelled)


def test_a_run_on_a_table_tells_flowers_apart_and_writes_names_and_ids(tmp_path: Path) -> None:
    path, test = flower_csv(tmp_path / "data.csv", 60), flower_csv(tmp_path / "test.csv", 30, seed=1)
    options = {"name": "table", "path": str(path), "test": str(test)}
    settings = {"data": options, "method": {"name": "ce"}, "net": {"hidden": [16]}}
    bundle = table(path=str(path), test=str(test))
    config = Config.resolve({**settings, "train": {"epochs": 20, "lr": 0.05}}, recipe=bundle.recipe)
    run = execute(config, tmp_path / "run", bundle=bundle)
    assert run.summary["accuracy"]["test"]["top1"] > 0.95
    with open(tmp_path / "run" / "corrected_labels.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["given_label"] for row in rows] == flowers(60)[1]
    assert rows[7]["sample_id"] == "7"
    again = Config.load(tmp_path / "run" / "config.toml")
    assert again.data.options["path"] == str(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow.*pip install 'selc\[parquet\]'"):
        table(path=str(tmp_path / "t.parquet"))
