"""The forms of per-sample tables against the dense one: deviation, results of trainings, speed, memory.

random     200 updates by random predictions: independent ones, and ones that waver around a fixed prediction per sample
twin       real trainings with SELC on a dense table; the other forms are fed the same predictions beside it
training   whole trainings with each form, three seeds: accuracy, corrected labels, equality with the dense one
speed      `ema` on a batch of 128, by turns with dense: ratio of times, median and quartiles
memory     1.28 million x 1000 in every form that fits half of the memory, and 10 million x 100,000 in top-k, each in a
           process of its own: the whole table is filled, then batches are timed; memory above that of the bare import

Data: digits with 40 % symmetric noise, 10,000 rows of CIFAR-10 features with human labels, and "hundred": the same
rows, each class split into ten by 10-means on the features, with 40 % symmetric noise over the 100 classes. MLP
512-512, SGD 0.02, momentum 0.9, constant rate, batch 128, as in the other benchmarks; one thread. The machine may be
shared, so speed is that of the processor time of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from machine import machine
from selc._io.files import write_text
from selc.memory import Store
from selc.memory.forms import Half

THREADS = 1
ALPHA = 0.9
UPDATES = 200
BATCH = 128
OTHERS = ("half", "bf16", "disk", "top-k")  # bf16 is no form of ours: it is measured to choose between the two
REAL: dict[str, int] = {"hundred": 30, "digits": 60, "features": 30}  # epochs of a training
LARGE = [(1_280_000, 1_000), (10_000_000, 100_000)]


class Bf16(Half):
    """What `Half` would be with bf16."""

    def __init__(self, columns: int) -> None:
        super().__init__(columns)
        self.dtype = torch.bfloat16


def table(form: str, labels: Tensor, columns: int) -> Store:
    if form == "top-k":
        return Store.from_labels(labels, columns, form="top-k", k=8)  # of ten classes, too
    if form != "bf16":
        return Store.from_labels(labels, columns, form=form)
    store = Store(len(labels), columns, form="half")
    store._form = Bf16(columns)
    store._buffers["table"] = torch.zeros(len(labels), columns, dtype=torch.bfloat16)
    store.write_labels(torch.arange(len(labels)), labels)
    return store


class Compared:
    """Tables of all forms that are updated alike, and how far they were from the dense one at most."""

    def __init__(self, labels: Tensor, columns: int) -> None:
        self.dense = table("dense", labels, columns)
        self.others = {form: table(form, labels, columns) for form in OTHERS}
        self.apart = dict.fromkeys(OTHERS, 0.0)
        self.same = dict.fromkeys(OTHERS, 1.0)
        self.sums = dict.fromkeys(OTHERS, 0.0)

    def ema(self, index: Tensor, p: Tensor) -> None:
        self.dense.ema(index, p, ALPHA)
        for store in self.others.values():
            store.ema(index, p, ALPHA)

    def look(self) -> None:
        """Compare whole tables; the argmax of the last look stays."""
        rows = self.dense.full()
        for form, store in self.others.items():
            theirs = store.full()
            self.apart[form] = max(self.apart[form], float((theirs - rows).abs().max()))
            self.same[form] = float((store.argmax() == rows.argmax(dim=1)).double().mean())
            self.sums[form] = max(self.sums[form], float((theirs.double().sum(dim=1) - 1).abs().max()))

    def lines(self, **about: Any) -> Iterator[dict[str, Any]]:
        for form, store in self.others.items():
            yield {
                **about,
                "form": form,
                "largest_deviation": self.apart[form],
                "same_argmax": self.same[form],
                "row_sum_off": self.sums[form],
                "bytes_per_sample": store.bytes_per_row,
            }


def random_part(_: str | None) -> Iterator[dict[str, Any]]:
    rows = 512
    for columns in (10, 100, 1000):
        rng = torch.Generator().manual_seed(columns)
        labels = torch.randint(columns, (rows,), generator=rng)
        mean = 3 * torch.randn(rows, columns, generator=rng)
        for kind in ("independent", "wavering"):
            compared = Compared(labels, columns)
            for _update in range(UPDATES):
                noise = torch.randn(rows, columns, generator=rng)
                logits = 3 * noise if kind == "independent" else mean + noise
                compared.ema(torch.arange(rows), logits.softmax(dim=1))
                compared.look()
            yield from compared.lines(part="random", data=kind, columns=columns, updates=UPDATES)


def cell_of(name: str, seed: int, folder: str | None) -> Any:
    from suite import load

    if name == "digits":
        return load("digits", "symmetric 0.4", seed, folder)
    if name == "features":
        return load("features", "human_random1", seed, folder)
    return hundred(seed, folder)


def hundred(seed: int, folder: str | None) -> Any:
    """The features with a hundred classes: ten clusters in each class, of the training rows alone."""
    from selc.data import ArrayInputs
    from selc.noise import draw_noise
    from selc.types import EvalSet
    from suite import Cell, load

    cell = load("features", "label", seed, folder)
    centres = clusters(folder)

    def fine(x: Tensor, label: Tensor) -> Tensor:
        return 10 * label + torch.cdist(x, centres.flatten(0, 1)).view(-1, 10, 10)[range(len(x)), label].argmin(dim=1)

    true = fine(cell.x, cell.true)
    given = draw_noise("symmetric", true, 100, seed, {"rate": 0.4}).labels
    tests = {}
    for name, test in cell.tests.items():
        rows = torch.arange(len(test.inputs)) if test.rows is None else test.rows
        x = next(iter(test.inputs.stream([rows], None)))
        tests[name] = EvalSet(ArrayInputs(x), fine(x, test.labels))
    return Cell(cell.x, given, true, tests)


@cache
def clusters(folder: str | None) -> Tensor:
    """Ten centres in each of the ten classes, [10, 10, D], by 20 rounds of k-means."""
    from suite import load

    cell = load("features", "label", 0, folder)
    found = []
    for label in range(10):
        x = cell.x[cell.true == label]
        centres = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(label))[:10]]
        for _ in range(20):
            nearest = torch.cdist(x, centres).argmin(dim=1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, x)
            centres = sums / torch.bincount(nearest, minlength=10).clamp_min(1)[:, None]
        found.append(centres)
    return torch.stack(found)


def twin_part(folder: str | None) -> Iterator[dict[str, Any]]:
    from selc.methods.base import detached_probs
    from selc.methods.selc import SELC
    from selc.types import Batch, StagePlan, Sweep, TrainSet
    from suite import plan_for, train

    class Watched(SELC):
        def setup(self, data: TrainSet, plan: StagePlan) -> None:
            super().setup(data, plan)
            self.__dict__["compared"] = Compared(data.labels.hard, data.num_classes)

        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            if batch.clock >= 2:
                self.__dict__["compared"].ema(batch.index, detached_probs(self, outputs))
            return super().loss(outputs, batch)

        def end_epoch(self, epoch: int, sweep: Sweep) -> None:
            if epoch >= 2:
                self.__dict__["compared"].look()

    for data in REAL:
        cell = cell_of(data, 0, folder)
        method = Watched(start=2, alpha=ALPHA)
        train(cell, method, plan_for(UPDATES + 2, 0.02, 0), tests=False)
        columns = cell.data.num_classes
        yield from method.__dict__["compared"].lines(part="twin", data=data, columns=columns, updates=UPDATES)


def training_part(folder: str | None) -> Iterator[dict[str, Any]]:
    from selc.methods import create
    from selc.types import accuracies
    from suite import plan_for, train

    for data, epochs in REAL.items():
        for seed in range(3):
            cell = cell_of(data, seed, folder)
            dense: Any = None
            # On disk a table has the bits of the dense one, and so has the training: one seed shows it.
            for form in ("dense", "half", "top-k", "disk") if seed == 0 else ("dense", "half", "top-k"):
                plan = plan_for(epochs, 0.02, seed).model_copy(update={"store": form})
                outcome = train(cell, create("selc"), plan)
                last = accuracies(outcome.history[-1])
                if dense is None:
                    dense = outcome
                believed = outcome.believed_labels == dense.believed_labels
                yield {
                    "part": "training",
                    "data": data,
                    "columns": outcome.target.columns,
                    "seed": seed,
                    "form": outcome.target.form,
                    "accuracy": (last["score"]["top1"] + last["choose"]["top1"]) / 2,
                    "right_before": float((cell.given == cell.true).double().mean()),
                    "right_after": float((outcome.corrected_labels == cell.true).double().mean()),
                    "same_argmax": float(believed.double().mean()),
                    "same_corrected": float((outcome.corrected_labels == dense.corrected_labels).double().mean()),
                }


def speed_part(_: str | None) -> Iterator[dict[str, Any]]:
    rows = 2048
    for columns in (10, 100, 1000, 10_000):
        rng = torch.Generator().manual_seed(0)
        labels = torch.randint(columns, (rows,), generator=rng)
        visits = torch.arange(rows).split(BATCH)[: 2 if columns > 1000 else None]
        for kind in ("wavering", "still"):
            ps = predictions(kind, columns, visits, rng)

            def turn(store: Store, ps: list[Tensor] = ps, visits: Any = visits) -> float:
                began = time.process_time()
                for number, p in enumerate(ps):
                    store.ema(visits[number % len(visits)], p, ALPHA)
                return (time.process_time() - began) / len(ps)

            dense = Store.from_labels(labels, columns)
            for form in ("half", "disk", "top-k"):
                store = Store.from_labels(labels, columns, form=form)
                for _turn in range(4):
                    turn(store), turn(dense)
                times = [(turn(store), turn(dense)) if n % 2 else (turn(dense), turn(store))[::-1] for n in range(31)]
                low, median, high = statistics.quantiles([a / b for a, b in times], n=4, method="inclusive")
                yield {
                    "part": "speed",
                    "form": form,
                    "columns": columns,
                    "data": kind,
                    "ratio": round(median, 3),
                    "quartiles": [round(low, 3), round(high, 3)],
                    "microseconds": [round(1e6 * statistics.median(side), 1) for side in zip(*times, strict=True)],
                    "bytes_per_sample": store.bytes_per_row,
                }


def predictions(kind: str, columns: int, visits: Any, rng: torch.Generator) -> list[Tensor]:
    """Three epochs of batches: each sample's prediction wavers around one of its own, or stays what it is."""
    mean = [3 * torch.randn(len(visit), columns, generator=rng) for visit in visits]
    noise = 1.0 if kind == "wavering" else 0.0
    return [
        (logits + noise * torch.randn(logits.shape, generator=rng)).softmax(dim=1) for _ in range(3) for logits in mean
    ]


def memory_part(_: str | None) -> Iterator[dict[str, Any]]:
    half_of_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    for rows, columns in LARGE:
        forms = ("dense", "half", "disk", "top-k") if columns <= 1000 else ("top-k",)
        for form in forms:
            need = rows * columns * {"dense": 4, "half": 2}.get(form, 0)
            about = {"part": "memory", "form": form, "rows": rows, "columns": columns}
            if need > half_of_memory:
                yield {**about, "skipped": f"{need / 1e9:.1f} GB are more than half of the memory"}
                continue
            command = [sys.executable, __file__, "--child", form, str(rows), str(columns)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            yield {**about, **json.loads(done.stdout)}


def child(form: str, rows: int, columns: int) -> dict[str, Any]:
    """Fill a table, update some batches, read every label; what it took beyond the bare import."""
    torch.set_num_threads(THREADS)
    bare = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    rng = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    labels = torch.randint(columns, (rows,), generator=rng, dtype=torch.int32)
    store = Store.from_labels(labels, columns, form=form)
    filled = time.perf_counter() - began
    p = (3 * torch.randn(BATCH, columns, generator=rng)).softmax(dim=1)
    times, own = [], 0
    for batch in range(100 if columns <= 1000 else 30):
        index = torch.randint(rows, (BATCH,), generator=rng).unique()
        now = p.roll(batch, dims=1)[: len(index)]
        began = time.perf_counter()
        store.ema(index, now, ALPHA)
        times.append(time.perf_counter() - began)
        own = max(own, status("RssAnon"))
    del now, p
    began = time.perf_counter()
    kept = int((store.argmax() == labels).sum()) / rows
    return {
        "bytes_per_sample": store.bytes_per_row,
        "table_gigabytes": round(rows * store.bytes_per_row / 1e9, 3),
        "peak_gigabytes": round((status("VmHWM") - bare) / 1e9, 3),
        "own_gigabytes": round((own - bare_anonymous(bare)) / 1e9, 3),
        "fill_seconds": round(filled, 1),
        "batch_milliseconds": round(1e3 * statistics.median(times), 2),
        "argmax_seconds": round(time.perf_counter() - began, 1),
        "labels_kept": kept,
    }


BARE: dict[str, int] = {}


def bare_anonymous(bare: int) -> int:
    return BARE.get("RssAnon", bare)


def status(field: str) -> int:
    """A figure of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


PARTS: dict[str, Callable[[str | None], Iterator[dict[str, Any]]]] = {
    "random": random_part,
    "twin": twin_part,
    "training": training_part,
    "speed": speed_part,
    "memory": memory_part,
}


def rendered(lines: list[dict[str, Any]]) -> str:
    """The lines of the result file as a page."""
    about, commits = lines[-1], ", ".join(dict.fromkeys(str(line["commit"]) for line in lines))  # parts may differ
    by_part = {part: [line for line in lines if line["part"] == part] for part in PARTS}
    page = [
        "# Tables",
        "",
        f"Written by `benchmarks/store.py` at commit {commits} with torch {about['torch']}, {THREADS} thread, "
        f"{machine(about)}.",
        "",
        "## Deviation from the dense table",
        "",
        f"{UPDATES} updates with alpha {ALPHA}. Random predictions of 512 samples, independent (the worst case: "
        "nothing stays from update to update) or wavering around a fixed one; and real trainings of SELC on a dense "
        "table, with the other forms fed the same predictions beside it. Largest difference of any entry at any time, "
        "samples with the same argmax at the end, and how far a row sum was from one. bf16 is shown for the choice of "
        "the 16 bits; it is no form of ours. top-k keeps 8 entries here even of ten classes, of which it keeps all "
        "otherwise.",
        "",
        "| predictions | classes | form | largest deviation | same argmax | row sum off | bytes per sample |",
        "|---|---|---|---|---|---|---|",
    ]
    page += [
        f"| {line['data']} | {line['columns']} | {line['form']} | {line['largest_deviation']:.1e} "
        f"| {line['same_argmax']:.2%} | {line['row_sum_off']:.0e} | {line['bytes_per_sample']:g} |"
        for line in by_part["random"] + by_part["twin"]
    ]
    page += [
        "",
        "## Whole trainings",
        "",
        "SELC with its own start and alpha, mean over seeds and its standard deviation. Differences are of the same "
        "seed, in points. A training amplifies any rounding: see the deviation above for what the form itself does. "
        "Rows of up to 16 classes are kept whole by top-k, so that it has the bits of dense there, as disk has always.",
        "",
        "| data | classes | form | accuracy | against dense | labels right | against dense | same argmax | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    trainings = by_part["training"]
    for data, form in dict.fromkeys((line["data"], line["form"]) for line in trainings):
        ours = [line for line in trainings if (line["data"], line["form"]) == (data, form)]
        theirs = [line for line in trainings if (line["data"], line["form"]) == (data, "dense")][: len(ours)]

        def figure(name: str, ours: list[dict[str, Any]] = ours) -> str:
            values = [100 * line[name] for line in ours]
            return f"{statistics.mean(values):.2f} ± {statistics.pstdev(values):.2f}"

        def against(name: str, ours: list[dict[str, Any]] = ours, theirs: list[dict[str, Any]] = theirs) -> str:
            return f"{statistics.mean(100 * (a[name] - b[name]) for a, b in zip(ours, theirs, strict=True)):+.2f}"

        same = statistics.mean(line["same_argmax"] for line in ours)
        page.append(
            f"| {data} | {ours[0]['columns']} | {form} | {figure('accuracy')} | {against('accuracy')} "
            f"| {figure('right_after')} | {against('right_after')} | {same:.2%} | {len(ours)} |"
        )
    page += [
        "",
        "## Speed",
        "",
        f"`ema` on a batch of {BATCH}: processor time over that of dense, which took turns with it; median and "
        "quartiles of 31 turns. Predictions waver around one of their own per sample, or stay as they are: top-k "
        "searches only rows of which another class became one of the largest. Up to 16 classes it keeps rows whole.",
        "",
        "| classes | predictions | form | ratio | quartiles | microseconds, form / dense | bytes per sample |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in by_part["speed"]:
        (low, high), (ours_us, dense_us) = line["quartiles"], line["microseconds"]
        page.append(
            f"| {line['columns']} | {line['data']} | {line['form']} | {line['ratio']:.2f} | {low:.2f} to {high:.2f} "
            f"| {ours_us:.0f} / {dense_us:.0f} | {line['bytes_per_sample']:g} |"
        )
    page += [
        "",
        "## Large tables",
        "",
        "Each in a process of its own: filled with labels, updated by batches of 128 random rows, every argmax read. "
        "Memory is the peak above that of the bare import; of it, own is what cannot be dropped (a table on disk is "
        "mapped, and the system keeps in memory as much of it as is free).",
        "",
        "| samples | classes | form | bytes per sample | table, GB | peak, GB | own, GB | fill, s | batch, ms "
        "| all argmax, s | labels kept |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in by_part["memory"]:
        start = f"| {line['rows']:,} | {line['columns']:,} | {line['form']} |"
        if "skipped" in line:
            page.append(f"{start} skipped: {line['skipped']} | | | | | | | |")
            continue
        page.append(
            f"{start} {line['bytes_per_sample']:g} | {line['table_gigabytes']:.2f} | {line['peak_gigabytes']:.2f} "
            f"| {line['own_gigabytes']:.2f} | {line['fill_seconds']:.0f} | {line['batch_milliseconds']:.2f} "
            f"| {line['argmax_seconds']:.1f} | {line['labels_kept']:.2%} |"
        )
    return "\n".join(page) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        BARE["RssAnon"] = status("RssAnon")
        form, rows, columns = sys.argv[2:5]
        print(json.dumps(child(form, int(rows), int(columns))))
        return
    from selc.runs.folder import environment

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=PARTS, action="append", help="some parts; what the others found stays")
    parser.add_argument("--data", default=os.environ.get("SELC_DATA"), help="folder with cifar10/features.npz")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    where = {k: v for k, v in environment().items() if k in ("commit", "torch", "platform", "cpu_capability")}
    results = arguments.out / "store.jsonl"
    for part in arguments.only or PARTS:
        found = []
        for line in PARTS[part](arguments.data):
            found.append(line | where)
            print(json.dumps(found[-1]), flush=True)
        before = [json.loads(text) for text in results.read_text().splitlines()] if results.exists() else []
        lines = [line for line in before if line["part"] != part] + found
        write_text(results, "".join(json.dumps(line) + "\n" for line in lines))
        write_text(arguments.out / "store.md", rendered(lines))


if __name__ == "__main__":
    main()
