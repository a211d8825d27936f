"""The data of the tutorials, with wrong labels in them: a folder of pictures, tables of measurements, or of texts."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits

WRONG = 0.2  # share of the labels that are replaced by another one
rng = np.random.default_rng(0)


def spoilt(labels: Any, classes: int) -> Any:
    """The labels, a share of them wrong."""
    wrong = rng.random(len(labels)) < WRONG
    return np.where(wrong, (labels + rng.integers(1, classes, len(labels))) % classes, labels)


def pictures(root: Path) -> None:
    """photos/LABEL/NUMBER.png: 1,797 scans of digits. truth.csv says what they are; no command reads it."""
    data = load_digits()
    given = spoilt(data.target, 10)
    truth = []
    for row, (image, label) in enumerate(zip(data.images, given, strict=True)):
        path = root / "photos" / str(label) / f"{row:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 - image * 15.9).astype(np.uint8)).save(path)
        truth.append([f"{label}/{row:04d}.png", data.target[row]])
    write(root / "truth.csv", ["sample_id", "label"], truth)


def tables(root: Path) -> None:
    """measurements.csv and checked.csv: cells of tumours, the first with wrong labels and gaps, the second without."""
    data = load_breast_cancer()
    names = ["id", *(name.replace(" ", "_") for name in data.feature_names[:10]), "label"]
    order = rng.permutation(len(data.target))
    given = spoilt(data.target, 2)
    for name, rows, labels in (("measurements", order[:400], given), ("checked", order[400:], data.target)):
        cells = [[f"c{row}", *data.data[row, :10].round(5), data.target_names[labels[row]]] for row in rows]
        for row in cells[::25] if name == "measurements" else []:
            row[4] = ""  # not measured
        write(root / f"{name}.csv", names, cells)
    write(root / "truth.csv", ["sample_id", "label"], [[f"c{k}", data.target_names[data.target[k]]] for k in order])
    write(root / "new.csv", names[:-1], [[f"n{row}", *data.data[row, :10].round(5)] for row in order[400:410]])


PRAISE = """a joy from start to finish|the cast is superb|I laughed until I cried|beautifully shot and warmly told
|worth every minute|the best ending in years|a script full of wit|I will watch it again|the music stays with you
|touching without being sweet|the leads shine|it never puts a foot wrong|clever and generous|a small wonder"""
BLAME = """a waste of an evening|the plot makes no sense|I nearly fell asleep|the jokes fall flat
|badly cut and badly lit|the hero is a bore|an hour too long|the dialogue hurts|I wanted my money back
|nobody seems to care|the effects look cheap|it drags from scene to scene|clumsy and loud|a dull copy of better films"""
NEITHER = """it opened last week|the story is set in Lisbon|my sister chose it|we saw it on a Tuesday
|it runs for two hours|it is based on a novel|the director's third film|the cinema was half full
|it is about two brothers|there is a dog in it"""


def texts(root: Path) -> None:
    """reviews.csv and checked.csv: reviews that are put together from phrases, the first with wrong labels."""
    true = rng.integers(0, 2, 1000)
    given = spoilt(true, 2)
    rows = [[f"r{row}", review(bool(label)), ("bad", "good")[label]] for row, label in enumerate(true)]
    spoilt_rows = [[*row[:2], ("bad", "good")[label]] for row, label in zip(rows, given, strict=True)]
    write(root / "reviews.csv", ["id", "review", "label"], spoilt_rows[:700])
    write(root / "checked.csv", ["id", "review", "label"], rows[700:990])
    write(root / "new.csv", ["id", "review"], [row[:2] for row in rows[990:]])
    write(root / "truth.csv", ["sample_id", "label"], [[row[0], row[2]] for row in rows])


def review(good: bool) -> str:
    """Two or three phrases of one opinion, one of the other in every third review, and some of neither."""
    own, other = (PRAISE, BLAME) if good else (BLAME, PRAISE)
    counts = ((own, rng.integers(2, 4)), (other, rng.random() < 1 / 3), (NEITHER, rng.integers(1, 4)))
    phrases = [str(phrase) for some, count in counts for phrase in rng.permutation(parts(some))[: int(count)]]
    return ". ".join(phrase[0].upper() + phrase[1:] for phrase in rng.permutation(phrases)) + "."


def parts(phrases: str) -> list[str]:
    return [phrase.strip() for phrase in phrases.split("|")]


def write(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


kind, root = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".")
{"pictures": pictures, "tables": tables, "texts": texts}[kind](root)
