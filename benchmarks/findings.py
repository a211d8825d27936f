"""Finding wrong labels: one SELC run against five folds, a recorder, AUM and the confidence of the last epoch.

Five-fold self-confidence is what confident learning starts from: five trainings, each judging the rows that it has not
seen, with as many epochs as the SELC run, and with fewer (the best number is chosen with hindsight, in its favour).
The recorder watches one plain training with cross entropy, all of whose rows are trained on, and changes nothing.
Same network and settings for all (MLP 512-512, SGD 0.02 and momentum 0.9, constant rate, batch 128). For each: AUROC
and average precision of finding the wrong labels, and processor time; for SELC also the zones. Resumable.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import write_text
from selc.analysis import analyse
from selc.analysis.findings import RELABEL, REVIEW
from selc.analysis.training_pass import by_training_pass
from selc.methods import CE, SELC, create
from selc.types import Pass, TrainSet
from suite import Cell, arguments_for, load, plan_for, run_all, train

RESULTS = Path(__file__).parent / "results" / "findings.jsonl"
EPOCHS = {"digits": 60, "features": 30, "features-all": 30}
FOLD_EPOCHS = {"digits": (5, 10, 20, 60), "features": (2, 3, 5, 10, 30), "features-all": (2, 3, 5, 10)}
CELLS = [
    ("features", "human_random1"),
    ("features", "seal_0.2"),
    ("digits", "symmetric 0.2"),
    ("digits", "symmetric 0.4"),
    ("features-all", "human_random1"),
    ("features-all", "seal_0.2"),
]


@dataclass(frozen=True)
class Job:
    """One way to find the wrong labels of one cell."""

    data: str
    noise: str
    way: str  # selc, five-fold, aum, last-epoch, recorder
    epochs: int
    seed: int


def jobs(sets: list[str], seeds: list[int]) -> list[Job]:
    wanted = []
    for data, noise in CELLS:
        if data not in sets:
            continue
        for seed in seeds:
            wanted += [Job(data, noise, way, EPOCHS[data], seed) for way in ("selc", "last-epoch", "aum", "recorder")]
            wanted += [Job(data, noise, "five-fold", epochs, seed) for epochs in FOLD_EPOCHS[data]]
    return wanted


def run(job: Job, folder: str | None) -> dict[str, Any]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    cell = load(job.data, job.noise, job.seed, folder)
    wrong = cell.given != cell.true
    began = time.process_time()
    more: dict[str, Any] = {}
    if job.way == "selc":
        quality, more = by_selc(cell, job)
    elif job.way == "five-fold":
        quality = out_of_fold(cell, job).gather(1, cell.given[:, None]).flatten()
    elif job.way == "recorder":
        outcome = train(cell, CE(), plan_for(job.epochs, 0.02, job.seed), tests=False)
        seen = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
        quality = by_training_pass(seen, cell.given, cell.data.num_classes).findings.quality
    else:
        method = CE() if job.way == "last-epoch" else create("aum")
        outcome = train(cell, method, plan_for(job.epochs, 0.02, job.seed), tests=False)
        quality = outcome.target.full().gather(1, cell.given[:, None]).flatten()
    return {
        "seconds": round(time.process_time() - began, 2),
        "auroc": float(roc_auc_score(wrong, 1 - quality.double())),
        "ap": float(average_precision_score(wrong, 1 - quality.double())),
        **more,
    }


def by_selc(cell: Cell, job: Job) -> tuple[Tensor, dict[str, Any]]:
    outcome = train(cell, SELC(), plan_for(job.epochs, 0.02, job.seed), tests=False)
    findings = analyse(outcome, cell.given, cell.data.num_classes).findings
    wrong = cell.given != cell.true
    relabel, look = findings.action == RELABEL, findings.action == REVIEW
    applied = torch.where(relabel, findings.suggested, cell.given)

    def share(rows: Tensor, of: Tensor) -> float | None:
        return float((rows & of).sum() / of.sum()) if bool(of.any()) else None

    return findings.quality, {
        "relabel": int(relabel.sum()),
        "review": int(look.sum()),
        "relabel_wrong": share(wrong, relabel),  # precision: the given label is wrong
        "relabel_right": share(findings.suggested == cell.true, relabel),  # and the suggestion is right
        "relabel_recall": share(relabel, wrong),
        "look_recall": share(relabel | look, wrong),
        "right_before": float((~wrong).double().mean()),
        "right_after": float((applied == cell.true).double().mean()),
    }


def out_of_fold(cell: Cell, job: Job, folds: int = 5) -> Tensor:
    """Probabilities of each row by a network that has not seen it."""
    rows = torch.randperm(len(cell.given), generator=torch.Generator().manual_seed(job.seed))
    result = torch.zeros(len(rows), cell.data.num_classes)
    for k in range(folds):
        held = rows[k::folds]
        others = torch.ones(len(rows), dtype=torch.bool)
        others[held] = False
        part: TrainSet = replace(cell.data, rows=others.nonzero().flatten())
        outcome = train(cell, CE(), plan_for(job.epochs, 0.02, job.seed), tests=False, data=part)
        result[held] = outcome.probs.full()[held]
    return result


def page(lines: list[dict[str, Any]]) -> str:
    grouped: dict[tuple[str, str], dict[tuple[str, int], list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        grouped[line["data"], line["noise"]][line["way"], line["epochs"]].append(line)
    text = [
        "# Findings",
        "",
        (__doc__ or "").split("\n\n", 1)[1].strip(),
        "",
        "Time is that of the processor relative to the SELC run. Means over seeds (number in brackets); the best of "
        "each cell is bold. The epochs that label quality looks at and the shares that bound the zones were chosen "
        "with seed 0 of these cells in view; the other seeds have the same rows and other networks.",
    ]
    for (data, noise), ways in grouped.items():
        text += ["", f"## {data}, {noise}", "", "| way | epochs | AUROC | AP | time |", "|---|---|---|---|---|"]
        best = {name: max(mean(rows, name) for rows in ways.values()) for name in ("auroc", "ap")}
        reference = mean(ways["selc", EPOCHS[data]], "seconds") if ("selc", EPOCHS[data]) in ways else None
        for (way, epochs), rows in sorted(ways.items()):
            cells = [bold(mean(rows, name), best[name]) for name in ("auroc", "ap")]
            timed = reference and all(row["seconds"] is not None for row in rows)  # not on a machine that others use
            spent = f"{mean(rows, 'seconds') / reference:.1f}" if reference and timed else "-"
            text.append(f"| {way} ({len(rows)}) | {epochs} | {' | '.join(cells)} | {spent} |")
        zones = ways.get(("selc", EPOCHS[data]), [])
        if zones:
            names = ("relabel_wrong", "relabel_right", "relabel_recall", "look_recall", "right_before", "right_after")
            precise, right, recall, look, before, after = (mean(zones, name) for name in names)
            if mean(zones, "relabel") == 0:
                text += ["", f"Zones of SELC: no label is `relabel`; {look:.3f} of the wrong ones are `review`."]
                continue
            text += [
                "",
                f"Zones of SELC: `relabel` {mean(zones, 'relabel'):.0f} samples, of which {precise:.3f} had a wrong "
                f"label and {right:.3f} get the right one, {recall:.3f} of all wrong ones; with `review` "
                f"({mean(zones, 'review'):.0f} samples) {look:.3f} of the wrong ones. Right labels {before:.3f} "
                f"before, {after:.3f} after relabelling.",
            ]
    return "\n".join(text) + "\n"


def mean(rows: list[dict[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if row.get(name) is not None]
    return statistics.mean(values) if values else float("nan")


def bold(value: float, best: float) -> str:
    return f"**{value:.4f}**" if value >= best else f"{value:.4f}"


def main() -> None:
    parser = arguments_for(__doc__, RESULTS)
    parser.add_argument("--sets", default="digits,features")
    parser.add_argument("--seeds", default="0,1,2")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    run_all(jobs(arguments.sets.split(","), seeds), run, arguments, arguments.data)
    lines = [json.loads(text) for text in arguments.out.read_text().splitlines()]
    write_text(arguments.out.with_suffix(".md"), page(lines))


if __name__ == "__main__":
    main()
