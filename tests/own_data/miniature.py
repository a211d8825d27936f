"""Small data of one's own, in each of the forms that are accepted."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, np.dtype[np.uint8]]
COLOURS = {"blue": (20, 30, 220), "green": (30, 200, 40), "red": (220, 40, 30)}


def picture(name: str, number: int, size: tuple[int, int] = (10, 10)) -> Array:
    """A noisy picture [H, W, 3] of mostly one colour."""
    noise = np.random.default_rng([sum(map(ord, name)), number]).integers(-20, 21, (*size, 3))
    pixels: Array = np.clip(noise + COLOURS[name], 0, 255).astype(np.uint8)
    return pixels


def encoded(pixels: Array, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def folder(root: Path, each: int = 4, size: tuple[int, int] = (10, 10), first: int = 0) -> Path:
    """``root/COLOUR/NUMBER.png``."""
    for name in COLOURS:
        (root / name).mkdir(parents=True)
        for number in range(first, first + each):
            (root / name / f"{number}.png").write_bytes(encoded(picture(name, number, size)))
    return root


def in_order(each: int = 4, size: tuple[int, int] = (10, 10)) -> Array:
    """The pixels [N, 3, H, W] of such a folder, in the order of its sorted names."""
    pictures = [picture(name, number, size) for name in COLOURS for number in range(each)]
    return np.stack(pictures).transpose(0, 3, 1, 2)


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]], separator: str = ",") -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def flowers(rows: int = 30, seed: int = 0) -> tuple[np.ndarray[Any, np.dtype[np.float64]], list[str]]:
    """Features of three kinds that lie apart, and their names; the columns have different scales."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(rows) % 3
    x = rng.normal(size=(rows, 4)) * [1, 10, 100, 0.01] + 3 * kinds[:, None] * np.array([1, 10, 100, 0.01])
    return x, [("rose", "tulip", "aster")[kind] for kind in kinds]


def flower_csv(path: Path, rows: int = 30, seed: int = 0, separator: str = ",") -> Path:
    x, labels = flowers(rows, seed)
    cells = [[*row, label] for row, label in zip(x.tolist(), labels, strict=True)]
    return write_csv(path, ["length", "width", "weight", "thickness", "label"], cells, separator)


def options_for(name: str, place: Path) -> dict[str, Any]:
    """Options with which the dataset ``name`` reads a miniature that is written to ``place`` first."""
    if name == "folder":
        folder(place / "train")
        folder(place / "test", each=3, first=10)
        return {"path": str(place), "cache": str(place / "cache")}
    if name == "table":
        return {"path": str(flower_csv(place / "data.csv")), "test": str(flower_csv(place / "test.csv", 15, seed=1))}
    if name == "texts":
        from tests.own_data.reviews import write_review_folder

        write_review_folder(place / "train", 24)
        write_review_folder(place / "test", 8, seed=1)
        return {"path": str(place)}
    if name == "npz":
        x, labels = flowers()
        x_test, test_labels = flowers(15, seed=1)
        np.savez(place / "data.npz", x=x, y=np.array(labels), x_test=x_test, y_test=np.array(test_labels))
        return {"path": str(place / "data.npz")}
    return {}
