"""Pages of an analysis that has no run: the report, the review, and what was decided there."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from selc.analysis import LabelAnalysis, analyse_probabilities
from selc.analysis.words import noise_sentence
from selc.errors import InputError
from selc.report.shown_items import views
from tests.test_review import unpacked

N, NAMES = 60, ("cat", "dog", "<b>owl</b>")
WRONG = (0, 7, 31)


@pytest.fixture(scope="module")
def analysis() -> LabelAnalysis:
    """A model that is always rather sure and right, and three labels that are not what it says."""
    true = np.arange(N) % 3
    probs = np.full((N, 3), 0.05)
    probs[np.arange(N), true] = 0.9
    given = true.copy()
    given[list(WRONG)] = (given[list(WRONG)] + 1) % 3
    return analyse_probabilities(probs, given)


class Read(HTMLParser):
    """Text, pictures and elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.pictures, self.elements = "", list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.add(tag)
        if tag == "img":
            self.pictures.append(dict(attrs)["src"])

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


def test_the_report_shows_the_worst_labels_first_with_their_items(analysis: LabelAnalysis, tmp_path: Path) -> None:
    texts = [f"text {row}" for row in range(N)]
    path = analysis.report(tmp_path / "report.html", items=texts, classes=NAMES, samples=5)
    read = Read(path.read_text())
    shown = [int(row) for row in re.findall(r"text (\d+)", read.words)]
    assert sorted(shown[:3]) == list(WRONG)
    assert len(shown) == 5
    assert "script" not in read.elements
    assert "<b>owl</b>" in read.words  # a name is no markup
    assert noise_sentence(analysis.as_dict()["noise_rate"], N) in read.words
    assert "3 samples are suspicious" in read.words


def content(path: Path) -> dict[str, Any]:
    text = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', path.read_text(), re.DOTALL)
    assert text is not None
    return unpacked(json.loads(text[1]))


def decisions(page: dict[str, Any], verdicts: dict[str, tuple[str, str | None]]) -> dict[str, Any]:
    """What the page saves."""
    entries = [
        {key: sample[name] for key, name in (("sample_id", "id"), ("given", "given"), ("suggested", "suggested"))}
        | {"confidence": sample["confidence"], "verdict": verdict, "label": label}
        for sample in page["samples"]
        for verdict, label in [verdicts.get(sample["id"], ("skip", None))]
    ]
    return {"format": page["format"], "run": page["run"], "samples": page["total"], "decisions": entries}


def test_what_is_decided_on_the_review_page_comes_back_as_labels(analysis: LabelAnalysis, tmp_path: Path) -> None:
    ids = [f"s{row}" for row in range(N)]
    page = content(analysis.review(tmp_path / "review.html", items=np.zeros((N, 8, 8)), ids=ids, classes=NAMES, top=9))
    assert {sample["id"] for sample in page["samples"][:3]} == {f"s{row}" for row in WRONG}
    assert len(page["samples"]) == len(page["pictures"]) == 9
    others = [sample for sample in page["samples"] if sample["id"] not in {f"s{row}" for row in WRONG}]
    kept, dropped, other = "s7", others[0], others[1]
    given = {sample["id"]: sample["given"] for sample in page["samples"]}
    new = next(name for name in NAMES if name not in (other["given"], other["suggested"]))
    verdicts = {kept: ("keep", given[kept]), dropped["id"]: ("drop", None), other["id"]: ("other", new)}
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(decisions(page, verdicts)))
    found = analysis.decided(file, ids=ids, classes=NAMES)
    expected = analysis.corrected.clone()
    expected[7] = analysis.findings.given[7]
    expected[int(other["id"][1:])] = NAMES.index(new)
    assert torch.equal(found.labels, expected)
    assert found.verified.nonzero().flatten().tolist() == sorted([7, int(other["id"][1:])])
    assert found.dropped.nonzero().flatten().tolist() == [int(dropped["id"][1:])]
    with pytest.raises(InputError, match="a review of these labels and names of classes"):
        analysis.decided(file, ids=ids)


def test_items_of_every_kind_are_shown(tmp_path: Path) -> None:
    picture = Image.new("RGB", (9, 7), (200, 10, 10))
    picture.save(tmp_path / "a.png")
    pixels = np.zeros((2, 3, 8, 8), dtype=np.uint8)
    as_pictures: list[Any] = [
        [picture, picture],
        [str(tmp_path / "a.png"), tmp_path / "a.png"],
        pixels,
        torch.rand(2, 8, 8),
        np.random.default_rng(0).random((2, 8, 8, 3)),
        torch.utils.data.TensorDataset(torch.rand(2, 1, 8, 8), torch.zeros(2)),
        [{"image": picture, "label": 0}, {"image": picture, "label": 1}],
    ]
    for items in as_pictures:
        for view in views(items, [1, 0]):
            assert view.picture.startswith("data:image/png;base64,")
    assert views(["one", "two"], [1])[0].cells == (("text", "two"),)
    assert views(pd.DataFrame({"age": [3, 4], "job": ["a", "b"]}), [1])[0].cells == (("age", "4"), ("job", "b"))
    assert views(np.array([[0.5, 2], [1, 3]]), [1])[0].cells == (("0", "1"), ("1", "3"))
    assert views(None, [1, 2])[0] == ("", ())


def test_items_that_do_not_fit_get_their_sentence(analysis: LabelAnalysis, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for items, said in (
        (["a"], "one for each of the 60 labels"),
        (iter("a"), "items must give each sample by its number"),
        (np.zeros((N, 5, 8, 8)), "one or three channels"),
        (["gone.png"] * N, r"images that can be read; got gone\.png"),
    ):
        with pytest.raises(InputError, match=said):
            analysis.report(out, items=items)
        with pytest.raises(InputError, match=said):
            analysis.review(out, items=items)
    with pytest.raises(InputError, match="classes must be 3 names; got 2"):
        analysis.report(out, classes=["a", "b"])
    with pytest.raises(InputError, match="ids of samples must differ"):
        analysis.review(out, ids=["same"] * N)
    assert not out.exists()


def test_cleanlab_ranks_by_what_an_analysis_hands_on(analysis: LabelAnalysis) -> None:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    handed = analysis.to_cleanlab(classes=NAMES)
    np.testing.assert_allclose(handed.pred_probs.sum(axis=1), 1)
    np.testing.assert_allclose(handed.noise_matrix.sum(axis=0), 1)
    scores = get_label_quality_scores(handed.labels, handed.pred_probs)
    np.testing.assert_allclose(scores, analysis.findings.quality.numpy())
    assert find_label_issues(handed.labels, handed.pred_probs, n_jobs=1).nonzero()[0].tolist() == list(WRONG)
    assert handed.label_issues["is_label_issue"].to_numpy().nonzero()[0].tolist() == list(WRONG)
    own = np.full((N, 3), 1 / 3)
    assert analysis.to_cleanlab(own).pred_probs.tolist() == own.tolist()
    with pytest.raises(InputError, match="the names of 3 classes; got 2"):
        analysis.to_cleanlab(classes=["a", "b"])
