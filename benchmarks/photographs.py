"""3,000 photographs with human labels: `selc train photos` against embedding first, from scratch, and cleanlab.

The photographs are images of CIFAR-10 as files, 3,000 with the labels of one annotator each (CIFAR-10N's random 1) and
500 of the test images; --data names the folder with cifar10/train.parquet and cifar10/test.parquet (image, label,
human_random1). All ways get the same files; cleanlab gets the very features that SELC was trained on.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from machine import machine
from selc._io.files import write_text
from selc.runs import RunFolder
from selc.runs.folder import environment
from selc.runs.job import load

RESULTS = Path(__file__).parent / "results" / "photographs.md"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ROWS, TEST, WORST, FOLDS = 3_000, 500, 100, 5
Array = np.ndarray[Any, np.dtype[Any]]


def photographs(source: Path, place: Path) -> None:
    """Write ``place/photos/LABEL/ROW.png``, ``place/test/LABEL/ROW.png`` and truth.json, the true labels by id."""
    rng = np.random.default_rng(0)
    truth = {}
    for part, label, count in (("train", "human_random1", ROWS), ("test", "label", TEST)):
        table = pq.read_table(source / "cifar10" / f"{part}.parquet")
        given, true = (table[column].to_numpy() for column in (label, "label"))
        root = place / ("photos" if part == "train" else "test")
        for row in np.sort(rng.choice(table.num_rows, count, replace=False)).tolist():
            name = f"{CLASSES[given[row]]}/{row:05d}.png"
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            Image.open(io.BytesIO(table["image"][row].as_py())).convert("RGB").save(root / name)
            if part == "train":
                truth[name] = int(true[row])
    (place / "truth.json").write_text(json.dumps(truth))


class Seconds(NamedTuple):
    """What a command took, from its start to its end."""

    clock: float
    processors: float


def selc(out: Path, *arguments: object) -> Seconds:
    """Call the command with nothing cached unless ``out`` is there; what it took, then or now."""
    note = out.with_name(out.name + ".seconds.json")
    if out.exists() and note.exists():
        return Seconds(*json.loads(note.read_text()))
    shutil.rmtree(cache := cache_of(out), ignore_errors=True)
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "selc", *map(str, arguments), "--out", str(out)],
        check=True,
        env={**os.environ, "SELC_CACHE": str(cache)},
    )
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = Seconds(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    note.write_text(json.dumps(seconds))
    return seconds


def cache_of(out: Path) -> Path:
    """A cache for this command alone: it decodes and embeds every image itself."""
    return out.with_name(out.name + ".cache")


def figures(
    accuracy: float, corrected: Array, quality: Array, given: Array, true: Array, seconds: Seconds
) -> list[str]:
    wrong = given != true
    worst = np.argsort(quality, kind="stable")[:WORST]
    return [
        f"{accuracy:.1%}",
        f"{(corrected == true).mean():.1%}",
        f"{int(wrong[worst].sum())}",
        f"{roc_auc_score(wrong, -quality):.3f}",
        f"{seconds.clock:.0f} s",
        f"{seconds.processors:.0f} s",
    ]


def of_run(path: Path, truth: dict[str, int], seconds: Seconds) -> list[str]:
    run = RunFolder.open(path)
    true = np.array([truth[name] for name in run.ids])
    found = run.findings()
    accuracy = run.summary["accuracy"]["test"]["top1"]
    return figures(accuracy, run.corrected().numpy(), found.quality.numpy(), run.given.numpy(), true, seconds)


def by_cleanlab(path: Path, truth: dict[str, int]) -> dict[str, list[str]]:
    """Logistic regression on the features of the run: on the given labels, and without what cleanlab flags."""
    run = RunFolder.open(path)
    os.environ["SELC_CACHE"] = str(cache_of(path))
    bundle = load(run.config)
    x, test = (part.x.numpy() for part in (bundle.inputs, bundle.tests["test"].inputs))  # type: ignore[attr-defined]
    given, true = run.given.numpy(), np.array([truth[name] for name in run.ids])
    scaler = StandardScaler().fit(x)
    x, test = scaler.transform(x), scaler.transform(test)
    began, worked = time.perf_counter(), time.process_time()
    model = LogisticRegression(C=0.01, max_iter=300)
    probs = cross_val_predict(model, x, given, cv=FOLDS, method="predict_proba")
    quality = get_label_quality_scores(given, probs)
    issues = find_label_issues(given, probs)
    corrected = np.where(issues, probs.argmax(1), given)
    answers = bundle.tests["test"].labels.numpy()
    plain = float((model.fit(x, given).predict(test) == answers).mean())
    pruned = float((model.fit(x[~issues], given[~issues]).predict(test) == answers).mean())
    seconds = Seconds(time.perf_counter() - began, time.process_time() - worked)
    return {
        "logistic regression, given labels": figures(plain, given, quality, given, true, seconds),
        "logistic regression with cleanlab": figures(pruned, corrected, quality, given, true, seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="A folder for the photographs and the runs.")
    parser.add_argument("--scratch", action="store_true", help="Also the network from scratch, which takes long.")
    options = parser.parse_args()
    work: Path = options.work
    if not (work / "truth.json").exists():
        photographs(options.data, work)
    truth = json.loads((work / "truth.json").read_text())
    photos, test = work / "photos", work / "test"
    lines: dict[str, list[str]] = {}
    seconds = selc(work / "by-default", "train", photos, "--test", test)
    lines["`selc train photos`"] = of_run(work / "by-default", truth, seconds)
    embedding = selc(work / "features.npz", "embed", photos, "--test", test)
    training = selc(work / "embedded", "train", work / "features.npz")
    seconds = Seconds(*(a + b for a, b in zip(embedding, training, strict=True)))
    lines["`selc embed photos`, then `selc train`"] = of_run(work / "embedded", truth, seconds)
    if options.scratch:
        seconds = selc(work / "scratch", "train", photos, "--test", test, "--encoder", "none")
        lines["`selc train photos --encoder none`"] = of_run(work / "scratch", truth, seconds)
    lines |= by_cleanlab(work / "by-default", truth)
    about = environment()
    right = np.mean([CLASSES[label] == name.partition("/")[0] for name, label in truth.items()])
    head = f"| way | test accuracy | right labels after ({right:.1%} before) | wrong among the {WORST} worst | AUROC | "
    head += "time by the clock | processor time |"
    text = "\n".join(
        [
            "# Photographs",
            "",
            f"Written by `benchmarks/photographs.py` at commit {str(about.get('commit'))[:12]} with torch "
            f"{about.get('torch')}, {machine(about)}. "
            f"{ROWS:,} images of CIFAR-10 as files of 32 x 32 pixels, one annotator's labels, "
            f"{TEST} clean test images. cleanlab gets {FOLDS}-fold predictions of scikit-learn's logistic regression "
            "(C=0.01) on the features of the first line; labels that it flags become the predicted ones, and the "
            f"tested model is trained without them. Time is that of whole commands from their start to their end, with "
            f"nothing cached, on a machine with {os.cpu_count()} processors: by the clock, which says something only "
            "if the machine was quiet, and of processors. The lines of logistic regression lack that of the features.",
            "",
            head,
            "|---|---|---|---|---|---|---|",
            *(f"| {name} | {' | '.join(cells)} |" for name, cells in lines.items()),
            "",
        ]
    )
    write_text(RESULTS, text)
    print(text)


if __name__ == "__main__":
    main()
