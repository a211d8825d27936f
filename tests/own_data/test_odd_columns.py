"""Columns that are likely no features are named, with the way to leave them out; nothing is dropped in silence."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selc.data.preprocess.features import Scale
from selc.data.sources.tables import table
from selc.errors import InputError
from tests.own_data.miniature import write_csv

N = 60
RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=N).round(4)
LABELS = np.array(["ant", "bee", "cat"])[RNG.integers(0, 3, N)]


def notes(path: Path, name: str, column: Sequence[Any] | np.ndarray[Any, Any], **options: Any) -> list[str]:
    """What is noted of a table with one column more than a plain measurement and the label."""
    rows = [list(row) for row in zip(SIZE.tolist(), column, LABELS.tolist(), strict=True)]
    return list(table(path=str(write_csv(path / "t.csv", ["size", name, "label"], rows)), **options).notes)


def about(found: Sequence[str], words: str) -> list[str]:
    return [note for note in found if words in note]


def advice(note: str) -> dict[str, Any]:
    """The setting that a note proposes, read as the command line reads it."""
    return tomllib.loads(note.split("--set '", 1)[1].split("'", 1)[0])


SAME = "one and the same label beside each value"


@pytest.mark.parametrize("codes", [{"ant": 7, "bee": 3, "cat": 5}, {"ant": "A", "bee": "B", "cat": "C"}])
def test_a_second_column_of_the_label_is_noted_and_can_be_left_out(tmp_path: Path, codes: dict[str, Any]) -> None:
    column = [codes[label] for label in LABELS]
    (note,) = about(notes(tmp_path, "class", column), SAME)
    assert "column 'class'" in note
    assert advice(note) == {"data": {"drop": ["class"]}}
    assert not about(notes(tmp_path, "class", column, drop=("class",)), SAME)


def test_several_values_for_one_label_are_a_second_label_too(tmp_path: Path) -> None:
    finer = [f"{label}-{k % 2}" if label == "ant" else label for k, label in enumerate(LABELS.tolist())]
    assert about(notes(tmp_path, "species", finer), SAME)


def test_what_two_labels_share_or_what_has_many_values_is_a_feature(tmp_path: Path) -> None:
    codes = np.searchsorted(["ant", "bee", "cat"], LABELS)
    one_off = codes.copy()
    one_off[10] = (one_off[10] + 1) % 3
    assert notes(tmp_path, "code", one_off) == []
    # Each value has one label here as well, but that says nothing where few rows share a value.
    assert notes(tmp_path, "fine", codes + np.arange(N) // 6 / 10) == []
    assert notes(tmp_path, "constant", np.ones(N)) == []


def test_whole_numbers_that_nearly_all_differ_are_noted_as_names(tmp_path: Path) -> None:
    parcels = RNG.permutation(5_000)[:N]
    parcels[1] = parcels[0]
    (note,) = notes(tmp_path, "parcel_id", parcels)
    assert "column 'parcel_id' has whole numbers that nearly all differ" in note
    assert "--id-column parcel_id" in note
    assert advice(note) == {"data": {"drop": ["parcel_id"]}}
    assert notes(tmp_path, "half", np.arange(N) // 2) == [], "numbers that come twice name nothing"
    assert notes(tmp_path, "metres", np.arange(N) + 0.5) == [], "a measurement differs everywhere"


def test_a_number_that_dwarfs_its_column_is_named_with_its_line(tmp_path: Path) -> None:
    column = RNG.normal(size=N).round(3)
    column[7] = -1e12
    (note,) = notes(tmp_path, "area", column)
    assert "column 'area' holds -1e+12 in line 9 of t.csv" in note, "line 1 is the head, and rows count from 0"
    assert advice(note) == {"data": {"drop": ["area"]}}


def test_the_line_is_that_of_the_table_also_where_rows_were_left_out(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[k / 7, k % 5 / 3, ("a", "b")[k % 2]] for k in range(40)]
    rows[3][2] = ""
    rows[20][0] = 1e9
    found = table(path=str(write_csv(tmp_path / "t.csv", ["u", "v", "label"], rows)), skip_bad=True).notes
    assert len(about(found, "column 'u' holds 1e+09 in line 22 of t.csv")) == 1


@pytest.mark.parametrize(
    "column",
    [
        [0] * (N - 1) + [1],  # a rare mark: there is nothing that it could dwarf
        [0] * (N - 6) + [1, 2, 3, 1, 2, 40],  # counts, mostly none
        RNG.standard_t(3, N).round(3),
        ["" if k % 4 == 0 else round(float(v), 3) for k, v in enumerate(SIZE)],
    ],
)
def test_plain_measurements_counts_and_gaps_are_not_called_far_off(tmp_path: Path, column: Any) -> None:
    assert not about(notes(tmp_path, "u", column), "hardly differ")


def test_a_number_that_dwarfs_counts_that_are_mostly_zero_is_named(tmp_path: Path) -> None:
    assert about(notes(tmp_path, "u", [0] * (N - 6) + [1, 2, 3, 1, 2, 1e9]), "holds 1e+09")


# Numbers that cannot be scaled; a warning would be an error here


def test_a_number_too_large_to_be_scaled_gets_its_sentence_and_no_warning(tmp_path: Path) -> None:
    column = SIZE.copy()
    column[4] = 1e300
    with pytest.raises(InputError, match=r"got 1e\+300 in column 'u' in line 6 of t\.csv"):
        notes(tmp_path, "u", column)


def test_rows_that_come_later_are_held_to_the_same() -> None:
    x = RNG.normal(size=(20, 2))
    scale = Scale.of(x)
    np.testing.assert_allclose(scale.apply(x).numpy(), (x - x.mean(0)) / x.std(0), atol=1e-6)
    later = x.copy()
    later[3, 1] = 1e300
    with pytest.raises(InputError, match=r"got 1e\+300 in column 1 in row 3"):
        scale.apply(later)
    with pytest.raises(InputError, match=r"got 1e\+300 in column 'v' in line 5"):
        scale.apply(later, ("u", "v"), lambda row: f"in line {row + 2}")


# Ids


def test_ids_that_repeat_are_named_with_both_lines_and_the_way_out(tmp_path: Path) -> None:
    rows = [[f"p{k % 7}", k / 3, ("a", "b")[k % 2]] for k in range(9)]
    path = str(write_csv(tmp_path / "t.csv", ["plant", "f", "label"], rows))
    with pytest.raises(InputError) as error:
        table(path=path, id_column="plant")
    sentence = str(error.value)
    assert "'p0' stands in line 2 of t.csv and again in line 9 of t.csv" in sentence
    assert 'data.drop=["plant"]' in sentence
    assert table(path=path, drop=("plant",)).shape == (1,)
