"""Labels by several annotators: majority, soft labels, agreement; from columns, from rows, from Python."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import selc
from selc.callbacks import Callback
from selc.data import Bundle
from selc.data.sources.annotators import Votes, fleiss_kappa, votes_by_column
from selc.data.sources.tables import table
from selc.errors import InputError, SelcError
from selc.report.page import write_report
from selc.review.exchange import export
from selc.runs import Config, execute

ROWS = 30


def written(path: Path, rows: Sequence[Sequence[Any]]) -> str:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def cells() -> list[list[Any]]:
    """Two clouds; of each row what three annotators say: the third is wrong in every fifth row, and often silent."""
    found = []
    for row in range(ROWS):
        label = "ab"[row % 2]
        third = "" if row % 3 == 0 else ("ba"[row % 2] if row % 5 == 0 else label)
        found.append([f"s{row}", row % 2 + row / 100, row % 7, label, label, third])
    return found


def by_columns(folder: Path) -> Bundle:
    path = written(folder / "wide.csv", [["id", "x", "z", "ann", "bob", "eve"], *cells()])
    return table(path=path, annotator_column=("ann", "bob", "eve"))


def by_rows(folder: Path) -> Bundle:
    rows = [
        [*row[:3], name, label]
        for row in cells()
        for name, label in zip(("ann", "bob", "eve"), row[3:], strict=True)
        if label
    ]
    path = written(folder / "long.csv", [["id", "x", "z", "who", "label"], *rows])
    return table(path=path, annotator_column=("who",))


def test_columns_and_rows_of_annotators_are_the_same_data(tmp_path: Path) -> None:
    wide, long = by_columns(tmp_path), by_rows(tmp_path)
    assert wide.soft is not None
    assert long.soft is not None
    assert torch.equal(wide.soft, long.soft)
    assert torch.equal(wide.labels, long.labels)
    assert wide.ids == long.ids == [f"s{row}" for row in range(ROWS)]
    assert wide.shape == long.shape == (2,)
    assert wide.labels.tolist() == [row % 2 for row in range(ROWS)]
    # Row 5: the third says a, the others b. Row 0: the third is silent.
    torch.testing.assert_close(wide.soft[5], torch.tensor([1 / 3, 2 / 3]))
    assert wide.soft[0].tolist() == [1, 0]
    assert list(wide.notes)[-3:] == list(long.notes)[-3:]


def test_notes_say_how_far_they_disagree(tmp_path: Path) -> None:
    notes = " | ".join(by_columns(tmp_path).notes)
    assert "most of 3 annotators say (80 labels of 30 samples)" in notes
    assert "disagree on 4 of 30 samples (13.3%)" in notes  # rows 5, 10, 20, 25
    assert "'eve' 80% of 20" in notes


def test_kappa_is_that_of_fleiss() -> None:
    # The worked example of the article on Wikipedia: 14 raters, 10 subjects, kappa 0.210.
    counts = [
        *([0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]),
        *([7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]),
    ]
    said = [
        {f"r{place}": str(label) for place, label in enumerate(np.repeat(range(5), row).tolist())} for row in counts
    ]
    assert fleiss_kappa(said) == pytest.approx(0.210, abs=5e-4)
    assert fleiss_kappa([{"a": "x", "b": "x"}]) is None


def test_a_tie_is_the_first_class_in_order_as_the_largest_share_is() -> None:
    votes = votes_by_column({"a": ["10", "2", "2"], "b": ["2", "10", ""]})
    assert votes.labels == ["2", "2", "2"]
    soft = votes.soft(("2", "10"))
    assert soft.tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 0]]
    assert soft.argmax(dim=1).tolist() == [0, 0, 0]
    assert any("on 2 samples as many say one label as another" in note for note in votes.notes())


def test_a_label_that_is_nowhere_that_of_most_does_not_count() -> None:
    votes = Votes([{"a": "x", "b": "x", "c": "owl"}, {"a": "y"}])
    torch.testing.assert_close(votes.soft(("x", "y")), torch.eye(2))
    assert any("no sample is 'owl'" in note for note in votes.notes())


def test_a_run_trains_on_the_votes_and_its_report_shows_the_disagreement(tmp_path: Path, undrawn: None) -> None:
    by_columns(tmp_path)
    names = ["ann", "bob", "eve"]
    data = {"name": "table", "path": str(tmp_path / "wide.csv"), "annotator_column": names}
    settings = {"data": data, "method": {"name": "selc", "start": 1}, "train": {"epochs": 2}}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    soft = run.given_targets()
    assert soft is not None
    assert float(soft.full()[5].max()) == pytest.approx(2 / 3)
    assert run.given.tolist() == [row % 2 for row in range(ROWS)]
    page = write_report(run, samples=0)[0].read_text()
    assert "annotators disagree on 4 of 30 samples" in page
    noisy = {**settings, "noise": {"name": "symmetric", "rate": 0.2}}
    with pytest.raises(SelcError, match="noise must be none where several annotators"):
        execute(Config.resolve(noisy), tmp_path / "noisy", [Quiet()])


class Quiet(Callback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_notice(self, text: str) -> bool:
        self.heard.append(text)
        return True


def test_python_takes_a_column_for_each_annotator() -> None:
    rng = np.random.default_rng(0)
    label = np.arange(40) % 2
    x = (label[:, None] * 3 + rng.normal(size=(40, 2))).astype(np.float32)
    votes = np.stack([label, label, np.where(np.arange(40) < 4, 1 - label, label)], axis=1)
    heard = Quiet()
    outcome = selc.fit(x, votes, annotators=True, method="ce", epochs=1, batch_size=20, callbacks=[heard])
    assert outcome.label_issues_["given_label"].tolist() == label.tolist()
    assert any("disagree on 4 of 40 samples (10.0%)" in text for text in heard.heard)
    with pytest.raises(InputError, match=r"\[N, A\], a column for each of two or more; got shape \[40\]"):
        selc.fit(x, label, annotators=True)
    with pytest.raises(InputError, match=r"multi-label.*annotators=True|multi-label, tokens"):
        selc.fit(x, votes)


@pytest.mark.parametrize(
    ("head", "columns", "said"),
    [
        (["id", "x", "a", "b", "label"], ("a", "b"), "the label is what most of them say"),
        (["name", "x", "who", "label"], ("who",), "a column that names the sample"),
        (["id", "x", "a", "b"], ("a", "c"), "annotator_column must be a column"),
    ],
)
def test_tables_that_do_not_fit_get_their_sentence(
    tmp_path: Path, head: list[str], columns: tuple[str, ...], said: str
) -> None:
    path = written(tmp_path / "t.csv", [head, *([f"s{row}", row, "u", "v", "w"][: len(head)] for row in range(4))])
    with pytest.raises(InputError, match=said):
        table(path=path, annotator_column=columns)


def test_an_annotator_speaks_once_of_a_sample(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id", "x", "who", "label"],
        ["s", 1, "ann", "a"],
        ["s", 1, "ann", "b"],
        ["t", 2, "ann", "b"],
    ]
    with pytest.raises(InputError, match="once; got 'ann' twice for 's'"):
        table(path=written(tmp_path / "t.csv", rows), annotator_column=("who",))


def test_images_in_rows_of_annotators_are_read_and_exported_once(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(12):
        Image.new("RGB", (8, 8), (20 * number, 0, 99)).save(tmp_path / f"{number}.png")
    rows = [[f"{n}.png", who, "ab"[n % 2]] for who in ("ann", "bob") for n in range(12)]
    path = written(tmp_path / "labels.csv", [["path", "who", "label"], *rows])
    data = {"name": "table", "path": path, "annotator_column": ["who"], "cache": "off", "workers": 1}
    settings = {"data": data, "method": {"name": "ce"}, "net": {"name": "mlp", "hidden": [4]}, "train": {"epochs": 1}}
    run = execute(Config.resolve(settings), tmp_path / "run", [Quiet()])
    assert run.ids == [f"{n}.png" for n in range(12)]
    made = export(run, "label-studio", tmp_path / "tasks.json")
    assert made.samples == 12
