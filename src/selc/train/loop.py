"""The training loop. It reads top to bottom: order, batch, method, record, optimizer; then the end of the epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from selc.core.seeding import seed_of
from selc.errors import TrainingError
from selc.methods.base import Method
from selc.methods.parts import Pair
from selc.train.checkpoint import Checkpoint, pack, pack_optimizer, unpack, unpack_optimizer
from selc.train.evaluate import Evaluator, TrainSweep
from selc.train.order import Order, deal
from selc.train.plan import Plan
from selc.train.progress import Progress
from selc.train.record import Record
from selc.train.snapshots import Snapshots
from selc.types import Batch, EvalSet, Outcome, Pass, Seen, Step, TrainSet

Stop = Callable[[list[dict[str, Any]], Seen, int], bool]  # (history, its last epoch, epochs of the plan) -> stop?


def as_verified(method: Method, step: Step, batch: Batch, held: Tensor) -> Tensor:
    """The loss of a step, with cross entropy for labels that a person has verified: no method need doubt them.

    A loss of the whole batch, and one of mixed inputs, has no part that belongs to a sample; such a method sees the
    verified labels as those that are given, and that is all.
    """
    if step.loss.dim() == 0 or step.outputs is None or not step.outputs.requires_grad:
        return step.loss
    plain = -(batch.target * method.log_probs(step.outputs)).sum(dim=1)
    return torch.where(held.index_select(0, batch.index), plain, step.loss)


@dataclass(frozen=True)
class Beginning:
    """The state at the beginning of an epoch of an earlier stage."""

    outcome: Outcome
    snapshots: Snapshots
    epoch: int

    def joined(self, later: Outcome) -> Outcome:
        """The whole timeline: what came before the step back, then what came after; what was undone is marked."""
        undone = [{**e, "undone": True} for e in self.outcome.history[self.epoch :]]
        return replace(
            later,
            losses=torch.cat([self.outcome.losses[: self.epoch], later.losses]),
            predictions=torch.cat([self.outcome.predictions[: self.epoch], later.predictions]),
            confidences=torch.cat([self.outcome.confidences[: self.epoch], later.confidences]),
            beliefs=torch.cat([self.outcome.beliefs[: self.epoch], later.beliefs]),
            history=[*self.outcome.history[: self.epoch], *undone, *later.history],
        )


@dataclass
class Stage:
    """One training of one model by one method, from its first epoch or from where it was saved."""

    number: int
    method: Method
    data: TrainSet
    model: nn.Module
    plan: Plan
    tests: Mapping[str, EvalSet]
    val: EvalSet | None
    checkpoint: Checkpoint | None
    progress: Progress
    saved: tuple[dict[str, Tensor], dict[str, Any]] | None = None  # what the checkpoint held
    stop: Stop | None = None  # asked after each epoch
    snapshots: Snapshots | None = None  # where states to step back to are kept
    begin: Beginning | None = None  # a state to go on from, instead of a fresh network

    def run(self) -> Outcome:
        method, data, model, plan = self.method, self.data, self.model, self.plan
        device = plan.torch_device()
        evaluator = Evaluator(model, method, device, plan.autocast_dtype(device), plan.batch_size)
        sweep = TrainSweep(evaluator, data)
        autocast = evaluator.autocast()
        if evaluator.images:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        networks = [model] if not isinstance(model, Pair) else list(model.children())  # each is clipped on its own
        forward = cast(nn.Module, torch.compile(model)) if plan.compile else model
        optimizer = plan.make_optimizer(model)
        folder = self.checkpoint.folder / "records" if self.checkpoint else None
        record = Record(len(data), data.num_classes, device, folder)
        # A stage that goes on from another's state also goes on with its order and its random draws.
        seed = seed_of(plan.seed, self.number if self.begin is None else self.begin.outcome.stage)
        shard = deal(len(data), seed, plan.shards, data.labels.hard if plan.stratified else None)
        shard_here = shard.to(device)

        def order_of(rows: Tensor | None) -> Order:
            return Order(shard, rows, seed, data.labels.hard, plan.samples_per_epoch, plan.stratified)

        order = order_of(data.rows)
        history, best = self.resume(optimizer)
        first = self.begin.epoch if self.begin else 0

        rows = order.samples
        if rows < plan.batch_size:
            self.progress.notice(f"batch_size {plan.batch_size} is more than the {rows} samples: one batch holds all.")
        self.progress.begin_stage(self.number, plan.epochs, first + len(history), rows)

        for epoch in range(first + len(history), plan.epochs):
            if history and history[-1].get("stop"):
                break
            began = time.perf_counter()
            if self.snapshots is not None:
                tensors, values = pack_optimizer(optimizer)
                self.snapshots.save(epoch, tensors | pack("model", model), values)
            torch.manual_seed(seed_of(seed, "epoch", epoch))  # for what draws by itself, such as dropout
            rate = plan.rate(epoch)
            for group in optimizer.param_groups:
                group["lr"] = rate
            chosen = method.select()
            batches = (order if chosen is None else order_of(chosen)).batches(epoch, plan.batch_size, device)
            model.train()
            record.begin()
            losses: list[Tensor] = []
            first_seed = seed_of(seed, "batch", epoch)
            inputs = data.inputs.stream(batches, seed=seed_of(seed, "augment", epoch))
            for number, (index, x) in enumerate(zip(batches, inputs, strict=True)):
                batch = Batch(
                    x=evaluator.prepared(x),
                    target=data.labels.read(index),
                    index=index,
                    clock=epoch + number / len(batches),
                    seed=first_seed + number,
                    shard=shard_here.index_select(0, index),
                )
                with autocast:
                    step = method.step(forward, batch)
                if step.outputs is not None:
                    record.note(method, step.outputs, batch.target, index)
                loss = (step.loss if data.held is None else as_verified(method, step, batch, data.held)).mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                if plan.clip_norm:
                    for network in networks:
                        torch.nn.utils.clip_grad_norm_(network.parameters(), plan.clip_norm)
                optimizer.step()
                losses.append(loss.detach())
                self.progress.advance(len(index))

            sweep.forget()
            mean_loss = float(torch.stack(losses).mean())
            if not math.isfinite(mean_loss):
                raise TrainingError(
                    f"the training loss must stay finite; got {mean_loss} in epoch {epoch}. Lower the learning "
                    f"rate ({plan.lr} now), or look for extreme values in the inputs."
                )
            method.end_epoch(epoch, sweep)
            if plan.losses == "sweep":
                record.begin()
                for outputs, index in evaluator.outputs(data.inputs, data.rows):
                    record.note(method, outputs, data.labels.read(index), index)
            seconds = time.perf_counter() - began
            believed = data.settled(method.belief(sweep)).argmax() if method.keeps_belief else None
            kept = record.end(method, epoch, believed)
            entry: dict[str, Any] = {
                "stage": self.number,
                "epoch": epoch,
                "lr": rate,
                "loss": mean_loss,
                **self.measure(evaluator, kept),
                "seconds": round(seconds, 4),
                "samples_per_second": round(sum(map(len, batches)) / seconds, 1),
            }
            history.append(entry)
            if self.stop is not None:
                entry["stop"] = self.stop(history, self.seen(kept), plan.epochs)
            if self.val is not None and (best is None or entry["val"]["top1"] > best[0]):
                best = entry["val"]["top1"], pack("best", model)
            self.save(history, optimizer, best)
            self.progress.end_epoch(entry)

        if plan.pick == "best-val" and best is not None:
            model.load_state_dict(unpack("best", best[1]))
            sweep.forget()
        kept_epochs = record.read(range(first, first + len(history)))
        outcome = Outcome(model, data.settled(method.belief(sweep)), sweep(), *kept_epochs, history, self.number)
        return outcome if self.begin is None else self.begin.joined(outcome)

    def seen(self, kept: Pass) -> Seen:
        """The samples of an epoch that were trained on."""
        there = kept.predictions >= 0
        agrees = kept.predictions == self.data.labels.hard.cpu()
        return Seen(kept.losses[there], agrees[there], kept.confidences[there])

    def measure(self, evaluator: Evaluator, kept: Pass) -> dict[str, Any]:
        """What an epoch shows: on the training pass, on the labels that the method keeps, on the named sets."""
        given = self.data.labels.hard.cpu()
        entry: dict[str, Any] = {}
        seen = kept.predictions >= 0
        if bool(seen.any()):
            entry["given_loss"] = float(kept.losses[seen].mean())
            entry["disagree"] = float((kept.predictions[seen] != given[seen]).float().mean())
        if self.method.keeps_belief:
            entry["changed"] = float((kept.beliefs != given).float().mean())
        for name, data in self.tests.items():
            entry[name] = evaluator.accuracy(data)
        if self.val is not None:
            entry["val"] = evaluator.accuracy(self.val)
        return entry

    def save(
        self,
        history: list[dict[str, Any]],
        optimizer: torch.optim.Optimizer,
        best: tuple[float, dict[str, Tensor]] | None,
    ) -> None:
        if self.checkpoint is None:
            return
        tensors, values = pack_optimizer(optimizer)
        tensors |= pack("model", self.model) | pack("method", self.method) | (best[1] if best else {})
        state = {
            "finished": False,
            "history": history,
            "optimizer": values,
            "best": best[0] if best else None,
        }
        self.checkpoint.save(f"state-{history[-1]['epoch'] + 1:04d}", tensors, state | self.origin())

    def origin(self) -> dict[str, Any]:
        """Where the stage goes on from, for its manifest."""
        return {} if self.begin is None else {"begin": [self.begin.outcome.stage, self.begin.epoch]}

    def resume(
        self, optimizer: torch.optim.Optimizer
    ) -> tuple[list[dict[str, Any]], tuple[float, dict[str, Tensor]] | None]:
        """Put the saved state in place; return the history so far and the best epoch's weights."""
        if self.saved is None:
            if self.begin is not None:
                tensors, values = self.begin.snapshots.load(self.begin.epoch)
                self.model.load_state_dict(unpack("model", tensors))
                unpack_optimizer(optimizer, tensors, values)
            return [], None
        tensors, state = self.saved
        self.model.load_state_dict(unpack("model", tensors))
        self.method.load_state_dict(unpack("method", tensors))
        unpack_optimizer(optimizer, tensors, state["optimizer"])
        best = {k: v for k, v in tensors.items() if k.startswith("best/")}
        return state["history"], (state["best"], best) if best else None
