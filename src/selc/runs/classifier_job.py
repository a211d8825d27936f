"""A run with a classifier of scikit-learn in the place of a network: ``--net sklearn:NAME``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selc._io.files import sweep
from selc.callbacks import Callback, Callbacks
from selc.classifiers import Fit, Rows, create, judge_labels, write_fit
from selc.classifiers.folds import probabilities
from selc.data import Bundle
from selc.errors import ConfigError
from selc.memory.store import Store
from selc.runs.config import Config
from selc.runs.folder import RunFolder
from selc.runs.summary import label_summary
from selc.training.metrics import chosen, measured, rows_of, wanted
from selc.turning import TurningPoint
from selc.types import EvalSet, Inputs
from selc.world import current

REFIT = "refit"  # which classifier is handed out: the one that was fitted again on all rows
BATCH = 4096  # rows that are read at a time


class ClassifierJob:
    """A configuration turned into objects; it is asked for the same as a job with a network."""

    def __init__(self, config: Config, bundle: Bundle) -> None:
        self.config, self.bundle = config, bundle
        self.classifier = create(config.net.name, config.net.options, config.train.seed)
        if len(bundle.shape) != 1:
            raise ConfigError(
                f"net {config.net.name} is for tables and other features; got inputs of shape {list(bundle.shape)}. "
                "Turn images into features first: selc embed."
            )

    def net(self, outputs: int) -> nn.Module:
        """What some kinds of noise are drawn by."""
        raise ConfigError(
            f"noise {self.config.noise.name} is drawn by a network; got net {self.config.net.name}. Take another noise."
        )

    def check(self, given: Tensor) -> None:
        """Refuse labels that cannot be fitted."""
        if len(given.unique()) < 2:
            raise ConfigError("labels must name at least two classes; got only one.")

    def go(self, run: RunFolder, callbacks: Sequence[Callback]) -> None:
        """Judge the labels in the folder, and fit on the result; of several processes one does."""
        run.check_data(self.bundle.digest, len(self.bundle.labels))
        if run.given_targets() is not None:
            raise ConfigError(
                "--soft must be left out with --net sklearn:NAME, which is fitted on hard labels; got it."
            )
        if current().leads and not run.finished:
            sweep(run.path)
            self._fit_into(run, Callbacks(callbacks).on_message)
        current().barrier()

    def _fit_into(self, run: RunFolder, tell: Callable[[str], None]) -> None:
        began, bundle = time.perf_counter(), self.bundle
        x, C = as_table(bundle.inputs), len(bundle.classes)
        data = Rows(x, run.given, C, run.rows, run.verified, bundle.groups, bundle.time)
        fit = judge_labels(self.classifier, data, self.config.train.seed, tell)
        tests = {**bundle.tests, **({"val": bundle.val} if bundle.val is not None else {})}
        accuracy = {name: self._measured(fit, test, C) for name, test in tests.items()}
        seconds = round(time.perf_counter() - began, 3)
        corrected = fit.analysis.corrected
        summary = {
            "pick": REFIT,
            "epoch": 0,
            "accuracy": accuracy,
            "changed": float((corrected != run.given).float().mean()),
            "seconds_this_session": seconds,
            "seconds_training": seconds,
            **label_summary(run, corrected, fit.analysis),
        }
        assert fit.analysis.decision is not None
        TurningPoint(fit.evidence, fit.analysis.decision).save(run.path)
        used = data.used
        write_fit(run.path, x[used.numpy()], corrected[used], fit.probs[used])
        believed, probs = (Store.of({"table": t.float()}, C) for t in (fit.believed, fit.probs))
        run.write_labels(believed, probs, corrected, summary, fit.analysis)

    def _measured(self, fit: Fit, test: EvalSet, num_classes: int) -> dict[str, float]:
        p = torch.from_numpy(probabilities(fit.model, as_table(test.inputs, test.rows), num_classes))
        metrics = chosen(self.config.train.metrics)
        rows = rows_of(p.clamp_min(torch.finfo(p.dtype).tiny).log(), test.labels, wanted(metrics))
        return measured(metrics, {**rows, "labels": test.labels}, num_classes)


def as_table(inputs: Inputs, rows: Tensor | None = None) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Inputs as scikit-learn takes them, [N, D]."""
    index = torch.arange(len(inputs)) if rows is None else rows
    return torch.cat([x.flatten(1).float() for x in inputs.stream(index.split(BATCH), None)]).numpy()
