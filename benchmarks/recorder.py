"""What a `selc.Recorder` costs in a plain loop, measured in two ways, each as a ratio of times of an epoch.

``with / without`` has two loops take turns, which also sees what the recorder does to the rest (caches, memory). On a
machine that others use, its quartiles are some per cent apart, so that it shows no cost of one per cent. ``inside`` is
one loop: the processor time of the epoch over that of the epoch less what passed inside the recorder's calls.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from machine import machine
from overhead import MLP, THREADS, Measurement, Task, bare, table
from selc._io.files import write_text
from selc.recorder import Recorder
from selc.runs.folder import environment

RESNET = Task("resnet18", (3, 32, 32), rows=64, epochs=1, batch_size=32)
WIDE = Task("mlp", (256,), rows=12_800, epochs=3, classes=1_000)


class Timed(Recorder):
    """Knows how long its calls took, from the second epoch on: the first one warms up."""

    inside = 0.0

    def __call__(self, *batch: Any) -> None:
        began = time.process_time()
        super().__call__(*batch)
        Timed.inside += (time.process_time() - began) * (self.epoch > 0)

    def set_epoch(self, epoch: int) -> None:
        began = time.process_time()
        super().set_epoch(epoch)
        Timed.inside += (time.process_time() - began) * (epoch > 0)


def inside(name: str, task: Task, target: float, repeats: int) -> dict[str, Any]:
    """The time of an epoch over the same without what passed inside the recorder."""
    turn, times = bare(task, recorder=Timed), []
    for _ in range(repeats):
        Timed.inside = 0.0
        whole = turn()
        times.append((whole, whole - Timed.inside))
    low, median, high = statistics.quantiles([a / b for a, b in times], n=4, method="inclusive")
    ours, rest = (statistics.median(side) for side in zip(*times, strict=True))
    return {
        "name": f"{name}-inside",
        "what": f"{task.net}, {task.classes} classes: an epoch / the same less the recorder's calls, time",
        "repeats": repeats,
        "median": round(median, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "target": f"<= {target}",
        "pass": median <= target,
        "seconds": [round(ours, 4), round(rest, 4)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    lines = []
    for name, task, target in (("mlp", MLP, 1.05), ("mlp-1000-classes", WIDE, 1.05), ("resnet", RESNET, 1.02)):
        what = f"{task.net}, {task.classes} classes: with / without a recorder, time of an epoch"
        ratio = Measurement(name, what, bare(task, recorder=Recorder), bare(task), task, target=target)
        for line in (ratio.run(arguments.repeats), inside(name, task, target, arguments.repeats)):
            lines.append(line | environment())
            print(json.dumps(lines[-1]), flush=True)
    write_text(arguments.out / "recorder.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write_page(arguments.out)


def write_page(folder: Path) -> None:
    """What it costs, and what `recorder_lists.py` found of how good its list is."""
    lines, lists = (
        [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for path in (folder / "recorder.jsonl", folder / "recorder-lists.jsonl")
    )
    parts = [table(lines, "Recorder", "recorder")] if lines else []
    write_text(folder / "recorder.md", "\n".join([*parts, *([of_lists(lists)] if lists else [])]))


def of_lists(lines: list[dict[str, Any]]) -> str:
    """Average precision of finding the wrong labels, cell by cell."""
    rivals = ("ap_recorder", "ap_ce_mean", "ap_folds", "ap_selc")
    about = lines[0]
    page = [
        "## How good its list is",
        "",
        f"Written by `benchmarks/recorder_lists.py` at commit {about['commit']} with torch {about['torch']}, "
        f"{machine(about)}: average precision of finding the wrong labels, sorted by label quality. The small data of "
        "the first half of `judge.toml`, seed 0, labels flipped to any other class. The recorder watches one plain "
        "training (MLP 512-512, settings by the number of rows) and gets no held-out rows. *CE mean* is the mean "
        "probability of the label over such a training, *folds* the probability of the label by five networks that "
        "never saw it, *SELC* a whole run (up to six trainings): these three are taken from the same cells of "
        f"[judge](judge.md), measured at commit {', '.join(sorted({line['judged_at'] for line in lines}))}.",
        "",
        "| data | noise | rows | recorder | CE mean | folds | SELC | seconds, recorder / SELC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        scores = [line[rival] for rival in rivals]
        marked = [f"**{score:.3f}**" if score == max(scores) else f"{score:.3f}" for score in scores]
        seconds = f"{line['seconds']:.1f} / {line['selc_seconds']:.1f}"
        page.append(f"| {line['data']} | {line['noise']} | {line['rows']} | {' | '.join(marked)} | {seconds} |")
    means = [statistics.mean(line[rival] for line in lines) for rival in rivals]
    page.append(f"| mean | | | {' | '.join(f'{mean:.3f}' for mean in means)} | |")
    folds, selc = (sum(line["ap_recorder"] > line[rival] for line in lines) for rival in ("ap_folds", "ap_selc"))
    page += [
        "",
        f"The recorder's list is better than that of five folds in {folds} of {len(lines)} cells, and than that of a "
        f"SELC run in {selc}.",
    ]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    main()
