"""Does the cost grow where it should not? Ratios over the number of classes, of samples, of processes, and to rivals.

Rivals take turns within one process, as in overhead.py: each repeat gives one ratio, and the median and the quartiles
over the repeats are reported. Loops are timed by processor time with one thread; several processes, start-up and memory
are measured on programs of their own. skorch and Lightning are left out where they are not installed: `pip install
skorch lightning`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch

from machine import machine
from overhead import CNN, THREADS, Measurement, Task, Turn, bare, ours
from selc._io.files import write_text
from selc.nets import create as create_net
from selc.runs.folder import environment

RESULTS = Path(__file__).parent / "results"
LOOP = Task("mlp", (256,), rows=50_000, epochs=1)
FEATURES = Task("mlp", (64,), rows=100_000, epochs=1)
RESNET = Task("resnet18", (3, 32, 32), rows=128, epochs=1, batch_size=64)
HEAD = Task("mlp", (256,), rows=5_120, epochs=1)


def skorch(task: Task) -> Turn:
    """The same training by skorch, timed from the end of its first epoch."""

    def turn() -> float:
        from skorch import NeuralNetClassifier
        from skorch.callbacks import Callback

        ends: list[float] = []

        class Clock(Callback):  # type: ignore[misc]
            def on_epoch_end(self, net: Any, **_: Any) -> None:
                ends.append(time.process_time())

        plan, (x, y) = task.plan(), task.data()
        net = NeuralNetClassifier(
            create_net(task.net, task.classes, task.shape),
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.SGD,
            optimizer__momentum=plan.momentum,
            optimizer__weight_decay=plan.weight_decay,
            optimizer__fused=True,
            lr=plan.lr,
            batch_size=plan.batch_size,
            max_epochs=plan.epochs,
            iterator_train__shuffle=True,
            train_split=None,
            callbacks=[("clock", Clock())],
            callbacks__print_log=None,
            verbose=0,
        )
        net.fit(x, y)
        return ends[-1] - ends[0]

    return turn


def lightning(task: Task) -> Turn:
    """The same by Lightning, without its logger, checkpoints and progress bar."""

    def turn() -> float:
        import logging
        import warnings

        import lightning.pytorch as L

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        plan, (x, y) = task.plan(), task.data()
        ends: list[float] = []

        class Module(L.LightningModule):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.net = create_net(task.net, task.classes, task.shape)

            def training_step(self, batch: Any, _: int) -> torch.Tensor:
                return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

            def on_train_epoch_end(self) -> None:
                ends.append(time.process_time())

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(
                    self.parameters(), lr=plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay, fused=True
                )

        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(x, y), batch_size=plan.batch_size, shuffle=True
        )
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = L.Trainer(max_epochs=plan.epochs, accelerator="cpu", enable_model_summary=False, **quiet)
            trainer.fit(Module(), loader)
        return ends[-1] - ends[0]

    return turn


def per_sample(task: Task) -> Turn:
    """Seconds per sample of an epoch of SELC."""
    turn = ours(task, "selc", start=0)
    return lambda: turn() / (task.rows * task.epochs)


def measurements(largest: int) -> Iterator[Measurement]:
    for C in (10, 100, 1_000, 10_000):
        for name, task, target in (("resnet18", RESNET, 1.05), ("mlp", HEAD, None)):
            task = replace(task, classes=C)
            what = f"{name}, {C:,} classes: selc / ce, time per sample"
            yield Measurement(
                f"classes-{name}-{C}", what, ours(task, "selc", start=0), ours(task, "ce"), task, target=target
            )
    for N in (10_000, 1_000_000):
        if largest >= N:
            task = replace(FEATURES, rows=N, epochs=max(1, 100_000 // N))
            what = f"features: {N:,} / {FEATURES.rows:,} samples, time per sample"
            yield Measurement(f"rows-{N}", what, per_sample(task), per_sample(FEATURES), target=1.10)
    what = "MLP on 50,000 x 256: {} / a loop by hand, time of an epoch"
    yield Measurement("loop-ours", what.format("ce in our loop"), ours(LOOP, "ce"), bare(LOOP), LOOP, target=1.05)
    for name, rival in (("skorch", skorch), ("lightning", lightning)):
        if find_spec(name):
            yield Measurement(f"loop-{name}", what.format(name), rival(LOOP), bare(LOOP), LOOP)


PROGRAM = """
import sys, time
import torch
torch.set_num_threads(1)
from selc.data import ArrayInputs
from selc.callbacks import Callback
from selc.methods import create
from selc.nets import create as net
from selc.training import Plan, Trainer
from selc.types import Labels, TrainSet
N, C, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def peak():  # not ru_maxrss, which a process takes over from the one that started it
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
x, y = torch.randn(N, 16), torch.arange(N) % C
made = peak()
class First(Callback):
    first = None
    def on_batch_end(self, rows):
        self.first = self.first or time.time()
clock = First()
plan = Plan(epochs=1, batch_size=1024, lr=0.001, device="cpu", store=store)
started = time.time()
trainer = Trainer(plan, lambda k: net("mlp", k, (16,), {"hidden": (16,)}), callbacks=[clock])
trainer.fit(create("selc", {"start": 0, "alpha": 0.9}), TrainSet(ArrayInputs(x), Labels(y, C)))
print(clock.first - started, peak() - made)
"""


def program(rows: int, classes: int, store: str) -> tuple[float, int]:
    """Seconds from the call to the first batch, and bytes above the inputs, of one epoch of SELC."""
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(rows), str(classes), store]
    words = subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.split()
    return float(words[0]), int(words[1])


def memory(repeats: int, largest: int) -> Iterator[dict[str, Any]]:
    """Start-up and memory of programs of their own."""
    for N, C in product((10_000, 100_000, 1_000_000), (10, 100)):
        if largest < N:
            continue
        for store in ("dense", "half", "disk", "top-k") if C == 100 else ("dense",):
            runs = [program(N, C, store) for _ in range(repeats)]
            seconds, taken = (statistics.median(side) for side in zip(*runs, strict=True))
            yield {"kind": "memory", "rows": N, "classes": C, "store": store, "start": seconds, "bytes": int(taken)}


def processes(repeats: int, task: Task) -> dict[str, Any]:
    """One epoch by two processes with one thread each over one process with one thread, and over one with two."""
    seconds: dict[str, list[float]] = {"two": [], "one": [], "threads": []}
    with tempfile.TemporaryDirectory() as place:
        x, y = task.data()
        import numpy as np

        np.savez(Path(place) / "data.npz", x=x.numpy(), y=y.numpy())
        ways: dict[str, tuple[list[str], int]] = {
            "two": (["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "selc"], 1),
            "one": (["-m", "selc"], 1),
            "threads": (["-m", "selc"], 2),
        }
        for repeat, (name, (start, threads)) in product(range(repeats), ways.items()):
            out = Path(place) / f"{name}-{repeat}"
            command = [sys.executable, *start, "train", str(Path(place) / "data.npz"), "--method", "ce"]
            command += ["--net", task.net, "--epochs", "4", "--out", str(out)]
            command += ["--set", f"train.threads={threads}", "--set", f"train.batch_size={task.batch_size}"]
            subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": str(threads)}, capture_output=True, check=True)
            entries = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            seconds[name].append(statistics.median(e["seconds"] for e in entries[1:]))
    ratios = {
        other: [a / b for a, b in zip(seconds["two"], seconds[other], strict=True)] for other in ("one", "threads")
    }
    return {
        "kind": "processes",
        "net": task.net,
        "rows": task.rows,
        "shape": list(task.shape),
        "seconds": {k: statistics.median(v) for k, v in seconds.items()},
        **{f"two/{other}": statistics.median(values) for other, values in ratios.items()},
        "range": {other: [min(values), max(values)] for other, values in ratios.items()},
        "repeats": repeats,
        "load": os.getloadavg()[2],  # of a quarter of an hour, ours included
    }


def name_of(line: dict[str, Any]) -> str:
    """What a line is about; it takes the place of an older one of the same name."""
    default = {"net": "mlp"}  # of lines of before there was a second one
    parts = ("kind", "rows", "classes", "store", "net")
    return str(line.get("name") or [line.get(part, default.get(part)) for part in parts])


def page(lines: list[dict[str, Any]]) -> str:
    """The lines of the result file as a page."""
    about, commits = lines[-1], ", ".join(dict.fromkeys(str(line["commit"]) for line in lines))  # in parts
    text = [
        "# Scaling",
        "",
        f"Written by `benchmarks/scaling.py` at commit {commits} with torch {about['torch']} on "
        f"{machine(about)}. Ratios of two that took turns: median and quartiles over the repeats.",
        "",
        "| ratio of | median | quartiles | target | pass | repeats |",
        "|---|---|---|---|---|---|",
    ]
    for line in (entry for entry in lines if "median" in entry):
        low, high = line["quartiles"]
        verdict = {True: "yes", False: "**no**", None: ""}[line["pass"]]
        text.append(
            f"| {line['what']} | {line['median']:.3f} | {low:.3f} to {high:.3f} | {line['target'] or ''} | {verdict} "
            f"| {line['repeats']} |"
        )
    text += [
        "",
        "## Memory and start",
        "",
        "One epoch of SELC on 16 features in a program of its own. *Memory* is the highest point above the inputs "
        "(the libraries' own working memory included, and pages of a table on disk, which the system takes back when "
        "it needs them). *Formula* is what docs/scale.md says of the tables alone.",
        "",
        "| samples | classes | store | memory, MB | formula, MB | seconds to the first batch |",
        "|---|---|---|---|---|---|",
    ]
    for line in (entry for entry in lines if entry.get("kind") == "memory"):
        N, C, store = line["rows"], line["classes"], line["store"]
        text.append(
            f"| {N:,} | {C} | {store} | {line['bytes'] / 1e6:,.0f} | {formula(N, C, store) / 1e6:,.0f} "
            f"| {line['start']:.2f} |"
        )
    text += ["", "## Processes"]
    for line in (entry for entry in lines if entry.get("kind") == "processes"):
        spread = {
            other: f" ({low:.2f} to {high:.2f} in {line['repeats']} repeats)"
            for other, (low, high) in line.get("range", {}).items()
        }
        load = f"; {line['load']:.1f} processes wanted them on average" if "load" in line else ""
        text += [
            "",
            f"An epoch of {line['rows']:,} x {line.get('shape', 256)} by the network {line.get('net', 'mlp')} with "
            "`torchrun --nproc-per-node 2`, one thread each: "
            f"{line['two/one']:.2f} of the time of one process with one thread{spread.get('one', '')}, "
            f"{line['two/threads']:.2f} of one process with two threads{spread.get('threads', '')} "
            f"(wall clock, two cores{load}).",
        ]
    return "\n".join(text) + "\n"


def formula(rows: int, classes: int, store: str) -> float:
    """Bytes of the tables in memory: SELC's targets, the final sweep's probabilities, and what is noted of a sample."""
    table = {"dense": 4 * classes, "half": 2 * classes, "disk": 0, "top-k": 64}[store]
    noted = 8 + 8 + 3 * 4 + 2 * 2  # labels, order; loss, confidence, draws; prediction, belief
    return rows * (2 * table + noted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest number of samples")
    parser.add_argument("--only", default="", help="beginning of the names to measure; what the others found stays")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    where, results = environment(), arguments.out / "scaling.jsonl"
    before = [json.loads(text) for text in results.read_text().splitlines()] if results.exists() else []
    found = {name_of(line): line for line in before}

    def keep(line: dict[str, Any]) -> None:
        found[name_of(line)] = line | where
        print(json.dumps(line), flush=True)

    for job in measurements(arguments.largest):
        if job.name.startswith(arguments.only):
            keep(job.run(arguments.repeats))
    if "memory".startswith(arguments.only):
        for line in memory(max(1, arguments.repeats // 2), arguments.largest):
            keep(line)
    for task in (replace(LOOP, batch_size=1024), replace(CNN, rows=5_120, batch_size=256)):
        if f"processes-{task.net}".startswith(arguments.only):
            keep(processes(arguments.repeats, replace(task, rows=min(task.rows, arguments.largest))))
    lines = list(found.values())
    write_text(results, "".join(json.dumps(line) + "\n" for line in lines))
    write_text(arguments.out / "scaling.md", page(lines))
    print(page(lines))


if __name__ == "__main__":
    main()
