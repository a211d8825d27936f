"""Which encoder reads photographs best: EfficientNet-Lite0 against Lite2 and against Lite0 with mirror images.

Two sets of photographs, images of CIFAR-10 with wrong labels of two kinds, no image in both: 3,000 with the labels of
one annotator each (human_random1) and 2,000 with the instance-dependent labels of SEAL (seal_0.2); 1,000 clean test
images each. --data names the folder with cifar10/train.parquet and cifar10/test.parquet. The wheels of the encoders
must be installed.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from machine import machine
from photographs import CLASSES, FOLDS, WORST, selc
from selc._io.files import write_text
from selc.encoders.base import create
from selc.encoders.encoding import Reader
from selc.runs import RunFolder
from selc.runs.folder import environment
from selc.runs.job import load
from selc.runs.predict import model_of, probabilities

RESULTS = Path(__file__).parent / "results" / "encoders.md"
SETS = {"human_random1": 3_000, "seal_0.2": 2_000}
TEST = 1_000
WAYS = ("efficientnet-lite0", "efficientnet-lite2", "efficientnet-lite0-flip")
LOOKED_AT = ("accuracy", "right", "auroc")
PROTOCOL = f"""# Encoders of photographs

What is looked at was written down before anything was measured. Two sets: 3,000 images of CIFAR-10 with the labels of
one annotator each (`human_random1`), 2,000 others with `seal_0.2`; {TEST:,} clean test images each, no image in two
places. Ways: EfficientNet-Lite0, Lite2, and Lite0 averaged over each image and its mirror image. On the features of
each way `selc train` as it is by default (seed 0), with the {FOLDS}-fold judging that it does on a quiet machine;
logistic regression (C=0.01) stands beside it, which is no part of the decision. The default changes only if one way
is ahead of Lite0 in test accuracy, in right labels and in AUROC of the ranking, on both sets, and the gain in test
accuracy over both sets together is more than twice its standard error (paired by test image). Written by
`benchmarks/encoders.py`.
"""
Array = np.ndarray[Any, np.dtype[Any]]


def chosen(table: Any, rows: Array) -> torch.Tensor:
    """Images [N, 3, 32, 32]."""
    images = [np.asarray(Image.open(io.BytesIO(table["image"][row].as_py())).convert("RGB")) for row in rows.tolist()]
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)


def features(name: str, images: torch.Tensor) -> tuple[Array, Array, float]:
    """Features of the images and, for Lite0, of their mirror images; seconds of processor time of the first."""
    encoder = create(name, {}, 32, torch.device("cpu"))
    reader, began = Reader(0.0, 255.0, encoder.size), time.process_time()
    plain = np.concatenate([encoder.features(reader.prepare(x)) for x in images.split(encoder.batch)])
    seconds = time.process_time() - began
    if name != "efficientnet-lite0":
        return plain, plain, seconds
    mirrored = [encoder.features(reader.prepare(x.flip(3))) for x in images.split(encoder.batch)]
    return plain, np.concatenate(mirrored), seconds


def embedded(data: Path, work: Path) -> None:
    """One .npz for each set and way."""
    rng = np.random.default_rng(1)
    train, test = (pq.read_table(data / "cifar10" / f"{part}.parquet") for part in ("train", "test"))
    order, tests = rng.permutation(train.num_rows), rng.permutation(test.num_rows)
    start = 0
    for k, (labels, count) in enumerate(SETS.items()):
        rows, held = order[start : start + count], tests[k * TEST : (k + 1) * TEST]
        start += count
        if (work / f"{labels}-efficientnet-lite2.npz").exists():
            continue
        images = torch.cat([chosen(train, rows), chosen(test, held)])
        shared = {
            "y": train[labels].to_numpy()[rows],
            "true": train["label"].to_numpy()[rows],
            "y_test": test["label"].to_numpy()[held],
            "ids": rows.astype(str),
            "classes": np.array(CLASSES),
        }
        for name in ("efficientnet-lite0", "efficientnet-lite2"):
            plain, mirrored, seconds = features(name, images)
            kinds = {name: plain} | ({f"{name}-flip": (plain + mirrored) / 2} if mirrored is not plain else {})
            for way, x in kinds.items():
                x = x.astype(np.float16).astype(np.float32)
                np.savez(work / f"{labels}-{way}.npz", x=x[:count], x_test=x[count:], **shared)
            print(labels, name, f"{seconds / len(images) * 1000:.1f} s of processor time for 1,000 images", flush=True)
            (work / f"{name}.seconds").write_text(f"{seconds / len(images) * 1000:.1f}")


def measured(work: Path, labels: str, way: str) -> dict[str, Any]:
    """SELC and logistic regression on one file."""
    file = work / f"{labels}-{way}.npz"
    selc(work / f"run-{labels}-{way}", "train", file)
    run = RunFolder.open(work / f"run-{labels}-{way}")
    arrays = np.load(file)
    true, given = arrays["true"], arrays["y"]
    wrong, quality = given != true, run.findings().quality.numpy()
    scaler = StandardScaler().fit(arrays["x"])
    x, test = scaler.transform(arrays["x"]), scaler.transform(arrays["x_test"])
    model = LogisticRegression(C=0.01, max_iter=300)
    probs = cross_val_predict(model, x, given, cv=FOLDS, method="predict_proba")
    return {
        "set": labels,
        "way": way,
        "accuracy": run.summary["accuracy"]["test"]["top1"],
        "right": float((run.corrected().numpy() == true).mean()),
        "auroc": float(roc_auc_score(wrong, -quality)),
        "worst": int(wrong[np.argsort(quality, kind="stable")[:WORST]].sum()),
        "lr_accuracy": float((model.fit(x, given).predict(test) == arrays["y_test"]).mean()),
        "lr_auroc": float(roc_auc_score(wrong, -probs[np.arange(len(given)), given])),
        "hits": (predicted(run, file) == arrays["y_test"]).tolist(),
    }


def predicted(run: RunFolder, file: Path) -> Array:
    inputs = load(run.config).tests["test"].inputs
    net, method = model_of(run, (inputs.x.shape[1],))  # type: ignore[attr-defined]
    return probabilities(net, method, inputs, len(run.classes)).argmax(1).numpy()


def page(found: Sequence[dict[str, Any]], work: Path) -> str:
    about = environment()
    seconds = {way: float((work / f"{way}.seconds").read_text()) for way in WAYS[:2]}
    seconds[WAYS[2]] = 2 * seconds[WAYS[0]]
    lines = [
        PROTOCOL,
        f"Commit {str(about['commit'])[:12]}, torch {about['torch']}, {machine(about)}. Right labels before: "
        + ", ".join(f"{labels} {share:.1%}" for labels, share in before(work).items())
        + ". Seconds are of processor time on a machine that was shared.",
        "",
        "| set | way | test accuracy | right labels after | AUROC | wrong among the 100 worst | logistic regression: "
        "accuracy, AUROC | seconds for 1,000 images |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        cells = [each["set"], each["way"], f"{each['accuracy']:.1%}", f"{each['right']:.1%}", f"{each['auroc']:.3f}"]
        cells += [
            str(each["worst"]),
            f"{each['lr_accuracy']:.1%}, {each['lr_auroc']:.3f}",
            f"{seconds[each['way']]:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(verdict(found, way) for way in WAYS[1:])]
    return "\n".join(lines) + "\n"


def before(work: Path) -> dict[str, float]:
    files = {labels: np.load(work / f"{labels}-{WAYS[0]}.npz") for labels in SETS}
    return {labels: float((file["y"] == file["true"]).mean()) for labels, file in files.items()}


def verdict(found: Sequence[dict[str, Any]], way: str) -> str:
    """By the rule that was fixed before."""
    by = {(each["set"], each["way"]): each for each in found}
    ahead = {labels: [by[labels, way][what] > by[labels, WAYS[0]][what] for what in LOOKED_AT] for labels in SETS}
    hits = {each: np.concatenate([by[labels, each]["hits"] for labels in SETS]) for each in (way, WAYS[0])}
    gain = hits[way].astype(float) - hits[WAYS[0]]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    better = all(map(all, ahead.values())) and gain.mean() > 2 * error
    said = "; ".join(f"{labels}: ahead in {sum(each)} of 3" for labels, each in ahead.items())
    return (
        f"- **{way}**: {gain.mean() * 100:+.1f} points of test accuracy over both sets (standard error "
        f"{error * 100:.1f}); {said}. {'The default should change.' if better else 'The default stays.'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="A folder for features and runs.")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    embedded(options.data, options.work)
    found = []
    for labels in SETS:
        for way in WAYS:
            found.append(measured(options.work, labels, way))
            print(json.dumps({key: value for key, value in found[-1].items() if key != "hits"}), flush=True)
    text = page(found, options.work)
    write_text(RESULTS, text)
    print(text)


if __name__ == "__main__":
    main()
