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

RESULTS = Path(__file__).parent / "results"
RIVALS = ("ap_ce_mean", "ap_folds", "ap")  # of a line of the judge
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
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
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
    lines, lists, judged = (
        [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for path in (folder / "recorder.jsonl", folder / "recorder-lists.jsonl", RESULTS / "judge.jsonl")
    )
    parts = [table(lines, "Recorder", "recorder")] if lines else []
    write_text(folder / "recorder.md", "\n".join([*parts, *([of_lists(lists, judged)] if lists else [])]))


def of_lists(lines: list[dict[str, Any]], judged: list[dict[str, Any]]) -> str:
    """Average precision of finding the wrong labels, cell by cell; the others' from the cells of the judge."""
    known = {(line["data"], line["noise"], line["seed"]): line for line in judged}
    cells = [(line, known[line["data"], line["noise"], line["seed"]]) for line in lines]
    about, commits = lines[0], ", ".join(sorted({there["commit"] for _, there in cells}))
    scores = [[line["ap"], *(there[rival] for rival in RIVALS)] for line, there in cells]
    page = [
        "## How good its list is",
        "",
        f"Written by `benchmarks/recorder_lists.py` at commit {about['commit']} with torch {about['torch']}, "
        f"{machine(about)}: average precision of finding the wrong labels, sorted by label quality, on all cells of "
        "the first half of `judge.toml` that [judge](judge.md) has and that have wrong labels. The recorder watches "
        "one plain training (MLP 512-512, settings by the number of rows) and gets no held-out rows. *CE mean* is the "
        "mean probability of the label over such a training, *folds* the probability of the label by five networks "
        "that never saw it, *SELC* a whole run (up to six trainings): these three, and the seconds of a run, are the "
        f"judge's, measured at commit {commits}.",
        "",
        "| data | noise | wrong | recorder | CE mean | folds | SELC | seconds, recorder / SELC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (line, there), row in zip(cells, scores, strict=True):
        marked = [f"**{score:.3f}**" if score == max(row) else f"{score:.3f}" for score in row]
        about_cell = f"{line['data']} | {line['noise']} | {there['wrong']:.1%}"
        page.append(f"| {about_cell} | {' | '.join(marked)} | {line['seconds']:.1f} / {there['seconds']:.1f} |")
    by_chance = [row for (line, _), row in zip(cells, scores, strict=True) if line["noise"].startswith("symmetric")]
    for name, chosen in (("mean, symmetric noise", by_chance), ("mean of all", scores)):
        means = [f"{statistics.mean(column):.3f}" for column in zip(*chosen, strict=True)]
        page.append(f"| {name} | {len(chosen)} cells | | {' | '.join(means)} | |")
    better = [sum(row[0] > row[place] for row in scores) for place in (2, 3)]
    page += [
        "",
        f"The recorder's list is better than that of five folds in {better[0]} of {len(lines)} cells, and than that of "
        f"a SELC run in {better[1]}.",
    ]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    main()
