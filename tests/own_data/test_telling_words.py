"""Words that speak for a class: their parts add up to what the network says, and the pages show them."""

from __future__ import annotations

import re
from pathlib import Path
from string import punctuation
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from selc.data.preprocess.spoken import word_weights
from selc.data.preprocess.text_column import TextColumn, term_weights
from selc.methods import create as create_method
from selc.report.gallery import WORDS, gallery
from selc.report.reading import Snapshot
from selc.review import write_review
from selc.runs import Config, RunFolder, execute
from selc.runs.telling_words import mean_slopes, most_telling, telling_words
from tests.own_data.reviews import reviews, write_reviews
from tests.test_review import content_of
from tests.test_text_runs import Quiet

TEXTS = [*reviews(60, 3)[0], "Well-made, witty!", "... -- ...", ""]


@pytest.fixture(scope="module")
def column() -> TextColumn:
    return TextColumn.learnt("text", np.array(TEXTS, dtype=object))[0]


@pytest.mark.parametrize("row", [0, 7, 60, 61, 62])
def test_what_words_add_is_all_of_the_features(column: TextColumn, row: int) -> None:
    """The sum over words along each axis is x + shift, the features before the shift."""
    parts = word_weights(column, TEXTS[row], np.eye(column.width))
    x = column.apply(np.array([TEXTS[row]], dtype=object))[0]
    np.testing.assert_allclose(sum(parts.values(), np.zeros(column.width)), x + column.shift, atol=1e-6)
    assert set(parts) <= {word.strip(punctuation) or word for word in TEXTS[row].lower().split()}


def test_a_term_gives_its_part_to_the_words_that_it_stands_in(column: TextColumn) -> None:
    """Against the definition, term by term: a word alone all of it, a pair half to each."""
    text = TEXTS[3]
    weights = term_weights(column, [text]).toarray()[0]
    direction = np.random.default_rng(0).normal(size=column.width)
    only_words = TextColumn("text", column.words, type(column.characters)((), np.zeros(0)),
                            column.projection[: len(column.words.names)], column.shift)  # fmt: skip
    by_words = term_weights(only_words, [text]).toarray()[0]
    assert (by_words > 0).sum() == (weights[: len(by_words)] > 0).sum() > 0
    spoken = re.findall(r"\w+", text.lower())
    expected: dict[str, float] = {}
    for name, weight, row in zip(only_words.words.names, by_words, only_words.projection, strict=True):
        if weight:
            each = name.split()
            times = sum(spoken[k : k + len(each)] == each for k in range(len(spoken)))
            assert times > 0
            for word in each:
                expected[word] = expected.get(word, 0.0) + weight * float(row @ direction) / len(each)
    got = {word: float(part) for word, part in word_weights(only_words, text, direction).items()}
    assert got == pytest.approx(expected)


def features(column: TextColumn) -> torch.Tensor:
    x = column.apply(np.array(TEXTS, dtype=object))
    return torch.from_numpy(np.concatenate([np.full((len(x), 1), 0.7), x], axis=1)).float()  # beside a number


@pytest.mark.parametrize("linear", [True, False])
def test_the_words_add_up_to_what_the_network_says_beyond_no_text(column: TextColumn, linear: bool) -> None:
    torch.manual_seed(0)
    width = column.width + 1
    net: Any = nn.Linear(width, 3)
    if not linear:
        net = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 3))
    x, method = features(column), create_method("ce", {})
    pairs = torch.tensor([[2, 0]]).expand(len(x), -1)
    slopes = mean_slopes(net, method, x, slice(1, width), torch.from_numpy(column.shift), pairs, 3)
    empty = torch.cat([x[:, :1], -torch.from_numpy(column.shift).float().expand(len(x), -1)], dim=1)
    with torch.no_grad():
        f = [(net(each)[:, 2] - net(each)[:, 0]).numpy() for each in (x, empty)]
    for row in (0, 5, 60):
        parts = word_weights(column, TEXTS[row], slopes[row])
        assert sum(map(float, parts.values())) == pytest.approx(float(f[0][row] - f[1][row]), rel=1e-3, abs=1e-4)
    if linear:  # gradient times input
        weight = (net.weight[2] - net.weight[0]).detach().numpy()[1:]
        np.testing.assert_allclose(slopes, np.broadcast_to(weight, slopes.shape), atol=1e-6)


def test_the_strongest_come_first_and_what_speaks_against_it_is_left_out() -> None:
    said = {"a": 1.0, "b": 5.0, "c": -9.0, "d": 0.01}
    assert most_telling({word: np.array(value) for word, value in said.items()}, 3) == ["b", "a"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = tmp_path_factory.mktemp("words")
    data = {"name": "table", "path": str(write_reviews(place / "reviews.csv")), "text_model": "tf-idf"}
    noise = {"name": "symmetric", "rate": 0.2}
    train = {"epochs": 8, "lr": 0.02, "batch_size": 8}  # so few that wrong labels are not learnt by heart
    settings = {"data": data, "noise": noise, "method": {"name": "selc", "start": 2}, "train": train}
    return execute(Config.resolve(settings), place / "run", [Quiet()])


def test_pages_show_the_words_for_the_suggestion(run: RunFolder, tmp_path: Path) -> None:
    from selc.runs.job import load

    bundle = load(run.config)
    found = run.findings()
    wrong = [row for row in range(len(found.given)) if found.suggested[row] != found.given[row]]
    told = telling_words(run, bundle, wrong, found.suggested[wrong].tolist(), found.given[wrong].tolist())
    assert wrong
    assert all(told)
    shown = gallery(Snapshot.of(run))
    assert shown.texts[0] == WORDS
    cards = {card.row: card.texts[0] for card in shown.cards}
    assert cards[wrong[0]] == ", ".join(told[0])
    made = write_review(run, tmp_path / "review.html", count=len(found.given))
    texts = content_of(made.path)["texts"]
    assert texts[str(wrong[0])][-1] == [f"words for {run.classes[found.suggested[wrong[0]]]}", ", ".join(told[0])]
    same = next(row for row in range(len(found.given)) if row not in wrong)
    assert not any(name.startswith("words for") for name, _ in texts[str(same)])
