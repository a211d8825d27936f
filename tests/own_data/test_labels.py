"""Labels as people write them."""

from __future__ import annotations

import pytest
import torch

from selc.data.preprocess.labels import bad_labels, checked_classes, class_names, encode, notes_on, tidied
from selc.errors import InputError


def where(row: int) -> str:
    return f"in row {row}"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["dog", "cat", "dog"], ("cat", "dog")),
        (["10", "9", "-1", "0"], ("-1", "0", "9", "10")),
        (["0.5", "10.5", "2"], ("0.5", "2", "10.5")),
        (["10", "9", "nine"], ("10", "9", "nine")),
        (["é", "z", "a"], ("a", "z", "é")),
    ],
)
def test_names_are_sorted_as_text_and_numbers_as_numbers(labels: list[str], classes: tuple[str, ...]) -> None:
    assert class_names(labels) == classes
    assert [classes[k] for k in encode(labels, classes).tolist()] == labels


def test_labels_are_text_without_spaces_and_whole_numbers_have_no_fraction() -> None:
    assert tidied([" cat", "dog ", None, 3]) == ["cat", "dog", "", "3"]
    assert tidied(["1.0", "2.00", "", "nan"]) == ["1", "2", "", "nan"]
    assert tidied(["1.0", "2.5"]) == ["1.0", "2.5"]
    assert tidied([True, False]) == ["True", "False"]


def test_a_missing_label_is_counted_and_placed_or_left_out() -> None:
    labels = ["a", "", "b", "NaN"]
    with pytest.raises(InputError, match=r"every row of test must have a label; got 2 of 4 without, first in row 1\."):
        bad_labels(labels, None, "test", where, skip_bad=False)
    assert bad_labels(labels, None, "test", where, skip_bad=True) == {1: "it has no label", 3: "it has no label"}


def test_an_unknown_label_is_named_with_some_that_are_known_or_left_out() -> None:
    labels = ["a", "z", "b", "z", "y"]
    with pytest.raises(InputError) as error:
        bad_labels(labels, ("a", "b"), "test", where, skip_bad=False)
    assert str(error.value).startswith(
        "the labels of test must be known classes, such as 'a', 'b'; got 'y', 'z' in 3 of 5 rows, first in row 1."
    )
    assert sorted(bad_labels(labels, ("a", "b"), "test", where, skip_bad=True)) == [1, 3, 4]


def test_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="must name at least two classes; got only 'cat'"):
        checked_classes(["cat"] * 5)


def test_a_column_of_ids_is_not_taken_for_labels() -> None:
    with pytest.raises(InputError, match=r"labels must be classes, which repeat; got 30 different ones in 30 rows"):
        checked_classes([f"img_{k}" for k in range(30)])
    assert len(checked_classes([str(k % 15) for k in range(30)])) == 15, "a long tail is no mistake"


def test_a_class_of_one_sample_is_a_note_and_no_error() -> None:
    labels = torch.tensor([0, 0, 1, 2, 2, 3])
    (note,) = notes_on(labels, ("a", "b", "c", "d"))
    assert note.startswith("2 classes have one sample only ('b', 'd')")
    assert notes_on(torch.tensor([0, 0, 1, 1]), ("a", "b")) == []


def test_classes_that_differ_only_in_case_are_pointed_out() -> None:
    (note,) = notes_on(torch.tensor([0, 0, 1, 1, 2, 2]), ("Cat", "cat", "dog"))
    assert note == "'Cat' and 'cat' differ only in upper and lower case; they count as two classes"


def test_one_number_written_in_two_ways_is_pointed_out() -> None:
    (note,) = notes_on(torch.arange(8) % 4, ("1", "1.0", "2", "10"))
    assert note.startswith("'1' and '1.0' are one number written in different ways; they count as different classes")
    (note,) = notes_on(torch.arange(8) % 4, ("0", "0.0", "1.0", "1.00"))
    assert "(and 1 more such)" in note
    assert notes_on(torch.arange(8) % 4, ("1", "1.5", "nan", "inf")) == []


def test_what_pandas_writes_for_nothing_is_no_label() -> None:
    assert tidied(["a", "<NA>"]) == ["a", ""]
