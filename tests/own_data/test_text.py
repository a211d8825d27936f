"""Free text in tables: recognised, made into features as scikit-learn does, remembered as plain data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from selc.data.preprocess.coding import Cells, Coding
from selc.data.preprocess.features import FeatureInputs
from selc.data.preprocess.text_column import TextColumn, is_free_text
from selc.data.sources.tables import table
from selc.errors import ConfigError, InputError
from tests.own_data.miniature import write_csv
from tests.own_data.reviews import reviews, write_reviews

TRICKY = ["It's GOOD, good -- don't!", "", "   ", "über-gut: 5/5 ★ x", "a b c good", "good\ngut\tgood " * 3]


def documents(texts: list[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
    return np.array([*texts], dtype=object)


def weights_by_sklearn(train: list[str], rows: list[str]) -> np.ndarray[Any, Any]:
    """TF-IDF of words and of characters, by the class that does all of it in one."""
    kinds = [
        TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2), token_pattern=r"\b\w+\b"),
        TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(3, 5), analyzer="char_wb"),
    ]
    return np.hstack([kind.fit(train).transform(rows).toarray() for kind in kinds])


def sentence(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        table(path=str(path), **options)
    assert "\n" not in str(error.value)
    return error.value.for_command


def coded(inputs: object) -> tuple[FeatureInputs, Coding]:
    assert isinstance(inputs, FeatureInputs)
    assert inputs.how.coding is not None
    return inputs, inputs.how.coding


def test_features_are_the_singular_vectors_of_sklearns_tf_idf() -> None:
    train = reviews(48)[0] + TRICKY
    column, made = TextColumn.learnt("text", documents(train))
    weights = weights_by_sklearn(train, train)
    assert column.projection.shape[0] == weights.shape[1]
    _, _, directions = np.linalg.svd(weights, full_matrices=False)
    parts = weights @ directions[: len(train) // 4].T
    expected = (parts - parts.mean(axis=0)) / np.sqrt(parts.var(axis=0).mean())
    sign = np.sign((expected * made).sum(axis=0))  # a singular vector may point either way
    np.testing.assert_allclose(made, expected * sign, atol=1e-4)


def test_new_texts_are_weighted_as_sklearn_does_by_the_terms_of_the_training() -> None:
    train, new = reviews(48)[0] + TRICKY, [*reviews(9, seed=1)[0], *TRICKY[::-1], "xyzzy"]
    column, made = TextColumn.learnt("text", documents(train))
    np.testing.assert_array_equal(column.apply(documents(train)), made)
    expected = weights_by_sklearn(train, new) @ column.projection - column.shift
    np.testing.assert_allclose(column.apply(documents(new)), expected, atol=1e-6)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    train = reviews(48)[0]
    column, made = TextColumn.learnt("text", documents(train))
    order = np.random.default_rng(0).permutation(len(train))
    np.testing.assert_array_equal(column.apply(documents([train[k] for k in order])), made[order])


def test_features_have_mean_zero_and_on_the_average_variance_one_and_are_fewer_than_the_rows() -> None:
    _, made = TextColumn.learnt("text", documents(reviews(100)[0]))
    assert made.shape == (100, 25)
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(made.var(axis=0).mean(), 1, atol=1e-5)


def test_texts_that_say_the_same_twice_do_not_blow_up_rounding() -> None:
    few = ["all of it is good", "all of it is bad", "none of this is good"]
    _, made = TextColumn.learnt("text", documents(few * 20))
    assert made.shape[1] <= 3
    assert (made.std(axis=0) > 0.01).all()


def test_what_was_learnt_is_json_and_arrays_and_makes_the_same_of_new_rows(tmp_path: Path) -> None:
    bundle = table(path=str(write_reviews(tmp_path / "t.csv")))
    inputs, coding = coded(bundle.inputs)
    state = inputs.how.state()
    again = Coding.from_state(json.loads(json.dumps(state["coding"])), state["arrays"])
    cells: Cells = {
        "review": documents(reviews(8, seed=1)[0]),
        "minutes": np.arange(8.0),
        "place": np.array(["home"] * 8, dtype=np.str_),
    }
    np.testing.assert_array_equal(again.apply(cells), coding.apply(cells))


def test_a_table_uses_text_numbers_and_categories_together(tmp_path: Path) -> None:
    bundle = table(path=str(write_reviews(tmp_path / "t.csv")), test=str(write_reviews(tmp_path / "u.csv", 10, seed=1)))
    inputs, coding = coded(bundle.inputs)
    assert coding.inputs == ("minutes", "place", "review")
    assert inputs.x.shape == (60, 1 + 2 + 15)
    assert inputs.how.columns[:4] == ("minutes", "place=cinema", "place=home", "review 1")
    assert len(bundle.tests["test"].labels) == 10
    assert "column 'review' is free text: 15 features from its words and characters" in bundle.notes[0]
    np.testing.assert_allclose(inputs.x[:, 3:].var(dim=0, correction=0).mean(), 1, atol=1e-4)


def test_the_same_table_makes_the_same_bits(tmp_path: Path) -> None:
    path = str(write_reviews(tmp_path / "t.csv"))
    first, second = (coded(table(path=path).inputs)[0] for _ in range(2))
    assert first.x.equal(second.x)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (reviews(40)[0], True),
        ([f"person {k}" for k in range(40)], False),
        (reviews(4)[0] * 10, False),  # they repeat: a category
        ([f"0.{k} 1.5 2.5 3.5 4.5 {k}" for k in range(40)], False),  # vectors of numbers
        ([*reviews(30)[0], *[""] * 10], True),
        ([""] * 40, False),
    ],
)
def test_text_is_long_and_mostly_different(cells: list[str], text: bool) -> None:
    assert is_free_text(cells) is text


def test_a_named_column_is_text_even_if_it_looks_like_a_category(tmp_path: Path) -> None:
    rows = [[("so good", "so bad")[k % 2], k, ("no", "yes")[k % 2]] for k in range(40)]
    path = write_csv(tmp_path / "t.csv", ["short", "n", "label"], rows)
    _, plain = coded(table(path=str(path)).inputs)
    assert [c.name for c in plain.categories] == ["short"]
    _, named = coded(table(path=str(path), text_column=("short",)).inputs)
    assert [c.name for c in named.texts] == ["short"]
    assert named.categories == ()


def test_one_word_texts_are_told_how_to_be_read(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", ["word", "label"], [[f"word{k}", ("a", "b")[k % 2]] for k in range(40)])
    assert "if it is text to be read, say so (--text-column word)" in sentence(path)
    _, coding = coded(table(path=str(path), text_column=("word",)).inputs)
    (column,) = coding.texts
    assert isinstance(column, TextColumn)
    assert column.words.names == ()  # each word stands in one row, but they share characters
    assert "wor" in column.characters.names


def test_bad_columns_of_text_have_a_sentence_each(tmp_path: Path) -> None:
    texts = reviews(40)[0]
    rows = [[texts[k], k / 7, "", chr(0x4E00 + k), "same here", ("a", "b")[k % 2]] for k in range(40)]
    path = write_csv(tmp_path / "t.csv", ["review", "n", "void", "sign", "same", "label"], rows)

    def said(name: str) -> str:
        return sentence(path, text_column=(name,), drop=tuple({"void", "sign"} - {name}))

    assert "--text-column must be a column of" in said("titel")
    assert "got 'titel', and there are the columns 'review', 'n'" in said("titel")
    assert "--text-column must be a column of features; got 'label'" in said("label")
    assert "column 'n' must hold texts; got numbers, such as '0.0' in line 2 of t.csv" in said("n")
    assert "column 'void' must hold a text in some row; got none." in said("void")
    assert "the texts of column 'sign' must share words; got none that stands in 2 of 40 rows" in said("sign")
    assert "the texts of column 'same' must differ; got 40 with the same words" in said("same")


def test_empty_texts_are_counted_in_a_note(tmp_path: Path) -> None:
    texts, labels = reviews(40)
    texts[3] = texts[8] = " "
    path = write_csv(tmp_path / "t.csv", ["review", "label"], list(map(list, zip(texts, labels, strict=True))))
    bundle = table(path=str(path))
    assert "column 'review' is empty in 2 rows: nothing there speaks for any label" in bundle.notes
    inputs, _ = coded(bundle.inputs)
    assert inputs.x[3].equal(inputs.x[8])


def test_a_person_sees_the_text_as_it_was_written(tmp_path: Path) -> None:
    bundle = table(path=str(write_reviews(tmp_path / "t.csv")))
    assert bundle.texts is not None
    shown = bundle.texts([5, 0])
    assert list(shown) == ["review", "place"]
    assert shown["review"] == [reviews(60)[0][k] for k in (5, 0)]


def test_without_sklearn_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_csv(tmp_path / "t.csv", ["review", "label"], list(map(list, zip(*reviews(40), strict=True))))
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ConfigError, match=r"a column of text needs scikit-learn; .* pip install 'selc\[sklearn\]'"):
        table(path=str(path))


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts, labels = reviews(40)
    pq.write_table(pa.table({"review": texts, "label": labels}), tmp_path / "t.parquet")
    rows = list(map(list, zip(texts, labels, strict=True)))
    from_csv = table(path=str(write_csv(tmp_path / "t.csv", ["review", "label"], rows)))
    assert coded(table(path=str(tmp_path / "t.parquet")).inputs)[0].x.equal(coded(from_csv.inputs)[0].x)
