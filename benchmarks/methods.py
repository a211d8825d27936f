"""All methods on the suite for one CPU: accuracy, labels put right, wrong labels found, and time relative to CE.

Digits with 20, 40 and 60 % symmetric noise (the true class may be drawn) and 40 % pair flips, and 10,000 rows of
CIFAR-10 features with human and SEAL label errors (folder given by --data or SELC_DATA). MLP 512-512, SGD 0.02 and
momentum 0.9, constant rate, batch 128, 60 epochs (features 30), last epoch, 3 seeds. Every method has its published
defaults; times that its paper gives in epochs are taken as a share of the paper's epochs (`parts.epochs_of`), but
windows over which predictions are averaged keep their length, as it is their number that steadies a mean. Nothing is
tuned on the test data: where a paper leaves a choice, the page of the method gives a reason that needs none. Methods
that need the noise rate estimate it. Resumable: a line per training.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selc.analysis import analyse
from selc.methods import METHODS, create
from selc.types import accuracies
from suite import arguments_for, load, plan_for, run_all, train

RESULTS = Path(__file__).parent / "results" / "methods.jsonl"
CELLS = [
    ("digits", "symmetric 0.2"),
    ("digits", "symmetric 0.4"),
    ("digits", "symmetric 0.6"),
    ("digits", "pair 0.4"),
    ("features", "human_random1"),
    ("features", "seal_0.2"),
]
EPOCHS = {"digits": 60, "features": 30}


@dataclass(frozen=True)
class Job:
    """One training."""

    data: str
    noise: str
    method: str
    seed: int


def jobs(methods: list[str], seeds: list[int]) -> Iterator[Job]:
    for seed in seeds:
        for data, noise in CELLS:
            for method in methods:
                yield Job(data, noise, method, seed)


def run(job: Job, folder: str | None) -> dict[str, Any]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    cell = load(job.data, job.noise, job.seed, folder)
    plan = plan_for(EPOCHS[job.data], 0.02, job.seed)
    began = time.process_time()
    outcome = train(cell, create(job.method), plan)
    seconds = time.process_time() - began
    last = accuracies(outcome.history[-1])
    belief = outcome.target.full()
    wrong = (cell.given != cell.true).numpy()
    suspicion = 1 - belief.gather(1, cell.given[:, None]).flatten().double().numpy()
    corrected = analyse(outcome, cell.given, cell.data.num_classes).corrected
    right = (corrected == cell.true).float().mean()
    return {
        "accuracy": (last["score"]["top1"] + last["choose"]["top1"]) / 2,  # the halves are of one size
        "right_before": 1 - float(wrong.mean()),
        "right_after": float(right),
        "auroc": float(roc_auc_score(wrong, suspicion)),
        "ap": float(average_precision_score(wrong, suspicion)),
        "epochs": len(outcome.history),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    parser = arguments_for(__doc__, RESULTS)
    parser.add_argument("--methods", default=",".join(METHODS), help="which methods to run")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--sets", default="digits,features")
    arguments = parser.parse_args()
    wanted = jobs(arguments.methods.split(","), [int(seed) for seed in arguments.seeds.split(",")])
    run_all([job for job in wanted if job.data in arguments.sets.split(",")], run, arguments, arguments.data)


if __name__ == "__main__":
    main()
