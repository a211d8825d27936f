"""Short film reviews that a program has made up: two opinions, told apart by their words."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.own_data.miniature import write_csv

GOOD = ["wonderful", "charming", "brilliant", "moving", "superb", "delightful"]
BAD = ["dreadful", "boring", "clumsy", "awful", "tedious", "hopeless"]
THINGS = ["plot", "cast", "music", "ending", "dialogue", "camera", "script", "pace", "story", "hero"]
SHAPES = (
    "the {a} of this film is {x} and the {b} is {y}",
    "I found the {a} {x}, but above all the {b} was {y}!",
    "a {x} {a} with a {y} {b}: see for yourself",
)


def reviews(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts and their labels, ``bad`` and ``good`` in turn."""
    rng = np.random.default_rng(seed)
    labels = [("bad", "good")[k % 2] for k in range(count)]
    texts = []
    for k, label in enumerate(labels):
        x, y = rng.permutation(GOOD if label == "good" else BAD)[:2]
        a, b = rng.permutation(THINGS)[:2]
        texts.append(SHAPES[int(rng.integers(len(SHAPES)))].format(a=a, b=b, x=x, y=y) + f" (seen {k} times)")
    return texts, labels


def write_reviews(path: Path, count: int = 60, seed: int = 0) -> Path:
    """A table with a column of text, one of numbers and a category."""
    texts, labels = reviews(count, seed)
    rows = [
        [text, 80 + k % 50, ("cinema", "home")[k % 3 > 0], label]
        for k, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    return write_csv(path, ["review", "minutes", "place", "label"], rows)


def write_review_folder(root: Path, count: int = 60, seed: int = 0) -> Path:
    """A sub-folder of .txt files for each label."""
    for k, (text, label) in enumerate(zip(*reviews(count, seed), strict=True)):
        (root / label).mkdir(parents=True, exist_ok=True)
        (root / label / f"{k:03}.txt").write_text(text + "\n", encoding="utf-8")
    return root
