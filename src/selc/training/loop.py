"""The training loop. It reads top to bottom: order, batch, method, record, optimizer; then the end of the epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from selc.callbacks import Callbacks, EpochRecord
from selc.errors import ConfigError, TrainingError
from selc.memory.forms import one_hot
from selc.methods.base import Method
from selc.methods.parts import Pair
from selc.seeding import seed_of, seed_torch
from selc.training.checkpoints.checkpoint import Checkpoint
from selc.training.checkpoints.packing import pack, restore, tables_of, unpack
from selc.training.checkpoints.snapshots import Snapshots
from selc.training.engine import Engine
from selc.training.evaluate import Evaluator, TrainSweep, has_images
from selc.training.metrics import chosen, headline
from selc.training.order import Order, own_part
from selc.training.plan import Plan
from selc.training.record import Record
from selc.types import Batch, EvalSet, Outcome, Pass, Step, TrainSet
from selc.world import current


def as_verified(method: Method, step: Step, batch: Batch, verified: Tensor) -> Tensor:
    """The loss of a step, with cross entropy for labels that a person has verified: no method need doubt them.

    A loss of the whole batch, and one of mixed inputs, has no part that belongs to a sample; such a method sees the
    verified labels as those that are given, and that is all.
    """
    if step.loss.dim() == 0 or step.outputs is None or not step.outputs.requires_grad or len(batch.index) == 0:
        return step.loss
    plain = -(batch.target * method.log_probs(step.outputs)).sum(dim=1)
    return torch.where(verified.index_select(0, batch.index), plain, step.loss)


@dataclass(frozen=True)
class Beginning:
    """The state at the beginning of an epoch of an earlier stage."""

    outcome: Outcome
    snapshots: Snapshots
    epoch: int

    def joined(self, later: Outcome) -> Outcome:
        """The whole history: what came before the step back, then what came after; what was undone is marked."""
        undone = [{**e, "undone": True} for e in self.outcome.history[self.epoch :]]
        return replace(later, history=[*self.outcome.history[: self.epoch], *undone, *later.history])


@dataclass(kw_only=True)
class Stage:
    """One training of one model by one method, from its first epoch or from where it was saved."""

    number: int
    method: Method
    data: TrainSet
    model: nn.Module
    plan: Plan
    shard: Tensor  # [N] of each row
    tests: Mapping[str, EvalSet]
    val: EvalSet | None
    checkpoint: Checkpoint | None
    callbacks: Callbacks
    saved: tuple[dict[str, Tensor], dict[str, Any]] | None = None  # what the checkpoint held
    looks: EvalSet | None = None  # shown to the network, and never trained on
    per_epoch: int = 1  # times in an epoch that they are shown, the last one at its end
    aside: str = ""  # what the stage is for, if it is no part of the result
    snapshots: Snapshots | None = None  # where states to step back to are kept
    begin: Beginning | None = None  # a state to go on from, instead of a fresh network

    def __post_init__(self) -> None:
        plan, data, device = self.plan, self.data, self.plan.torch_device()
        if has_images(self.model):
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.world = current()
        self.engine = Engine(self.model, plan, self.world, device)
        dtype, joint = plan.autocast_dtype(device), self.engine.split
        self.evaluator = Evaluator(
            self.engine.model, self.method, device, dtype, plan.batch_size, self.world, joint=joint
        )
        self.metrics = chosen(plan.metrics)
        self.sweep = TrainSweep(self.evaluator, data)
        folder = self.checkpoint.folder / "records" if self.checkpoint else None
        self.record = Record(len(data), data.num_classes, device, folder, data.owned)
        self.places: Tensor | None = None
        self.looked: Record | None = None
        if self.looks is not None:
            self.places = self.evaluator.own_places(len(self.looks.labels))
            mine = None if self.world.size == 1 else self.places
            self.looked = looks_record(self.looks, data, device, self.checkpoint, mine)
        # A stage that goes on from another's state also goes on with its order and its random draws.
        self.seed = seed_of(plan.seed, self.number if self.begin is None else self.begin.outcome.stage)
        self.order = self.order_of(data.rows)

    def order_of(self, rows: Tensor | None) -> Order:
        plan = self.plan
        return Order(self.shard, rows, self.seed, self.data.labels.hard, plan.samples_per_epoch, plan.stratified)

    def run(self) -> Outcome:
        """All epochs that are left, and what they leave behind."""
        method, plan, engine, record = self.method, self.plan, self.engine, self.record
        if self.begin is not None and self.saved is None:
            before = self.begin.outcome
            record.copy(Pass(before.losses, before.predictions, before.confidences, before.beliefs), self.begin.epoch)
            if self.looked is not None and before.looks is not None:
                self.looked.copy(before.looks, self.begin.epoch * self.per_epoch)
        history, best = self.resume()
        first = self.begin.epoch if self.begin else 0
        rows = self.order.samples
        if rows < plan.batch_size:
            self.callbacks.notice(f"batch_size {plan.batch_size} is more than the {rows} samples: one batch holds all.")
        self.callbacks.on_stage_begin(self.number, plan.epochs, first + len(history), rows, self.aside)

        for epoch in range(first + len(history), plan.epochs):
            if history and history[-1].get("stop"):
                break
            began = time.perf_counter()
            if self.snapshots is not None and self.snapshots.keeps(epoch):
                tensors, values = engine.packed_optimizer()
                self.snapshots.save(epoch, tensors | engine.packed("model"), values)
            mean, samples = self.training_pass(epoch)
            method.end_epoch(epoch, self.sweep)
            if plan.losses == "sweep":
                self.record_sweep()
            seconds = time.perf_counter() - began
            believed = self.data.with_verified(method.belief(self.sweep)).argmax() if method.keeps_belief else None
            kept = record.end(method, epoch, believed)
            entry: dict[str, Any] = {
                "stage": self.number,
                "epoch": epoch,
                "lr": plan.rate(epoch),
                "loss": mean,
                **self.measure(kept),
                "seconds": round(seconds, 4),
                "samples_per_second": round(samples / seconds, 1),
            }
            if self.aside:
                entry["aside"] = self.aside
            history.append(entry)
            looks = (epoch + 1) * self.per_epoch
            shown = self.look(looks - 1)
            if shown is not None and self.looks is not None:
                entry["held_out"] = float((shown.predictions == self.looks.labels.cpu()).double().mean())
            ended = EpochRecord(entry, self.looks_reader(looks))
            if (stop := self.callbacks.on_epoch_end(ended)) is not None:
                entry["stop"] = stop
            # What is decided by these numbers is decided by the same ones everywhere, to the last bit.
            entry = history[-1] = self.world.broadcast(entry)
            if self.val is not None and (best is None or headline(entry["val"]) > best[0]):
                best = headline(entry["val"]), engine.packed("best")
            self.save(history, best)
            self.callbacks.on_epoch_saved(replace(ended, entry=entry))

        if plan.pick == "best-val" and best is not None:
            engine.load(unpack("best", best[1]))
            self.sweep.forget()
        record.wait()
        passes, believes = record.read(first + len(history)), self.data.with_verified(method.belief(self.sweep))
        read_looks = self.looks_reader((first + len(history)) * self.per_epoch)
        seen = None if read_looks is None else read_looks()
        outcome = Outcome(engine.finished(), believes, self.sweep(), *passes, history, self.number, seen)
        return outcome if self.begin is None else self.begin.joined(outcome)

    def training_pass(self, epoch: int) -> tuple[float, int]:
        """Every batch of an epoch once; the mean loss and the number of samples."""
        method, data, plan, engine, world = self.method, self.data, self.plan, self.engine, self.world
        model, optimizer, autocast = engine.model, engine.optimizer, self.evaluator.autocast()
        networks = [model] if not isinstance(model, Pair) else list(model.children())  # each is clipped on its own
        rank = () if world.leads else (world.rank,)
        seed_torch(self.evaluator.device, self.seed, "epoch", epoch, *rank)
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(epoch) * group["rate_factor"]
        chosen, shard = method.select(), self.shard.to(self.evaluator.device)
        order = self.order if chosen is None else self.order_of(chosen)
        batches = order.batches(epoch, plan.batch_size, shard.device)
        parts = own_part(batches, shard, world.rank, world.size)
        # A process without a row in a batch takes part with one that does not count.
        read = [part if len(part) else data.own_rows()[:1] for part in parts]
        model.train()
        self.record.begin()
        losses: list[Tensor] = []
        first_seed = seed_of(self.seed, "batch", epoch)
        inputs = data.inputs.stream(read, seed=seed_of(self.seed, "augment", epoch))
        for number, (index, x) in enumerate(zip(parts, inputs, strict=True)):
            batch = Batch(
                x=self.evaluator.prepared(x),
                target=data.labels.read(index),
                index=index,
                clock=epoch + number / len(batches),
                seed=first_seed + number,
                shard=shard.index_select(0, index),
            )
            with autocast, engine.for_rows(len(index)):
                step = method.step(engine.forward, batch) if len(index) else absent(method, engine.forward, batch)
            if step.outputs is not None:
                self.record.note(method, step.outputs, batch.target, index)
            losses_here = step.loss if data.verified is None else as_verified(method, step, batch, data.verified)
            loss = mean_loss(losses_here, index, len(batches[number]), world.size)
            loss.backward()
            if plan.clip_norm:
                for network in networks:
                    torch.nn.utils.clip_grad_norm_(network.parameters(), plan.clip_norm)
            engine.step()
            losses.append(loss.detach())
            self.callbacks.on_batch_end(len(batches[number]))
            due = ((number + done) * self.per_epoch // len(batches) for done in (0, 1))
            for look in range(*due):
                if look + 1 < self.per_epoch:  # the last one is taken when the epoch has ended
                    self.look(epoch * self.per_epoch + look)

        engine.share_buffers()
        self.sweep.forget()
        mean = float(world.sum(torch.stack(losses).mean())) / world.size
        if not math.isfinite(mean):
            raise TrainingError(
                f"the training loss must stay finite; got {mean} in epoch {epoch + 1}. Lower the learning "
                f"rate ({plan.lr} now), or look for extreme values in the inputs."
            )
        return mean, sum(map(len, batches))

    def record_sweep(self) -> None:
        """Record the trained network in eval mode, in the place of what the training pass showed."""
        self.record.begin()
        for outputs, index in self.evaluator.outputs(self.data.inputs, self.own_trained()):
            self.record.note(self.method, outputs, self.data.labels.read(index), index)

    def own_trained(self) -> Tensor | None:
        """The rows to train on whose state this process holds; None: all rows."""
        rows, owned = self.data.rows, self.data.owned
        return rows if owned is None else owned if rows is None else rows[torch.isin(rows, owned)]

    def look(self, number: int) -> Pass | None:
        """Show the network the rows that it is not trained on, and keep what it makes of them."""
        if self.looks is None or self.looked is None or self.places is None:
            return None
        places = self.places
        rows = places if self.looks.rows is None else self.looks.rows[places]
        self.looked.begin()
        done = 0
        for outputs, batch in self.evaluator.outputs(self.looks.inputs, rows):
            part = places[done : done + len(batch)]
            labels = self.looks.labels[part]
            self.looked.note(self.method, outputs, one_hot(labels, self.data.num_classes), part)
            done += len(batch)
        return self.looked.end(self.method, number, None)

    def looks_reader(self, looks: int) -> Callable[[], Pass] | None:
        """Reads the first looks. Every process calls this and waits for the one that writes; then any may read."""
        if self.looked is None:
            return None
        self.looked.wait()
        return partial(self.looked.read, looks)

    def measure(self, kept: Pass) -> dict[str, Any]:
        """What an epoch shows: on the training pass, on the labels that the method keeps, on the named sets."""
        given = self.data.labels.hard.cpu()
        entry: dict[str, Any] = {}
        seen = kept.predictions >= 0
        if bool(seen.any()):
            entry["given_loss"] = float(kept.losses[seen].mean())
            entry["disagree"] = float((kept.predictions[seen] != given[seen]).float().mean())
        if self.method.keeps_belief:
            entry["would_relabel"] = float((kept.beliefs != given).float().mean())
        for name, data in self.tests.items():
            entry[name] = self.evaluator.measure(data, self.metrics)
        if self.val is not None:
            entry["val"] = self.evaluator.measure(self.val, self.metrics)
        return entry

    def save(self, history: list[dict[str, Any]], best: tuple[float, dict[str, Tensor]] | None) -> None:
        if self.checkpoint is None:
            return
        tensors, values = self.engine.packed_optimizer()
        tensors |= self.engine.packed("model") | pack("method", self.method) | (best[1] if best else {})
        state = {
            "finished": False,
            "history": history,
            "optimizer": values,
            "best": best[0] if best else None,
        }
        name = f"state-{history[-1]['epoch'] + 1:04d}"
        self.checkpoint.save(name, tensors, state | self.origin(), tables_of("method", self.method), self.shard)

    def origin(self) -> dict[str, Any]:
        """Where the stage goes on from, for its manifest."""
        return {} if self.begin is None else {"begin": [self.begin.outcome.stage, self.begin.epoch]}

    def resume(self) -> tuple[list[dict[str, Any]], tuple[float, dict[str, Tensor]] | None]:
        """Put the saved state in place; return the history so far and the best epoch's weights."""
        if self.saved is None:
            if self.begin is not None:
                tensors, values = self.begin.snapshots.load(self.begin.epoch)
                self.engine.load(unpack("model", tensors))
                self.engine.load_optimizer(tensors, values)
            return [], None
        tensors, state = self.saved
        self.engine.load(unpack("model", tensors))
        restore("method", self.method, tensors)  # its tables were filled when the checkpoint was read
        self.engine.load_optimizer(tensors, state["optimizer"])
        best = {k: v for k, v in tensors.items() if k.startswith("best/")}
        return state["history"], (state["best"], best) if best else None


def looks_record(
    looks: EvalSet, data: TrainSet, device: torch.device, checkpoint: Checkpoint | None, places: Tensor | None
) -> Record:
    """Where looks are kept: a row for each that is looked at, of which this process evaluates those at ``places``."""
    folder, count = (checkpoint.folder / "looks" if checkpoint else None), len(looks.labels)
    return Record(count, data.num_classes, device, folder, places)


def absent(method: Method, model: nn.Module, batch: Batch) -> Step:
    """The step of a process that has no row in a batch: it passes through the network with the others, for nothing."""
    outputs = model(batch.x)
    method.idle(outputs.detach()[:0], batch.clock)
    return Step((0 * outputs).sum(dim=tuple(range(1, outputs.dim())))[:1], None)


def mean_loss(losses: Tensor, index: Tensor, count: int, processes: int) -> Tensor:
    """The mean loss of a batch of ``count`` rows; of one process among several, its part of it.

    The engine averages gradients over the processes, so that the part is the sum over its rows times their number.
    """
    if processes == 1:
        return losses.mean()
    if losses.dim() != 1 or len(losses) != max(len(index), 1):
        raise ConfigError(
            f"a method must give a loss for each row of a batch to run in {processes} processes; got losses of shape "
            f"{list(losses.shape)} for {len(index)} rows. Start it without torchrun."
        )
    return losses.sum() * (processes / count)
