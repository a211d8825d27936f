"""Stages of training: each call is numbered and remembered, so that a method's ``fit`` can be replayed on resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc._io.files import read_json, write_json
from selc.callbacks import Callback, Callbacks
from selc.errors import ConfigError, RunFolderError
from selc.memory.choice import choose_form, free_bytes
from selc.methods.base import METHODS, Method, Net
from selc.seeding import generator, seed_of, seed_torch
from selc.training.checkpoints.checkpoint import Checkpoint
from selc.training.checkpoints.packing import pack, restore, tables_of
from selc.training.checkpoints.snapshots import Snapshots
from selc.training.forecast import forecast
from selc.training.loop import Beginning, Stage
from selc.training.metrics import chosen
from selc.training.order import deal
from selc.training.plan import Plan
from selc.training.record import Record, read_records
from selc.types import Decided, EvalSet, Outcome, Pass, TrainSet
from selc.world import current


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
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.plan, self.net, self.folder, self.fingerprint = plan, net, folder, fingerprint
        self.device = plan.torch_device()
        self.tests = {name: data.to(self.device) for name, data in (tests or {}).items()}
        self.val = val.to(self.device) if val is not None else None
        self.callbacks = Callbacks(callbacks)
        self.stages = 0
        self.recorded: Pass | None = None  # by the last stage that recorded any
        self.snapshots: dict[int, Snapshots] = {}
        self.dealt: dict[bool, Tensor] = {}
        chosen(plan.metrics)  # a name that nobody knows is refused here, not after an epoch
        if plan.pick == "best-val" and val is None and plan.val_fraction == 0:
            raise ConfigError("pick 'best-val' needs a validation set; got none. Set val_fraction, such as 0.1.")

    @property
    def seed(self) -> int:
        """The seed of the run, for what a method draws in its ``fit``."""
        return self.plan.seed

    @property
    def epochs(self) -> int:
        """The epochs of a stage, unless it is told otherwise."""
        return self.plan.epochs

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self.plan.batch_size

    def tell(self, text: str) -> None:
        """Say what happens next."""
        self.callbacks.on_message(text)

    def decided(self, decided: Decided) -> None:
        """Note what a method has decided, and by what."""
        if self.folder is not None and current().leads:
            decided.save(self.folder)
        self.callbacks.on_decision(decided)

    def forecast(self, data: TrainSet) -> float:
        """Seconds that one training takes, by counting what it computes: the same on any machine."""
        rows = len(data) if data.rows is None else len(data.rows)
        return forecast(self.plan, self.net(data.num_classes), data.inputs, rows, self.device)

    def fit(self, method: Method, data: TrainSet) -> Outcome:
        """The whole training of a method."""
        self.stages, self.recorded = 0, None
        self.dealt.clear()
        check_processes(method, self.plan, len(data))
        data = self._in_form(self._own(self._hold_out(data.to(self.device))), method)
        method.check(data, self.plan.of_stage())
        devices = [self.device] if self.device.type == "cuda" else []
        threads = torch.get_num_threads()
        torch.set_num_threads(self.plan.threads or threads)
        try:
            with torch.random.fork_rng(devices):  # the caller's own draws stay what they were
                outcome = method.fit(data, self)
        finally:
            torch.set_num_threads(threads)
        target, corrected = data.with_verified(outcome.target), outcome.corrected
        if corrected is not None and data.verified is not None:
            corrected = torch.where(data.verified, data.labels.hard, corrected)
        return replace(outcome, target=target, corrected=corrected, recorded=self.recorded)

    def __call__(
        self,
        method: Method,
        data: TrainSet,
        *,
        model: nn.Module | None = None,
        looks: EvalSet | None = None,
        per_epoch: int = 1,
        callbacks: Sequence[Callback] = (),
        back: float = 0.0,
        start_from: tuple[Outcome, float] | None = None,
        aside: str = "",
        **changes: Any,
    ) -> Outcome:
        """One stage: a fresh network, on with ``model``, or on from the latest state before a clock of an outcome.

        ``looks`` are shown to the network ``per_epoch`` times in an epoch and never trained on. ``callbacks`` are those
        of this stage, asked before those of the run. ``back`` is how many epochs one may want to step back from where
        it ends. ``aside`` says what a stage is for that is no part of the result. ``changes`` replace settings of the
        plan.
        """
        check_processes(method, self.plan, len(data))
        number = self.stages
        self.stages += 1
        plan = Plan.model_validate(self.plan.model_dump() | changes)
        folder = None if self.folder is None else self.folder / f"stage-{number}"
        checkpoint = None if folder is None else Checkpoint(folder, self.fingerprint, self.callbacks.notice)
        state = checkpoint.open() if checkpoint else None
        snapshots = begin = None
        if back > 0:
            snapshots = self.snapshots[number] = Snapshots(None if folder is None else folder / "snapshots", back)
        if start_from is not None:
            outcome, clock = start_from
            states = self.snapshots[outcome.stage]
            # Where it once began it begins again: the states are dropped before the run counts as finished.
            epoch = state["begin"][1] if state is not None and "begin" in state else states.before(clock)
            begin = Beginning(outcome, states, epoch)
        doubt = method.check(data, plan.of_stage())
        if model is None:
            seed_torch(self.device, plan.seed, number, "init")
            model = method.build(self.net, data.num_classes)
        model.to(self.device)
        method.setup(data, plan.of_stage())
        method.to(self.device)
        if checkpoint is not None and state is not None and state["finished"]:
            remembered = _remembered(checkpoint, method, model, data, number, looks, per_epoch)
            return self._noted(remembered if begin is None else begin.joined(remembered))
        saved = checkpoint.load(tables_of("method", method)) if checkpoint else None
        if doubt is not None and saved is None:
            self.callbacks.notice(doubt)
        shard = self._shard(data, plan.stratified)
        stage = Stage(
            number=number,
            method=method,
            data=data,
            model=model,
            plan=plan,
            shard=shard,
            tests=self.tests,
            val=self.val,
            checkpoint=checkpoint,
            callbacks=Callbacks([*callbacks, self.callbacks]),
            saved=saved,
            looks=looks,
            per_epoch=per_epoch,
            aside=aside,
            snapshots=snapshots,
            begin=begin,
        )
        if checkpoint is None:
            return self._noted(stage.run())
        with checkpoint:
            outcome = stage.run()
            own = [entry for entry in outcome.history if entry["stage"] == number]
            left = {"finished": True, "history": own, **stage.origin()}
            tensors = pack("model", outcome.model) | pack("method", method)
            tables = {"target": outcome.target, "probs": outcome.probs} | tables_of("method", method)
            checkpoint.save("outcome", tensors, left, tables, shard, background=False)
        return self._noted(outcome)

    def _noted(self, outcome: Outcome) -> Outcome:
        """The outcome of a stage; what it found out is kept for the end, as the last stage need not find it."""
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

    def _shard(self, data: TrainSet, stratified: bool) -> Tensor:
        """The shard of each row, [N]: the same in all stages, so that a row stays with the process that owns it."""
        if data.owned is not None:
            stratified = self.plan.stratified
        if stratified not in self.dealt or len(self.dealt[stratified]) != len(data):
            labels = data.labels.hard if stratified else None
            self.dealt[stratified] = deal(len(data), seed_of(self.plan.seed, 0), self.plan.shards, labels)
        return self.dealt[stratified]

    def _own(self, data: TrainSet) -> TrainSet:
        """Of several processes, each holds the state of the rows in its shards."""
        world = current()
        if world.size == 1:
            return data
        mine = self._shard(data, self.plan.stratified) % world.size == world.rank
        return replace(data, owned=mine.nonzero().flatten().to(self.device))

    def _in_form(self, data: TrainSet, method: Method) -> TrainSet:
        """Choose the form of the tables; a run keeps that of its first start, whatever memory is free later."""
        world, kept = current(), None if self.folder is None else self.folder / "tables.json"
        chosen = {"form": self.plan.store, "why": ""}
        if self.plan.store == "auto" and world.leads:
            if kept is not None and kept.exists():
                chosen = read_json(kept)
                if not isinstance(chosen, dict) or {"form", "why"} - chosen.keys():
                    raise RunFolderError(f"{kept} must say the form of the tables; got other content. Remove the file.")
            else:
                rows = len(data) if data.owned is None else len(data.owned)
                tables = 2 + method.window
                form, why = choose_form(rows, data.num_classes, free_bytes(self.device), tables)
                chosen = {"form": form, "why": why}
                if kept is not None:
                    write_json(kept, chosen)
        chosen = world.broadcast(chosen)
        if chosen["form"] != "dense" and chosen["why"]:
            self.callbacks.notice(chosen["why"])
        return replace(data, form=chosen["form"], scratch=self.folder)


def check_processes(method: Method, plan: Plan, rows: int) -> None:
    """Refuse what cannot be trained in as many processes as there are."""
    size = current().size
    if size == 1:
        return
    if not method.parallel:
        kind = type(method)
        name = next((known for known in METHODS if METHODS[known] is kind), kind.__name__)
        raise ConfigError(
            f"method {name!r} must run in one process; got {size}. It needs whole batches or the whole table at once: "
            "start it without torchrun, or choose another method."
        )
    if plan.shards % size:
        fitting = ", ".join(str(count) for count in range(1, plan.shards + 1) if plan.shards % count == 0)
        raise ConfigError(
            f"shards must be a multiple of the number of processes, {size}; got {plan.shards}. Each process takes as "
            f"many shards of the data: start {fitting} processes, or set train.shards, which changes the order."
        )
    if plan.sync_batchnorm and plan.torch_device().type != "cuda":
        raise ConfigError(
            "sync_batchnorm must run on GPUs, the only place where PyTorch has it; got a CPU. Leave it out: batch norm "
            "then takes the rows of a process alone."
        )
    if rows < size:
        raise ConfigError(f"there must be a sample for each of the {size} processes; got {rows}. Start fewer.")


def _remembered(
    checkpoint: Checkpoint,
    method: Method,
    model: nn.Module,
    data: TrainSet,
    number: int,
    looks: EvalSet | None,
    per_epoch: int,
) -> Outcome:
    """The outcome of a stage that was finished before; the method gets its state back, which a later stage may read."""
    device = data.labels.hard.device
    target, probs = data.new_store(), data.new_store()
    saved = checkpoint.load({"target": target, "probs": probs} | tables_of("method", method))
    assert saved is not None
    tensors, state = saved
    restore("model", model, tensors)
    restore("method", method, tensors)
    record = Record(len(data), data.num_classes, device, checkpoint.folder / "records", data.owned)
    history = list(state["history"])
    epochs = history[-1]["epoch"] + 1
    shown = None
    if looks is not None:
        shown = read_records(checkpoint.folder / "looks", epochs * per_epoch, len(looks.labels), data.num_classes)
    return Outcome(model, target, probs, *record.read(epochs), history, number, shown)
