"""One cell: a training in a process of its own, and the line of results that it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import read_json
from selc.bench.results import Line
from selc.callbacks import Callback
from selc.errors import RunFolderError, SelcError
from selc.runs import Config, RunFolder, execute, resume
from selc.runs.folder import environment
from selc.runs.job import load
from selc.training.metrics import headline
from selc.types import accuracies

NEVER = -1  # an epoch that was not there


@dataclass(frozen=True)
class Task:
    """What a process is told: the configuration, the folder to run it in, and the part of the machine it may use."""

    config: dict[str, Any]
    folder: str
    threads: int = 1
    environ: dict[str, str] = field(default_factory=dict)  # variables to set, such as SELC_DATA


class Quiet(Callback):
    """What the user should know about the data would be said once for each cell."""

    def on_notice(self, text: str) -> bool:
        return True


def work(task: Task, answer: Connection) -> None:
    """The life of the process: train, and send the line or the reason why there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then ends its processes
    threading.Thread(target=_die_with_the_runner, daemon=True).start()
    os.environ.update(task.environ)
    torch.set_num_threads(task.threads)
    try:
        answer.send(("line", train_cell(task)))
    except SelcError as error:
        answer.send(("failed", str(error)))
    except BaseException as error:
        traceback.print_exc(file=sys.stderr)
        answer.send(("failed", f"{type(error).__name__}: {error}"))
    finally:
        answer.close()


def _die_with_the_runner() -> None:
    """A process that outlives its runner would train on into a folder that the next runner goes on with."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def train_cell(task: Task) -> Line:
    """Train, or go on with what an interrupted runner left in the folder; a finished folder is only read."""
    config = Config.model_validate(task.config)
    config = config.model_copy(update={"train": config.train.model_copy(update={"threads": task.threads})})
    folder = Path(task.folder)
    before = 0.0
    began = time.process_time()
    run = None
    if (folder / "config.toml").exists():
        try:
            before = sum(float(entry["seconds"]) for entry in RunFolder.open(folder).history())
            run = resume(folder, [Quiet()])
        except RunFolderError as error:
            if isinstance(error.__cause__, OSError):  # a disk that is full now, not a folder that is damaged
                raise
            shutil.rmtree(folder)  # by whatever broke it off: it is ours, and a cell can be trained again
            before = 0.0
    if run is None:
        run = execute(config, folder, [Quiet()])
    return line_of(run, true_labels(run, config), before + time.process_time() - began)


def true_labels(run: RunFolder, config: Config) -> Tensor | None:
    """The true labels; of data that cannot say which of theirs are true, those that noise was drawn for."""
    if run.true is not None or config.noise.name == "none":
        return run.true
    return load(config).labels


def line_of(run: RunFolder, true: Tensor | None, seconds: float) -> Line:
    """What the tables are made of. ``seconds`` are those of the process; before an interruption, those of the clock."""
    summary, history = run.summary, run.history()
    last = history[-1]["stage"]
    epochs = [entry for entry in history if entry["stage"] == last]
    best = max(epochs, key=lambda entry: (_first(entry), -entry["epoch"]))
    noise = read_json(run.path / "noise.json")
    where = environment()
    line: Line = {
        "epoch": summary["epoch"],
        "accuracy": summary["accuracy"],  # of the epoch that the protocol picks
        "last_epoch": epochs[-1]["epoch"],
        "last_accuracy": accuracies(epochs[-1]),
        "best_epoch": best["epoch"],  # on the test set: how much the last epoch loses, never a result
        "best_accuracy": accuracies(best),
        "changed": summary["changed"],
        "noise_rate": noise["rate"],
        "noise_sha256": noise["sha256"],
        "seconds": round(seconds, 2),
        "epochs": len(history),
        "peak_mb": _peak_mb(),
        **{name: where[name] for name in ("selc", "commit", "torch", "python", "cpu_capability")},
    }
    if true is not None:
        line["right_before"] = float((run.given == true).float().mean())
        line["right_after"] = float((run.corrected() == true).float().mean())
    if summary.get("decision") is not None:
        line["decision"] = {k: summary["decision"][k] for k in ("start", "best", "reason", "alpha")}
    if true is not None and bool((run.given != true).any()):
        found = run.findings()
        line["found"] = found_wrong(found.is_issue, 1 - found.quality.double(), run.given != true)
    return line


def found_wrong(issue: Tensor, suspicion: Tensor, wrong: Tensor) -> dict[str, float]:
    """How well wrong labels were found, [N] each: by rank (AUROC, average precision) and by the marked ones (F1)."""
    positives, negatives = int(wrong.sum()), int((~wrong).sum())
    hits = int((issue & wrong).sum())
    result = {"f1": 2 * hits / max(int(issue.sum()) + positives, 1)}
    if positives and negatives:
        _, group, sizes = suspicion.unique(return_inverse=True, return_counts=True)
        rank = (sizes.cumsum(0).double() - (sizes.double() - 1) / 2)[group]  # the mean rank among equals
        area = (float(rank[wrong].sum()) - positives * (positives + 1) / 2) / (positives * negatives)
        hit = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, group, wrong.double()).flip(0)
        taken, right = sizes.flip(0).cumsum(0).double(), hit.cumsum(0)  # from the most suspicious on
        result |= {"auroc": area, "ap": float((hit / positives * right / taken).sum())}
    return result


def _first(entry: dict[str, Any]) -> float:
    """Top-1 accuracy on the first named set."""
    named = accuracies(entry)
    return headline(next(iter(named.values()))) if named else float(NEVER)


def _peak_mb() -> int | None:
    """The most memory that this process had, in MB; None where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, kilobytes elsewhere
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)
