"""What selc costs on top of what must be computed anyway, as ratios: our loop, SELC's memory, the folder, the start.

The machine may be shared, so a time says little. Two rivals take turns within one process (A B, B A, ...), each repeat
gives one ratio, and the median and the quartiles over the repeats are reported. A turn sets everything up afresh,
trains one epoch to warm up, and counts the epochs after it. One thread, so the loops are timed by the processor time of
the process, which leaves out the waits for other processes; what writes files or starts programs is timed by the clock.
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
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F

from machine import machine
from selc._io.files import write_text
from selc.callbacks import Callback, EpochRecord
from selc.data import ArrayInputs
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.recorder import Recorder
from selc.runs.folder import environment
from selc.training import Plan, Trainer
from selc.types import Labels, TrainSet

THREADS = 1
Now = Callable[[], float]
Turn = Callable[[], float]  # one turn of a rival; how long it took in seconds


@dataclass(frozen=True)
class Task:
    """Random rows in memory and the network to train on them."""

    net: str
    shape: tuple[int, ...]
    rows: int
    epochs: int  # that count, in one turn
    classes: int = 10
    batch_size: int = 128
    compile: bool = False  # of the network, in either loop
    store: str = "auto"  # form of SELC's table

    def plan(self) -> Plan:
        how = {"batch_size": self.batch_size, "compile": self.compile, "store": self.store, "device": "cpu"}
        return Plan.model_validate({"epochs": 1 + self.epochs, "lr": 0.001, "precision": "fp32", **how})

    def data(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.compile:  # after eight networks torch would give up, and train the next ones as they are
            torch.compiler.reset()
        rng = torch.Generator().manual_seed(0)
        x = torch.randn(self.rows, *self.shape, generator=rng)
        return x, torch.randint(0, self.classes, (self.rows,), generator=rng)


MLP = Task("mlp", (256,), rows=12_800, epochs=3)
COMPILED = replace(MLP, compile=True)
WIDE = Task("mlp", (256,), rows=6_400, epochs=2, classes=1_000)
WIDER = Task("mlp", (256,), rows=1_280, epochs=2, classes=10_000)
CNN = Task("cnn", (3, 32, 32), rows=1_280, epochs=2)
HUNDRED = replace(MLP, classes=100)
TOP_K = replace(HUNDRED, store="top-k")
COMPILED_CNN = replace(CNN, compile=True)


@dataclass(frozen=True)
class Measurement:
    """Ours against a reference; the ratio is of speeds if ``faster_is_more``, else of times."""

    name: str
    what: str
    ours: Turn
    reference: Turn
    task: Task | None = None
    faster_is_more: bool = False
    bound: Literal[">=", "<="] = "<="
    target: float | None = None

    def run(self, repeats: int) -> dict[str, Any]:
        times: list[tuple[float, float]] = []
        for repeat in range(repeats):
            if repeat % 2 == 0:
                ours = self.ours()
                times.append((ours, self.reference()))
            else:
                reference = self.reference()
                times.append((self.ours(), reference))
        ratios = [b / a if self.faster_is_more else a / b for a, b in times]
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        kept = None
        if self.target is not None:
            kept = median >= self.target if self.bound == ">=" else median <= self.target
        ours, reference = (statistics.median(side) for side in zip(*times, strict=True))
        speeds = {}
        if self.task is not None:
            samples = self.task.rows * self.task.epochs
            speeds = {"samples_per_second": [round(samples / ours), round(samples / reference)]}
        return {
            "name": self.name,
            "what": self.what,
            "repeats": repeats,
            "median": round(median, 4),
            "quartiles": [round(low, 4), round(high, 4)],
            "target": None if self.target is None else f"{self.bound} {self.target}",
            "pass": kept,
            "seconds": [round(ours, 4), round(reference, 4)],
            **speeds,
        }


def bare(task: Task, fused: bool = True, *, recorder: type[Recorder] | None = None) -> Turn:
    """What one would write by hand in plain PyTorch; our loop uses fused steps. Nothing is kept of any batch, but by a
    `selc.Recorder` if there is one."""

    def turn() -> float:
        plan, (x, y) = task.plan(), task.data()
        model = create_net(task.net, task.classes, task.shape)
        images = len(task.shape) == 3
        if images:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.SGD(
            model.parameters(), lr=plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay, fused=fused
        )
        model.train()
        forward = torch.compile(model) if task.compile else model
        kept = None if recorder is None else recorder(y, task.classes)
        began = 0.0
        for epoch in range(plan.epochs):
            if epoch == 1:
                began = time.process_time()
            if kept is not None:
                kept.set_epoch(epoch)
            for index in torch.randperm(len(x)).split(plan.batch_size):
                inputs, labels = x[index], y[index]
                if images:
                    inputs = inputs.contiguous(memory_format=torch.channels_last)
                outputs = forward(inputs)
                if kept is not None:
                    kept(index, outputs)
                loss = F.cross_entropy(outputs, labels)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        return time.process_time() - began

    return turn


class Clock(Callback):
    """When each epoch was done and saved."""

    def __init__(self, now: Now) -> None:
        self.now = now
        self.ends: list[float] = []

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.ends.append(self.now())


def ours(task: Task, method: str, *, folder: bool = False, now: Now = time.process_time, **options: Any) -> Turn:
    """The same by selc's loop."""

    def turn() -> float:
        x, y = task.data()
        clock = Clock(now)
        with tempfile.TemporaryDirectory() as place:
            trainer = Trainer(
                task.plan(),
                lambda outputs: create_net(task.net, outputs, task.shape),
                folder=Path(place) if folder else None,
                callbacks=[clock],
            )
            trainer.fit(create_method(method, options), TrainSet(ArrayInputs(x), Labels(y, task.classes)))
        return clock.ends[-1] - clock.ends[0]

    return turn


FIRST_BATCH = """
import sys, time
from selc.callbacks import Callback
from selc.runs import Config, execute

class First(Callback):
    def on_batch_end(self, rows):
        print(time.time())
        sys.exit()

execute(Config.resolve({"data": "moons", "train": {"epochs": 1}}), sys.argv[1], [First()])
"""
IMPORT_TORCH = "import time, torch; print(time.time())"


def program(code: str) -> Turn:
    """A fresh Python, from its start until it prints the time."""

    def turn() -> float:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-c", code, str(Path(place) / "run")]
            settings = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
            began = time.time()
            done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        return float(done.stdout) - began

    return turn


def measurements() -> list[Measurement]:
    ce, selc = "ce, our loop / a loop by hand, speed", "selc / ce in our loop, time of an epoch"
    folder = "with / without a run folder, time of an epoch"
    wall, wide = time.perf_counter, f"MLP, {{}} classes: {selc}"
    start = "command to first batch / import torch, time"
    compiled, hand = ", ours by torch.compile", "a loop by hand with torch.compile / without, speed"
    top_k = "MLP, 100 classes: SELC with its table as top-k / dense, time of an epoch"
    return [
        Measurement("mlp-loop", f"MLP: {ce}", ours(MLP, "ce"), bare(MLP), MLP, True, ">=", 0.98),
        Measurement("mlp-loop-compile", f"MLP: {ce}{compiled}", ours(COMPILED, "ce"), bare(MLP), MLP, True, ">=", 1.0),
        Measurement("mlp-hand-compile", f"MLP: {hand}", bare(COMPILED), bare(MLP), MLP, True),
        Measurement("cnn-loop", f"CNN: {ce}", ours(CNN, "ce"), bare(CNN), CNN, True, ">=", 0.95),
        Measurement(
            "cnn-loop-compile", f"CNN: {ce}{compiled}", ours(COMPILED_CNN, "ce"), bare(CNN), CNN, True, ">=", 1.0
        ),
        Measurement("cnn-hand-compile", f"CNN: {hand}", bare(COMPILED_CNN), bare(CNN), CNN, True),
        Measurement("mlp-loop-default", f"MLP: {ce}, SGD by default", ours(MLP, "ce"), bare(MLP, False), MLP, True),
        Measurement("mlp-selc", f"MLP: {selc}", ours(MLP, "selc", start=0), ours(MLP, "ce"), MLP, target=1.10),
        Measurement(
            "mlp-selc-1000", wide.format("1,000"), ours(WIDE, "selc", start=0), ours(WIDE, "ce"), WIDE, target=1.05
        ),
        Measurement(
            "mlp-selc-10000", wide.format("10,000"), ours(WIDER, "selc", start=0), ours(WIDER, "ce"), WIDER, target=1.05
        ),
        Measurement("mlp-top-k", top_k, ours(TOP_K, "selc", start=0), ours(HUNDRED, "selc", start=0), HUNDRED),
        Measurement("cnn-selc", f"CNN: {selc}", ours(CNN, "selc", start=0), ours(CNN, "ce"), CNN, target=1.03),
        Measurement(
            "mlp-folder", f"MLP: {folder}", ours(MLP, "ce", folder=True, now=wall), ours(MLP, "ce", now=wall), MLP
        ),
        Measurement("first-batch", start, program(FIRST_BATCH), program(IMPORT_TORCH), target=1.5),
    ]


COMPILING = (
    "Compiled networks train without a break or a second compilation of their graph. Of an MLP torch.compile has "
    "nothing to gain: nearly all is matrix products, which stay the same calls, and its guards and wrappers cost some "
    "0.3 ms of a step of 3.3; so a loop by hand is slower with it as well (mlp-hand-compile)."
)


def table(lines: list[dict[str, Any]], title: str = "Overhead", script: str = "overhead", note: str = "") -> str:
    """The lines of the result file as a page."""
    about, commits = lines[-1], ", ".join(dict.fromkeys(str(line["commit"]) for line in lines))  # in parts
    page = [
        f"# {title}",
        "",
        f"Written by `benchmarks/{script}.py` at commit {commits} with torch {about['torch']}, "
        f"{about['threads']} thread, {machine(about)}. Ratios of ours to a reference that took turns with it: "
        "median and quartiles over the repeats. Seconds are medians of one turn, and say less than the ratios.",
        "",
        "| name | ratio of | median | quartiles | target | pass | repeats | seconds, ours / reference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        low, high = line["quartiles"]
        mine, other = line["seconds"]
        verdict = {True: "yes", False: "**no**", None: ""}[line["pass"]]
        page.append(
            f"| {line['name']} | {line['what']} | {line['median']:.3f} | {low:.3f} to {high:.3f} "
            f"| {line['target'] or ''} | {verdict} | {line['repeats']} | {mine:.3f} / {other:.3f} |"
        )
    return "\n".join([*page, "", note] if note else page) + "\n"


def main() -> None:
    jobs = {m.name: m for m in measurements()}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="5 repeats instead of 15")
    parser.add_argument("--only", choices=jobs, action="append", help="some; what the others found stays")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    where, results = environment(), arguments.out / "overhead.jsonl"
    before = [json.loads(text) for text in results.read_text().splitlines()] if results.exists() else []
    found = {line["name"]: line for line in before}
    for name in arguments.only or jobs:
        found[name] = jobs[name].run(5 if arguments.quick else 15) | where
        print(json.dumps(found[name]), flush=True)
        lines = [found[name] for name in jobs if name in found]
        write_text(results, "".join(json.dumps(line) + "\n" for line in lines))
        write_text(arguments.out / "overhead.md", table(lines, note=COMPILING))
    print(table(lines))


if __name__ == "__main__":
    main()
