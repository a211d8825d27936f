"""Text from the command to the predictions, in Python, and on the pages."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import selc
from selc._io.files import read_json
from selc.callbacks import Callback
from selc.errors import InputError
from selc.estimator import SELCClassifier
from selc.report.gallery import gallery
from selc.report.reading import Snapshot
from selc.runs import Config, RunFolder, execute
from selc.runs.predict import predict
from tests.own_data.miniature import write_csv
from tests.own_data.reviews import reviews, write_review_folder, write_reviews
from tests.test_cli import call
from tests.test_review import content_of

QUICK: dict[str, Any] = {"method": {"name": "ce"}, "train": {"epochs": 20, "lr": 0.05, "batch_size": 8}}
FIT: dict[str, Any] = {"method": "ce", "epochs": 20, "lr": 0.05, "batch_size": 8}


class Quiet(Callback):
    """Notes are kept, and nothing is printed."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def on_notice(self, text: str) -> bool:
        self.notes.append(text)
        return True


def run_on(data: dict[str, Any], out: Path) -> RunFolder:
    return execute(Config.resolve({"data": data, **QUICK}), out, [Quiet()])


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on a table with a text, a number and a category."""
    place = tmp_path_factory.mktemp("mixed")
    return run_on({"name": "table", "path": str(write_reviews(place / "reviews.csv"))}, place / "run")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on a folder of texts."""
    place = tmp_path_factory.mktemp("files")
    return run_on({"name": "texts", "path": str(write_review_folder(place / "reviews"))}, place / "run")


def test_new_rows_are_read_as_the_training_rows_were(mixed: RunFolder, tmp_path: Path) -> None:
    again = predict(mixed, write_reviews(tmp_path / "again.csv"))
    np.testing.assert_allclose(again.probs.numpy(), mixed.table("probs").full().numpy(), atol=1e-5)
    new = predict(mixed, write_reviews(tmp_path / "new.csv", 40, seed=1))
    assert (new.columns()["predicted_label"] == np.array(reviews(40, 1)[1])).mean() >= 0.9


def test_what_a_run_remembers_of_text_is_json_and_arrays(mixed: RunFolder) -> None:
    state = read_json(mixed.path / "inputs.json")
    (column,) = state["coding"]["texts"]
    assert column["name"] == "review"
    assert {"wonderful", "of this"} <= set(column["words"])
    assert " won" in column["characters"]
    assert state["arrays"] == ["mean", "std", *(f"text0.{n}" for n in ("characters", "projection", "shift", "words"))]


def test_new_rows_that_do_not_fit_get_a_sentence(mixed: RunFolder, files: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must have the columns of the training data; got no 'review'"):
        predict(mixed, write_csv(tmp_path / "a.csv", ["minutes", "place"], [[90, "home"]]))
    with pytest.raises(InputError, match=r"column 'review' must hold texts; got numbers, such as '7' in line 2 of b"):
        predict(mixed, write_csv(tmp_path / "b.csv", ["review", "minutes", "place"], [[7, 90, "home"]]))
    with pytest.raises(InputError, match="column 'review' must hold a text in some row; got none"):
        predict(mixed, write_csv(tmp_path / "c.csv", ["review", "minutes", "place"], [["", 90, "home"]]))
    with pytest.raises(InputError, match="the data of this run must be a table"):
        predict(mixed, write_review_folder(tmp_path / "texts", 4))  # a file has no minutes
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must hold \.txt files; got none by their names"):
        predict(files, tmp_path / "empty")


def test_files_are_predicted_with_or_without_sub_folders_and_from_a_table(files: RunFolder, tmp_path: Path) -> None:
    root = write_review_folder(tmp_path / "again")
    again = predict(files, root)
    assert list(again.ids) == files.ids
    np.testing.assert_allclose(again.probs.numpy(), files.table("probs").full().numpy(), atol=1e-5)
    alone = predict(files, root / "good")
    # Batches of another size may be multiplied in another order.
    np.testing.assert_allclose(alone.probs.numpy(), again.probs[30:].numpy(), atol=1e-5)
    rows = [[(root / name).read_text()] for name in files.ids]
    assert torch.equal(predict(files, write_csv(tmp_path / "t.csv", ["text"], rows)).probs, again.probs)


def test_the_cleaned_tree_of_texts_has_every_file_once(files: RunFolder, tmp_path: Path) -> None:
    result = call("apply", str(files.path), "--out", str(tmp_path / "cleaned"))
    assert result.exit_code == 0, result.output
    tree = tmp_path / "cleaned" / "tree"
    assert sorted(p.name for p in tree.rglob("*.txt")) == sorted(Path(name).name for name in files.ids)


def test_the_report_shows_the_text_and_not_its_features(mixed: RunFolder) -> None:
    shown = gallery(Snapshot(mixed.path))
    assert (shown.texts, shown.columns) == (("review", "place"), ("minutes",))
    assert [card.texts[0] for card in shown.cards] == [reviews(60)[0][card.row] for card in shown.cards]


def test_the_review_page_shows_texts_of_samples_and_look_alikes(tmp_path: Path) -> None:
    texts, labels = reviews(60)
    texts = [f"{text} <b>{'very ' * 1000}</b>" for text in texts]
    rows = list(map(list, zip(texts, labels, strict=True)))
    data = {"name": "table", "path": str(write_csv(tmp_path / "t.csv", ["review", "label"], rows))}
    run = run_on(data, tmp_path / "run")
    assert call("review", str(run.path), "--top", "3").exit_code == 0
    content = content_of(run.path / "review.html")
    samples = {sample["key"] for sample in content["samples"]}
    beside = {row["key"] for s in content["samples"] for group in s["alike"] for row in group["rows"]} - samples
    assert beside
    for keys, letters in ((samples, 4_000), (beside, 400)):
        for key in keys:
            ((name, text),) = content["texts"][key]
            assert name == "review"
            assert letters - 2 * len("</b>very") <= len(text) <= letters  # no word is broken, at neither side
            assert text[:50] == texts[int(key)][:50]
    assert "<b>very" not in (run.path / "review.html").read_text()


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_fit_takes_texts_of_any_sequence(kind: Any) -> None:
    texts, labels = reviews(60)
    others = reviews(20, seed=1)
    outcome = selc.fit(kind(texts), labels, tests={"test": (kind(others[0]), others[1])}, callbacks=[Quiet()], **FIT)
    assert outcome.history[-1]["test"]["top1"] >= 0.9
    assert outcome.classes == ("bad", "good")


def test_fit_on_texts_is_fit_on_a_table_of_them(tmp_path: Path) -> None:
    texts, labels = reviews(60)
    quiet = Quiet()
    selc.fit(texts, labels, out=tmp_path / "run", callbacks=[quiet], **FIT)
    rows = list(map(list, zip(texts, labels, strict=True)))
    run = run_on({"name": "table", "path": str(write_csv(tmp_path / "t.csv", ["text", "label"], rows))}, tmp_path / "b")
    assert quiet.notes == read_json(run.path / "data.json")["notes"]
    assert torch.equal(RunFolder.open(tmp_path / "run").table("probs").full(), run.table("probs").full())
    made = predict(tmp_path / "run", write_csv(tmp_path / "new.csv", ["text"], [[text] for text in texts]))
    assert len(made.ids) == 60


def test_fit_reads_text_beside_numbers_in_a_dataframe() -> None:
    texts, labels = reviews(60)
    frame = pd.DataFrame({"minutes": range(60), "review": texts, "label": labels})
    new = pd.DataFrame({"minutes": range(4), "review": reviews(4, 1)[0], "label": reviews(4, 1)[1]})
    outcome = selc.fit(frame, tests={"new": new}, callbacks=[Quiet()], **FIT)
    assert outcome.classes == ("bad", "good")


def test_bad_texts_in_python_get_a_sentence() -> None:
    texts, labels = reviews(40)
    with pytest.raises(InputError, match="texts must be strings, one per sample; got float in row 1"):
        selc.fit([texts[0], 1.5, *texts[2:]], labels)
    with pytest.raises(InputError, match="column 'text' must hold a text in some row; got none"):
        selc.fit([""] * 40, labels)
    with pytest.raises(InputError, match=r"column 'text' must hold texts; got numbers, such as '1\.5' in row 0"):
        selc.fit(["1.5"] * 40, labels)
    with pytest.raises(InputError, match="a test set must be a list of texts like that of the training"):
        selc.fit(texts, labels, tests={"t": (np.zeros((2, 3)), ["bad", "good"])}, **FIT)
    quiet = Quiet()
    selc.fit([*texts[:-1], None], labels, callbacks=[quiet], **{**FIT, "epochs": 1})
    assert "column 'text' is empty in 1 row: nothing there speaks for any label" in quiet.notes


@pytest.mark.filterwarnings("ignore:column 'text' is free text")
def test_the_classifier_takes_texts() -> None:
    texts, labels = reviews(60)
    made = SELCClassifier(method="ce", max_epochs=20, lr=0.05, batch_size=8, random_state=0).fit(texts, labels)
    new, expected = reviews(40, seed=1)
    assert made.score(new, expected) >= 0.9
    assert made.predict_proba(np.array(new)).shape == (40, 2)
    with pytest.raises(InputError, match="X must be a list of texts like that of the training; got ndarray"):
        made.predict(np.zeros((2, 15)))


def test_the_command_takes_a_named_column(tmp_path: Path) -> None:
    rows = [[("so good", "too bad")[k % 2], ("no", "yes")[k % 2]] for k in range(40)]
    path = write_csv(tmp_path / "t.csv", ["short", "label"], rows)
    out = tmp_path / "run"
    result = call("train", str(path), "--text-column", "short", "--method", "ce", "--epochs", "2", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert RunFolder.open(out).config.data.options["text_column"] in (["short"], ("short",))
    assert call("predict", str(out), str(path), "--out", str(tmp_path / "p.csv")).exit_code == 0
    with open(tmp_path / "p.csv") as file:
        assert len(list(csv.DictReader(file))) == 40
    wrong = call("train", str(path), "--text-column", "titel", "--out", str(tmp_path / "no"))
    assert wrong.exit_code == 2
    assert "--text-column must be a column of" in wrong.output


def test_the_command_takes_a_folder_of_texts(tmp_path: Path) -> None:
    root = write_review_folder(tmp_path / "reviews", 24)
    result = call("train", str(root), "--method", "ce", "--epochs", "1", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    inside = call("train", str(root), "--method", "ce", "--epochs", "1", "--out", str(root / "run"))
    assert inside.exit_code == 2
    assert "--out must not lie inside the data" in inside.output
