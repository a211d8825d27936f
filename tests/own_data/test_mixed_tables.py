"""Tables with numbers, categories and gaps: as scikit-learn's transformers have them, and remembered as plain text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from selc.data.preprocess.coding import Coding, fewest
from selc.data.preprocess.features import FeatureInputs
from selc.data.sources.tables import table
from selc.errors import ConfigError, InputError
from tests.own_data.miniature import write_csv

Rows = list[list[Any]]
NAMES = ["size", "city", "smokes", "weight", "label"]


def people(count: int = 60, seed: int = 0) -> Rows:
    """Numbers with and without gaps, a category with gaps and a rare level, truth values."""
    rng = np.random.default_rng(seed)
    rows: Rows = []
    for k in range(count):
        city = "Rome" if k == 7 else "" if k % 11 == 5 else ("Oslo", "Paris")[int(rng.integers(2))]
        size = None if k % 7 == 3 else round(float(rng.normal(170, 10)), 3)
        rows.append([size, city, bool(rng.integers(2)), round(float(rng.normal()), 3), ("no", "yes")[k % 2]])
    return rows


def features(inputs: object) -> FeatureInputs:
    assert isinstance(inputs, FeatureInputs)
    return inputs


def sentence(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        table(path=str(path), **options)
    assert "\n" not in str(error.value)
    return error.value.for_command


def by_sklearn(train: Rows, rows: Rows) -> np.ndarray[Any, Any]:
    """The same by scikit-learn's own transformers, in our order: numbers scaled, flags of gaps, levels."""

    def numbers(some: Rows) -> np.ndarray[Any, Any]:
        return np.array([[np.nan if r[0] is None else r[0], float(r[2]), r[3]] for r in some], dtype=np.float64)

    def cities(some: Rows) -> np.ndarray[Any, Any]:
        return np.array([[r[1]] for r in some], dtype=object)

    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(numbers(train))
    scaler = StandardScaler().fit(imputer.transform(numbers(train))[:, :3])
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2, sparse_output=False)
    encoder.fit(cities(train))
    filled = imputer.transform(numbers(rows))
    return np.hstack([scaler.transform(filled[:, :3]), filled[:, 3:], encoder.transform(cities(rows))])


def test_rows_become_what_sklearns_transformers_make_of_them(tmp_path: Path) -> None:
    train, test = people(), people(20, seed=1)
    test[0][1] = "Atlantis"  # a level that training did not show
    test[1][3] = None  # a gap where training had none
    bundle = table(
        path=str(write_csv(tmp_path / "t.csv", NAMES, train)), test=str(write_csv(tmp_path / "v.csv", NAMES, test))
    )
    made = features(bundle.inputs)
    assert made.how.columns == (
        "size",
        "smokes",
        "weight",
        "size is missing",
        "city=(missing)",
        "city=Oslo",
        "city=Paris",
        "city=(rare)",
    )
    assert bundle.shape == (8,)
    np.testing.assert_allclose(made.x.numpy(), by_sklearn(train, train), atol=1e-5)
    filled = [[*row[:3], np.nan if row[3] is None else row[3], row[4]] for row in test]
    np.testing.assert_allclose(
        features(bundle.tests["test"].inputs).x.numpy(), by_sklearn(train, filled)[:, :8], atol=1e-5
    )


def test_a_column_transformer_with_these_parts_is_another_order_of_the_same_columns(tmp_path: Path) -> None:
    rows = [[*row[:2], *row[3:]] for row in people()]
    made = features(table(path=str(write_csv(tmp_path / "t.csv", ["size", "city", "weight", "label"], rows))).inputs)
    x = np.array([[np.nan if r[0] is None else r[0], r[1], r[2]] for r in rows], dtype=object)
    whole = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), [0, 2]),
            ("texts", OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"), [1]),
        ],
        sparse_threshold=0,
    )
    expected = np.asarray(whole.fit_transform(x), dtype=np.float64)
    np.testing.assert_allclose(made.x.numpy()[:, 2:], expected[:, 2:])


def test_parquet_and_csv_give_the_same(tmp_path: Path) -> None:
    rows = people()
    write_csv(tmp_path / "t.csv", NAMES, rows)
    columns = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    columns["city"] = [city or None for city in columns["city"]]
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    first, other = (features(table(path=str(tmp_path / f"t.{kind}")).inputs) for kind in ("csv", "parquet"))
    assert first.how.columns == other.how.columns
    np.testing.assert_allclose(first.x.numpy(), other.x.numpy(), atol=1e-6)


def test_what_was_learnt_is_json_and_makes_the_same_of_new_rows(tmp_path: Path) -> None:
    made = features(table(path=str(write_csv(tmp_path / "t.csv", NAMES, people()))).inputs)
    state = made.how.state()
    assert state["kind"] == "table"
    again = Coding.from_state(json.loads(json.dumps(state["coding"])), {})
    assert again == made.how.coding
    cells = {
        "size": np.array([np.nan, 180.0]),
        "smokes": np.array([1.0, 0.0]),
        "weight": np.array([0.0, np.nan]),
        "city": np.array(["Nowhere", "Oslo"]),
    }
    median = np.median([row[0] for row in people() if row[0] is not None])
    weight = np.median([row[3] for row in people()])
    expected = [[median, 1, 0, 1, 0, 0, 0, 1], [180, 0, weight, 0, 0, 1, 0, 0]]
    np.testing.assert_allclose(again.apply(cells), expected)


def test_the_user_is_told_what_became_of_such_columns(tmp_path: Path) -> None:
    notes = table(path=str(write_csv(tmp_path / "t.csv", NAMES, people()))).notes
    assert "column 'city' is text: each value that repeats often enough is a feature" in notes
    gaps = sum(row[0] is None for row in people())
    assert f"column 'size' is empty in {gaps} cells: the median stands there, and a feature says so" in notes


def test_a_column_of_which_every_level_is_rare_still_counts(tmp_path: Path) -> None:
    rows: Rows = [[k, "abcdefgh"[k] if k < 8 else "", ("x", "y")[k % 2]] for k in range(30)]
    made = features(table(path=str(write_csv(tmp_path / "t.csv", ["a", "b", "label"], rows))).inputs)
    assert made.how.columns == ("a", "b=(missing)", "b=(rare)")
    coding, _ = Coding.learnt({"b": np.array(["u", "v", "w"])})
    assert coding.apply({"b": np.array(["u", "new"])}).tolist() == [[1.0], [1.0]]


def test_how_rare_is_rare_grows_with_the_table() -> None:
    assert [fewest(rows) for rows in (10, 1_000, 2_000, 10_000_000)] == [2, 5, 10, 20]


@pytest.mark.parametrize("gap", ["", "NaN", "NA", "n/a", "null", "None", "?"])
def test_the_usual_marks_of_a_gap_leave_a_column_of_numbers_one(tmp_path: Path, gap: str) -> None:
    rows: Rows = [[gap if k == 4 else k, ("x", "y")[k % 2]] for k in range(12)]
    made = features(table(path=str(write_csv(tmp_path / "t.csv", ["a", "label"], rows))).inputs)
    assert made.how.columns == ("a", "a is missing")
    assert made.x[:, 1].tolist() == [float(k == 4) for k in range(12)]


# What is no feature


@pytest.mark.parametrize("value", ["2024-03-{:02}", "2024-03-{:02} 12:00:00", "{:02}.03.2024", "3/{:02}/24"])
def test_dates_are_named_with_what_to_do(tmp_path: Path, value: str) -> None:
    rows: Rows = [[value.format(k % 28 + 1), k, ("x", "y")[k % 2]] for k in range(40)]
    text = sentence(write_csv(tmp_path / "t.csv", ["when", "b", "label"], rows))
    assert text.startswith(f"column 'when' must hold numbers or categories; got dates, such as {value.format(1)!r}")
    assert "in line 2 of t.csv" in text
    assert 'data.drop=["when"]' in text


def test_names_of_samples_are_no_feature(tmp_path: Path) -> None:
    rows: Rows = [[f"person {k}", k % 5, ("x", "y")[k % 2]] for k in range(40)]
    path = write_csv(tmp_path / "t.csv", ["who", "b", "label"], rows)
    text = sentence(path)
    assert "got 40 different texts in 40 rows, such as 'person 0' in line 2 of t.csv" in text
    assert "--id-column who" in text
    assert 'data.drop=["who"]' in text
    ids = table(path=str(path), id_column="who").ids
    assert ids is not None
    assert ids[3] == "person 3"
    assert table(path=str(path), drop=("who",)).shape == (1,)


def test_one_spoilt_cell_among_measurements_is_an_error_and_a_few_codes_are_a_category(tmp_path: Path) -> None:
    rows: Rows = [[k + 0.5, ("x", "y")[k % 2]] for k in range(60)]
    rows[33][0] = "oops"
    text = sentence(write_csv(tmp_path / "t.csv", ["a", "label"], rows))
    assert text.startswith("column 'a' must be numeric; got 'oops' in line 35 of t.csv")
    codes: Rows = [[("1", "2", "X")[k % 3], ("x", "y")[k % 2]] for k in range(60)]
    assert features(table(path=str(write_csv(tmp_path / "c.csv", ["a", "label"], codes))).inputs).how.columns == (
        "a=1",
        "a=2",
        "a=X",
    )


def test_a_column_without_any_value_is_named(tmp_path: Path) -> None:
    rows: Rows = [["", k, ("x", "y")[k % 2]] for k in range(12)]
    text = sentence(write_csv(tmp_path / "t.csv", ["void", "b", "label"], rows))
    assert text == (
        "column 'void' must have a value in some row; got none. Leave it out (--set 'data.drop=[\"void\"]')."
    )


def test_text_in_a_test_table_where_training_had_numbers_is_placed(tmp_path: Path) -> None:
    rows: Rows = [[k, ("u", "v")[k % 3 == 0], ("x", "y")[k % 2]] for k in range(12)]
    path = write_csv(tmp_path / "t.csv", ["a", "b", "label"], rows)
    other: Rows = [["many", "u", "x"], [1, "u", "y"]]
    test = write_csv(tmp_path / "v.csv", ["a", "b", "label"], other)
    assert sentence(path, test=str(test)).startswith("column 'a' must be numeric; got 'many' in line 2 of v.csv")


def test_an_infinite_number_beside_text_is_placed(tmp_path: Path) -> None:
    rows: Rows = [["inf" if k == 3 else k, ("u", "v")[k % 2], ("x", "y")[k % 2]] for k in range(12)]
    text = sentence(write_csv(tmp_path / "t.csv", ["a", "b", "label"], rows))
    assert text == "numbers must be finite; got inf in column 'a' in line 5 of t.csv."


def test_without_scikit_learn_text_names_the_extra_and_numbers_need_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "t.csv", NAMES, people())
    monkeypatch.setitem(sys.modules, "sklearn.preprocessing", None)
    with pytest.raises(ConfigError, match=r"needs scikit-learn.*pip install 'selc\[sklearn\]'"):
        table(path=str(path))
    assert table(path=str(path), drop=("size", "city")).shape == (2,)
