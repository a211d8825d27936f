"""Stages of training: each call is numbered and remembered, so that a method's ``fit`` can be replayed on resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc.core.seeding import generator, seed_of
from selc.core.store import Store
from selc.core.turning import Turn
from selc.errors import ConfigError
from selc.methods.base import Method, Net
from selc.methods.watch import found
from selc.train.checkpoint import Checkpoint, pack, unpack
from selc.train.loop import Beginning, Stage, Stop
from selc.train.plan import Plan
from selc.train.progress import Progress
from selc.train.record import Record
from selc.train.snapshots import Snapshots
from selc.types import EvalSet, Outcome, Pass, TrainSet


class Trainer:
    """Runs a method's stages by one plan; with a folder, every epoch is saved and a second call goes on."""

    def __init__(
        self,
        plan: Plan,
        net: Net,
        *,
        tests: Mapping[str, EvalSet] | None = None,
        val: EvalSet | None = None,
        folder: Path | None = None,
        fingerprint: str = "",
        progress: Progress | None = None,
    ) -> None:
        self.plan, self.net, self.folder, self.fingerprint = plan, net, folder, fingerprint
        self.device = plan.torch_device()
        self.tests = {name: data.to(self.device) for name, data in (tests or {}).items()}
        self.val = val.to(self.device) if val is not None else None
        self.progress = progress or Progress()
        self.stages = 0
        self.turning_point: Turn | None = None  # of the first stage that noted one
        self.recorded: Pass | None = None  # by the last stage that recorded any
        self.snapshots: dict[int, Snapshots] = {}
        if plan.pick == "best-val" and val is None and plan.val_fraction == 0:
            raise ConfigError("pick 'best-val' needs a validation set; got none. Set val_fraction, such as 0.1.")

    @property
    def seed(self) -> int:
        """The seed of the run, for what a method draws in its ``fit``."""
        return self.plan.seed

    def fit(self, method: Method, data: TrainSet) -> Outcome:
        """The whole training of a method."""
        self.stages, self.turning_point, self.recorded = 0, None, None
        data = self._hold_out(data.to(self.device))
        method.check(data, self.plan.epochs, self.plan.batch_size)
        devices = [self.device] if self.device.type == "cuda" else []
        threads = torch.get_num_threads()
        torch.set_num_threads(self.plan.threads or threads)
        try:
            with torch.random.fork_rng(devices):  # the caller's own draws stay what they were
                outcome = method.fit(data, self)
        finally:
            torch.set_num_threads(threads)
        settled = data.settled(outcome.target)
        return replace(outcome, target=settled, turning_point=self.turning_point, recorded=self.recorded)

    def __call__(
        self,
        method: Method,
        data: TrainSet,
        *,
        model: nn.Module | None = None,
        stop: Stop | None = None,
        start_from: tuple[Outcome, float] | None = None,
        **changes: Any,
    ) -> Outcome:
        """One stage: a fresh network, on with ``model``, or on from the latest state before a clock of an outcome.

        ``stop`` is asked after each epoch; a stage that may be stopped keeps states to step back to. ``changes``
        replace settings of the plan.
        """
        number = self.stages
        self.stages += 1
        plan = Plan.model_validate(self.plan.model_dump() | changes)
        folder = None if self.folder is None else self.folder / f"stage-{number}"
        checkpoint = None if folder is None else Checkpoint(folder, self.fingerprint)
        snapshots = begin = None
        if stop is not None:
            snapshots = self.snapshots[number] = Snapshots(None if folder is None else folder / "snapshots")
        if start_from is not None:
            outcome, clock = start_from
            states = self.snapshots[outcome.stage]
            begin = Beginning(outcome, states, states.before(clock))
        if model is None:
            torch.manual_seed(seed_of(plan.seed, number, "init"))
            model = method.build(self.net, data.num_classes)
        model.to(self.device)
        method.setup(data)
        method.to(self.device)
        saved = checkpoint.load() if checkpoint else None
        doubt = method.check(data, plan.epochs, plan.batch_size)
        if checkpoint is not None and saved is not None and saved[1]["finished"]:
            if kept := unpack("method", saved[0]):  # a later stage may read it
                method.load_state_dict(kept)
            remembered = _remembered(*saved, model, data, checkpoint, number)
            return self._noted(remembered if begin is None else begin.joined(remembered))
        if doubt is not None and saved is None:
            self.progress.notice(doubt)
        stage = Stage(
            number,
            method,
            data,
            model,
            plan,
            self.tests,
            self.val,
            checkpoint,
            self.progress,
            saved,
            stop,
            snapshots,
            begin,
        )
        outcome = stage.run()
        if checkpoint is not None:
            tensors = pack("model", outcome.model) | pack("target", outcome.target) | pack("probs", outcome.probs)
            tensors |= pack("method", method)
            own = [entry for entry in outcome.history if entry["stage"] == number]
            checkpoint.save("outcome", tensors, {"finished": True, "history": own, **stage.origin()})
        return self._noted(outcome)

    def _noted(self, outcome: Outcome) -> Outcome:
        """The outcome of a stage; what it found out is kept for the end, as the last stage need not find it."""
        self.turning_point = self.turning_point or found(outcome.history)
        if any("given_loss" in entry for entry in outcome.history):
            self.recorded = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
        return outcome

    def _hold_out(self, data: TrainSet) -> TrainSet:
        """Set aside a share of the training rows to choose the epoch by, unless a set was given for that."""
        if self.val is not None or self.plan.val_fraction == 0:
            return data
        order = torch.randperm(len(data), generator=generator("hold out", self.plan.seed))
        if data.rows is not None:  # rows that a person has dropped are in neither part
            order = order[torch.isin(order, data.rows.cpu())]
        held = max(1, int(self.plan.val_fraction * len(order)))
        val, rows = order[:held].sort().values, order[held:].sort().values
        if len(rows) == 0:
            raise ConfigError(f"val_fraction must leave rows to train on; got {self.plan.val_fraction}.")
        self.val = EvalSet(data.inputs, data.labels.hard.cpu()[val], val).to(self.device)
        return replace(data, rows=rows.to(self.device))


def _remembered(
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    model: nn.Module,
    data: TrainSet,
    saved: Checkpoint,
    number: int,
) -> Outcome:
    """The outcome of a stage that was finished before."""
    model.load_state_dict(unpack("model", tensors))
    target, probs = Store(len(data), data.num_classes), Store(len(data), data.num_classes)
    target.load_state_dict(unpack("target", tensors))
    probs.load_state_dict(unpack("probs", tensors))
    device = data.labels.hard.device
    target.to(device), probs.to(device)
    record = Record(len(data), data.num_classes, device, saved.folder / "records")
    history = list(state["history"])
    epochs = range(history[0]["epoch"], history[-1]["epoch"] + 1)
    return Outcome(model, target, probs, *record.read(epochs), history, number)
