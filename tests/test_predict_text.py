"""A single text for a network that was trained on texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from selc.callbacks import Callback
from selc.errors import InputError
from selc.runs import Config, RunFolder, execute
from selc.runs.predict import predict
from tests.own_data.reviews import reviews, write_review_folder, write_reviews

QUICK = {"method": {"name": "ce"}, "train": {"epochs": 20, "lr": 0.05, "batch_size": 8}}
PRAISE = "the cast is wonderful and the music is superb"


class Quiet(Callback):
    """Notes are no warnings."""

    def on_notice(self, text: str) -> bool:
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on a folder of texts."""
    place = tmp_path_factory.mktemp("texts")
    data = {"name": "texts", "path": str(write_review_folder(place / "reviews"))}
    return execute(Config.resolve({"data": data, **QUICK}), place / "run", [Quiet()])


@pytest.mark.parametrize("text", [PRAISE, f"{PRAISE}\n", f"{PRAISE},\nthough long; and\nin lines\n"])
def test_a_txt_file_is_one_text(run: RunFolder, tmp_path: Path, text: str) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "one.txt").write_text(text)
    alone, in_folder = predict(run, tmp_path / "new" / "one.txt"), predict(run, tmp_path / "new")
    assert list(alone.ids) == ["one.txt"]
    assert alone.probs.tolist() == in_folder.probs.tolist()
    assert run.classes[int(alone.probs.argmax())] == "good"


def test_a_txt_file_that_names_the_column_is_a_table(run: RunFolder, tmp_path: Path) -> None:
    texts, _ = reviews(5, seed=1)
    (tmp_path / "table.txt").write_text("\n".join(["text\tid", *(f"{text}\t{k}" for k, text in enumerate(texts))]))
    assert list(predict(run, tmp_path / "table.txt").ids) == ["0", "1", "2", "3", "4"]


def test_a_run_that_had_more_than_a_text_wants_a_table(tmp_path: Path) -> None:
    table = write_reviews(tmp_path / "reviews.csv")
    config = Config.resolve({"data": {"name": "table", "path": str(table)}, **QUICK, "train": {"epochs": 1}})
    run = execute(config, tmp_path / "run", [Quiet()])
    (tmp_path / "one.txt").write_text(PRAISE + "\n")
    with pytest.raises(InputError, match="must be a table"):
        predict(run, tmp_path / "one.txt")
