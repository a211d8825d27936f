"""The data of the tutorials, with wrong labels in them: a folder of pictures, or tables of measurements."""

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


def write(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


kind, root = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else ".")
{"pictures": pictures, "tables": tables}[kind](root)
