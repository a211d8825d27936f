"""A folder with a sub-folder of .txt files per class."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc.data.preprocess.features import FeatureInputs
from selc.data.sources.recognise import choice_for
from selc.data.sources.tables import table
from selc.data.sources.text_folder import texts
from selc.errors import InputError
from tests.own_data.miniature import folder as images
from tests.own_data.miniature import write_csv
from tests.own_data.reviews import reviews, write_review_folder


def x_of(inputs: object) -> torch.Tensor:
    assert isinstance(inputs, FeatureInputs)
    return inputs.x


def test_a_folder_holds_what_a_table_with_the_same_texts_holds(tmp_path: Path) -> None:
    bundle = texts(path=str(write_review_folder(tmp_path / "reviews", 40)))
    written, labels = reviews(40)
    ids = [f"{label}/{k:03}.txt" for k, label in enumerate(labels)]
    order = sorted(range(40), key=lambda k: ids[k])
    rows = [[ids[k], written[k] + "\n", labels[k]] for k in order]
    same = table(path=str(write_csv(tmp_path / "t.csv", ["id", "text", "label"], rows)))
    assert list(bundle.ids or ()) == list(same.ids or ()) == [ids[k] for k in order]
    assert bundle.classes == same.classes == ("bad", "good")
    assert torch.equal(bundle.labels, same.labels)
    assert torch.equal(x_of(bundle.inputs), x_of(same.inputs))


def test_parts_of_a_divided_folder_are_found_by_their_names(tmp_path: Path) -> None:
    for part, count in (("train", 24), ("test", 8), ("val", 6)):
        write_review_folder(tmp_path / part, count, seed=count)
    bundle = texts(path=str(tmp_path))
    assert (len(bundle.labels), len(bundle.tests["test"].labels)) == (24, 8)
    assert bundle.val is not None
    assert len(bundle.val.labels) == 6
    assert bundle.notes[0] == "the training .txt files are those in train; test and val kept apart"


def test_what_lies_in_a_folder_says_which_kind_it_is(tmp_path: Path) -> None:
    assert choice_for(str(write_review_folder(tmp_path / "reviews", 6)))["name"] == "texts"
    root = images(tmp_path / "photos")
    assert choice_for(str(root))["name"] == "folder"
    next(p for p in root.iterdir() if p.is_dir()).joinpath("about.txt").write_text("photographs of flowers")
    assert choice_for(str(root))["name"] == "folder"  # a text beside images is none of the samples


def test_a_changed_text_changes_the_digest_and_another_place_does_not(tmp_path: Path) -> None:
    first = texts(path=str(write_review_folder(tmp_path / "a", 24))).digest
    root = write_review_folder(tmp_path / "b", 24)
    assert texts(path=str(root)).digest == first
    (root / "bad" / "000.txt").write_text("another word")
    assert texts(path=str(root)).digest != first


def test_a_file_that_is_no_utf8_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    root = write_review_folder(tmp_path / "reviews", 24)
    (root / "bad" / "000.txt").write_bytes("schön".encode("latin-1"))
    with pytest.raises(InputError, match=r"bad/000\.txt must be text in UTF-8; got other bytes\. .*skip_bad=True"):
        texts(path=str(root))
    bundle = texts(path=str(root), skip_bad=True)
    assert len(bundle.labels) == 23
    assert [name for name, _ in bundle.skipped] == ["bad/000.txt"]


def test_what_is_no_text_is_left_out_with_a_note_and_empty_texts_are_counted(tmp_path: Path) -> None:
    root = write_review_folder(tmp_path / "reviews", 24)
    (root / "bad" / "notes.md").write_text("none")
    (root / "good" / "001.txt").write_text("")
    (root / "loose.txt").write_text("beside the folders")
    notes = texts(path=str(root)).notes
    assert "1 .txt files of reviews in no class folder left out, first loose.txt" in notes
    assert "1 files of reviews that are no .txt files by their names left out (1 .md)" in notes
    assert "column 'text' is empty in 1 row: nothing there speaks for any label" in notes


def test_a_folder_without_texts_gets_its_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "loose.txt").write_text("x")
    with pytest.raises(InputError, match=r"must hold a sub-folder of \.txt files per class; got 1 \.txt files beside"):
        texts(path=str(tmp_path))


def test_links_do_not_leave_the_folder(tmp_path: Path) -> None:
    root = write_review_folder(tmp_path / "reviews", 6)
    (tmp_path / "secret.txt").write_text("secret")
    (root / "bad" / "x.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(InputError, match="which leaves it"):
        texts(path=str(root))
