"""Input that cannot be used, in the ways that people meet: one sentence that says what, where and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from selc.data.sources.image_folder import folder as load_folder
from selc.data.sources.tables import table
from selc.errors import InputError
from tests.own_data.miniature import encoded, flower_csv, folder, picture, write_csv


def sentence(**options: Any) -> str:
    with pytest.raises(InputError) as error:
        table(**options)
    text = str(error.value)
    assert "\n" not in text
    return text


def features(path: Path, rows: list[list[Any]], columns: tuple[str, ...] = ("a", "b", "label")) -> str:
    return str(write_csv(path / "t.csv", columns, rows))


GOOD = [[k, 2 * k, ("x", "y")[k % 2]] for k in range(6)]


# Images


@pytest.mark.parametrize("content", [b"", encoded(picture("red", 0))[:60], b"no picture"])
def test_a_corrupt_or_empty_image_is_listed_by_name_and_can_be_skipped(tmp_path: Path, content: bytes) -> None:
    root = folder(tmp_path / "data")
    (root / "green" / "2.png").write_bytes(content)
    with pytest.raises(InputError, match=r"every image must be readable; got 1 of 12 that is not: green/2.png \("):
        load_folder(path=str(root))
    bundle = load_folder(path=str(root), skip_bad=True)
    assert len(bundle.labels) == 11
    assert any("1 bad sample was left out: green/2.png (" in note for note in bundle.notes)


def test_a_path_that_is_not_there_is_a_bad_image(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    rows = [["data/red/0.png", "a"], ["data/red/77.png", "b"], ["data/blue/1.png", "b"]]
    rows += [["data/red/1.png", "a"], ["data/blue/2.png", "b"]]
    path = str(write_csv(tmp_path / "t.csv", ["path", "label"], rows))
    assert "data/red/77.png (there is no such file)" in sentence(path=path)
    bundle = table(path=path, skip_bad=True)
    assert bundle.labels.tolist() == [0, 1, 0, 1]
    assert bundle.notes == ["1 bad sample was left out: data/red/77.png (there is no such file)"]


def test_a_path_listed_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    rows = [["data/red/0.png", "a"], ["data/red/1.png", "b"], ["./data/red/0.png", "b"]]
    path = str(write_csv(tmp_path / "t.csv", ["path", "label"], rows))
    assert sentence(path=path).startswith(
        "each path must be listed once; got 1 more than once, first './data/red/0.png' in line 2 of t.csv and in line 4"
    )


@pytest.mark.parametrize("way", ["up", "root", "link", "folder link"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, way: str) -> None:
    folder(tmp_path / "mine" / "data")
    outside = tmp_path / "secret.png"
    outside.write_bytes(encoded(picture("red", 0)))
    (tmp_path / "mine" / "link.png").symlink_to(outside)
    (tmp_path / "mine" / "away").symlink_to(tmp_path)
    bad = {"up": "../secret.png", "root": str(outside), "link": "link.png", "folder link": "away/secret.png"}[way]
    path = write_csv(tmp_path / "mine" / "t.csv", ["path", "label"], [["data/red/0.png", "a"], [bad, "b"]])
    for skip_bad in (False, True):
        text = sentence(path=str(path), skip_bad=skip_bad)
        assert text.startswith(f"a path must stay inside {tmp_path / 'mine'}; got {bad!r} in line 3 of t.csv")


def test_an_empty_path_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    path = str(write_csv(tmp_path / "t.csv", ["path", "label"], [["data/red/0.png", "a"], ["", "b"]]))
    assert sentence(path=path) == "a path must name a file; got '' in line 3 of t.csv."


# Folders


def test_a_folder_without_classes_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(picture("red", 0)))
    with pytest.raises(InputError, match=r"must hold a sub-folder of images per class; got 1 images beside each other"):
        load_folder(path=str(tmp_path))
    (tmp_path / "a.png").unlink()
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError, match="got no images in sub-folders"):
        load_folder(path=str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"path must be a folder .*; got the file"):
        load_folder(path=str(tmp_path / "file"))


def test_one_class_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    for name in ("blue", "green"):
        for file in (root / name).iterdir():
            file.unlink()
    with pytest.raises(InputError, match="at least two classes; got only 'red'"):
        load_folder(path=str(root))


def test_an_unknown_class_in_the_test_folder_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    folder(tmp_path / "data")
    folder(tmp_path / "test", each=2)
    (tmp_path / "test" / "red").rename(tmp_path / "test" / "rouge")
    options: dict[str, Any] = {"path": str(tmp_path / "data"), "test": str(tmp_path / "test")}
    with pytest.raises(InputError, match=r"labels of test must be known classes.*got 'rouge' in 2 of 6 rows"):
        load_folder(**options)
    bundle = load_folder(**options, skip_bad=True)
    assert bundle.tests["test"].labels.tolist() == [0, 0, 1, 1]
    assert any("rouge/0.png (its label 'rouge' is none of the classes)" in note for note in bundle.notes)


# Labels


def test_a_label_that_is_missing_is_placed_and_can_be_skipped(tmp_path: Path) -> None:
    path = features(tmp_path, [*GOOD, [6, 12, ""], [7, 14, "  "]])
    assert "every row of the data must have a label; got 2 of 8 without, first in line 8 of t.csv" in sentence(
        path=path
    )
    bundle = table(path=path, skip_bad=True)
    assert len(bundle.labels) == 6
    assert bundle.notes == [
        "2 bad samples were left out: 6 (it has no label, in line 8 of t.csv), 7 (it has no label, in line 9 of t.csv)"
    ]


def test_a_label_that_is_unknown_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    path = features(tmp_path, GOOD)
    test = str(write_csv(tmp_path / "test.csv", ("a", "b", "label"), [[1, 2, "x"], [3, 4, "q"]]))
    assert "got 'q' in 1 of 2 rows, first in line 3 of test.csv" in sentence(path=path, test=test)
    assert table(path=path, test=test, skip_bad=True).tests["test"].labels.tolist() == [0]


def test_a_class_of_one_sample_is_a_warning(tmp_path: Path) -> None:
    bundle = table(path=features(tmp_path, [*GOOD, [6, 12, "rare"]]))
    assert bundle.notes == [
        "1 class has one sample only ('rare'): little can be learnt of such a class, and nothing can confirm its label"
    ]


def test_labels_that_are_measurements_are_no_classes(tmp_path: Path) -> None:
    path = features(tmp_path, [[k, k, k / 7] for k in range(40)])
    assert "labels must be classes, which repeat; got 40 different ones in 40 rows" in sentence(path=path)


# Columns


def test_a_label_column_that_is_not_found_lists_the_columns(tmp_path: Path) -> None:
    path = features(tmp_path, GOOD, ("a", "b", "kind"))
    text = sentence(path=path)
    assert "must be called label, labels, class, target or y, or be given as label_column" in text
    assert "the columns 'a', 'b', 'kind'" in text
    assert "label_column must be a column of" in sentence(path=path, label_column="sort")
    assert "path_column must be a column of" in sentence(path=path, label_column="kind", path_column="p")
    assert "id_column must be a column of" in sentence(path=path, label_column="kind", id_column="i")
    assert "drop must be a column of" in sentence(path=path, label_column="kind", drop=("c",))


def test_text_that_names_the_samples_is_no_feature(tmp_path: Path) -> None:
    rows = [[k, f"person {k}", k, ("x", "y")[k % 2]] for k in range(6)]
    path = features(tmp_path, rows, ("a", "who", "b", "label"))
    assert "got 6 different texts in 6 rows, such as 'person 0' in line 2 of t.csv" in sentence(path=path)
    assert 'data.drop=["who"]' in sentence(path=path)
    assert table(path=path, drop=("who",)).shape == (2,)
    pq.write_table(pa.table({"when": pa.array([0, 1], pa.timestamp("s")), "label": ["x", "y"]}), tmp_path / "t.parquet")
    assert sentence(path=str(tmp_path / "t.parquet")).startswith("column 'when' must hold numbers or categories")


def test_a_decimal_comma_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;label\n1,5;x\n2,5;y\n")
    assert "got '1,5' in line 2 of t.csv. Decimals are written with a point." in sentence(path=str(tmp_path / "t.csv"))


def test_a_value_far_down_is_found_with_its_line(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[k, k, k % 2] for k in range(9_000)]
    rows[8_500][1] = "oops"
    assert "column 'b' must be numeric; got 'oops' in line 8502 of t.csv" in sentence(path=features(tmp_path, rows))


def test_an_empty_cell_is_filled_and_said_and_is_no_reason_to_skip_a_row(tmp_path: Path) -> None:
    path = features(tmp_path, [*GOOD, [None, 3, "x"], [4, "nan", "y"], [5, "", "y"]])
    for skip_bad in (False, True):
        bundle = table(path=path, skip_bad=skip_bad)
        assert len(bundle.labels) == 9
        assert bundle.shape == (4,)
        assert bundle.notes[0].startswith("columns 'a', 'b' are empty in 3 cells")


def test_an_infinite_number_is_placed(tmp_path: Path) -> None:
    text = sentence(path=features(tmp_path, [*GOOD, [1, "-inf", "x"]]))
    assert text == "numbers must be finite; got -inf in column 'b' in line 8 of t.csv."


def test_columns_that_differ_between_training_and_test_are_named(tmp_path: Path) -> None:
    path = features(tmp_path, GOOD)
    test = str(write_csv(tmp_path / "test.csv", ("a", "c", "label"), GOOD))
    assert sentence(path=path, test=test) == "test must have the columns of the data; got no 'b'."
    folder(tmp_path / "data")
    images = write_csv(tmp_path / "i.csv", ["path", "label"], [["data/red/0.png", "x"], ["data/red/1.png", "y"]])
    assert "test must have the column 'path' like the data" in sentence(path=str(images), test=test)


def test_a_table_of_labels_alone_has_nothing_to_learn_from(tmp_path: Path) -> None:
    path = str(write_csv(tmp_path / "t.csv", ["id", "label"], [[k, "x"] for k in range(4)]))
    assert "must have columns of features beside 'label'" in sentence(path=path)


# Files


def test_text_that_is_not_utf8_is_placed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("a,label\n1,x\n2,café\n".encode("latin-1"))
    assert "must be text in UTF-8; got other bytes in line 3" in sentence(path=str(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_bytes("a,label\n1,x\n".encode("utf-16"))
    assert "must be text in UTF-8; got UTF-16" in sentence(path=str(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b,label\n1,2,x\n3,y\n", "must have 3 cells, as the first one has; got 2 in line 3 of t.csv"),
        ("a,label\n1,x\n2,y,z\n", "must have 2 cells, as the first one has; got 3 in line 3 of t.csv"),
        ('a,label\n1,"x\n2,y\n', "got line 3, which does not read"),
        ("a,a,label\n1,2,x\n", "the columns of .* must differ; got 'a' more than once"),
        ("label\nx\ny\n", "got only the column 'label'. Cells may be separated by comma, semicolon, tab"),
        ("a,label\n", "got no rows below the first line"),
        ("", "got no rows below the first line"),
    ],
)
def test_a_table_out_of_shape_gets_its_sentence(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=expected):
        table(path=str(tmp_path / "t.csv"))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\x89PNG\x00\x01\x02\x03")
    assert "must be" in sentence(path=str(tmp_path / "t.csv"))
    (tmp_path / "u.csv").write_bytes(b"PK\x03\x04\x00\x00,\x00")
    assert "must be a table in text" in sentence(path=str(tmp_path / "u.csv"))
    (tmp_path / "t.parquet").write_bytes(b"nothing of the kind")
    assert "must be a readable Parquet file" in sentence(path=str(tmp_path / "t.parquet"))
    (tmp_path / "t.xlsx").touch()
    assert "a table must be a file with the ending .csv" in sentence(path=str(tmp_path / "t.xlsx"))


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"a": pa.array([], pa.float64()), "label": pa.array([], pa.string())}), tmp_path / "t.parquet"
    )
    assert "must have a row per sample; got none" in sentence(path=str(tmp_path / "t.parquet"))


def test_skipping_everything_is_an_error(tmp_path: Path) -> None:
    path = features(tmp_path, [[1, 3, ""], [4, 2, ""]])
    assert "must have a row that can be used; got none" in sentence(path=path, skip_bad=True)


def test_a_note_lists_at_most_fifty_names(tmp_path: Path) -> None:
    root = folder(tmp_path / "data", each=25)
    for name in ("blue", "green", "red"):
        for file in sorted((root / name).iterdir())[:20]:
            file.write_bytes(b"")
    bundle = load_folder(path=str(root), skip_bad=True)
    (note,) = [note for note in bundle.notes if "left out" in note]
    assert note.startswith("60 bad samples were left out: ")
    assert note.count("(the file is empty)") == 50
    assert note.endswith(" and 10 more")


def test_strange_characters_in_a_table_and_its_files_are_no_obstacle(tmp_path: Path) -> None:
    names = ["a b.png", "ü;,.png", 'quote".png', "line\nbreak.png", "日本.png", "-rf.png"]
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(encoded(np.full((10, 10, 3), 40 * k, dtype=np.uint8)))
    rows = [[name, ("naïve, or not", "x;y")[k % 2]] for k, name in enumerate(names)]
    bundle = table(path=str(write_csv(tmp_path / "t.csv", ["path", "label"], rows)))
    assert bundle.ids is not None
    assert list(bundle.ids) == names
    assert bundle.classes == ("naïve, or not", "x;y")


def test_a_folder_with_the_name_of_an_image_is_a_folder(tmp_path: Path) -> None:
    root = folder(tmp_path / "data")
    (root / "red" / "more.png").mkdir()
    (root / "red" / "more.png" / "inner.png").write_bytes(encoded(picture("red", 9)))
    bundle = load_folder(path=str(root))
    assert bundle.ids is not None
    assert "red/more.png/inner.png" in bundle.ids


def test_the_same_table_as_training_and_test_is_read(tmp_path: Path) -> None:
    path = str(flower_csv(tmp_path / "data.csv"))
    assert len(table(path=path, test=path).tests["test"].labels) == 30
