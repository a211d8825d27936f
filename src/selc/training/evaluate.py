"""Passes without training: the metrics on a named set, and the sweep over the training set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from selc.memory.store import Store
from selc.methods.base import Method
from selc.training.metrics import Function, measured, rows_of, wanted
from selc.types import EvalSet, Inputs, TrainSet
from selc.world import ALONE, World

EVAL_BATCH = 1024  # largest one; no gradients are kept, so it is larger than in training


def has_images(model: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in model.modules())


class Evaluator:
    """A model with the way to run it: device layout and precision."""

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        device: torch.device,
        dtype: torch.dtype | None,
        train_batch: int,
        world: World = ALONE,
        joint: bool = False,
    ) -> None:
        self.model, self.method, self.device, self.dtype = model, method, device, dtype
        self.world, self.joint = world, joint  # joint: no process can pass through the network without the others
        self.batch = min(EVAL_BATCH, 4 * train_batch)  # whoever trains on few large images can hold few at a time
        self.images = has_images(model)

    def prepared(self, x: Tensor) -> Tensor:
        """Convolutions are faster when the channels of a pixel lie side by side."""
        return x.contiguous(memory_format=torch.channels_last) if self.images and x.dim() == 4 else x

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, dtype=self.dtype)

    @torch.no_grad()
    def outputs(self, inputs: Inputs, rows: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """(outputs, rows) of this process's ``rows`` in their order, eval mode, no augmentation."""
        was_training = self.model.training
        self.model.eval()
        all_rows = torch.arange(len(inputs), device=self.device) if rows is None else rows
        batches = list(torch.split(all_rows, self.batch)) if len(all_rows) else []
        own = len(batches)
        if self.joint:  # whoever has fewer batches keeps the others company
            most = max(int(count) for count in self.world.gather(torch.tensor([own])))
            batches += [torch.zeros(1, dtype=torch.int64, device=self.device)] * (most - own)
        for number, (batch, x) in enumerate(zip(batches, inputs.stream(batches, seed=None), strict=True)):
            with self.autocast():
                outputs = self.model(self.prepared(x))
            if number < own:
                yield outputs, batch
        self.model.train(was_training)

    def own_places(self, count: int) -> Tensor:
        """Which of ``count`` rows this process evaluates: its part of the batches, in order."""
        places = torch.arange(count, device=self.device)
        if self.world.size == 1:
            return places
        return torch.cat([places[:0], *places.split(self.batch)[self.world.rank :: self.world.size]])

    def measure(self, data: EvalSet, metrics: Mapping[str, Function]) -> dict[str, float]:
        """The value of each metric on a set; each process passes over its part of the batches, once for all metrics."""
        asked, M = wanted(metrics), len(data.labels)
        places = self.own_places(M)
        labels = data.labels[places]
        parts: list[dict[str, Tensor]] = []
        first = num_classes = 0
        for outputs, batch in self.outputs(data.inputs, places if data.rows is None else data.rows[places]):
            log_p = self.method.log_probs(outputs)
            parts.append(rows_of(log_p, labels[first : first + len(batch)], asked))
            num_classes = log_p.shape[1]
            first += len(batch)
        # A process without rows takes part in what follows with none.
        num_classes = max(int(count) for count in self.world.gather(torch.tensor([num_classes])))
        parts = parts or [rows_of(torch.empty(0, max(num_classes, 1), device=self.device), labels[:0], asked)]
        rows = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        table = {name: self.world.gather_rows(places, column, M).cpu() for name, column in rows.items()}
        return measured(metrics, {**table, "labels": data.labels.cpu()}, num_classes)


class TrainSweep:
    """The pass over the training set that a method may ask for; the plain one is kept until the weights change.

    Each process passes over the rows that it owns.
    """

    def __init__(self, evaluator: Evaluator, data: TrainSet) -> None:
        self.evaluator, self.data = evaluator, data
        self._cached: Store | None = None

    def forget(self) -> None:
        self._cached = None

    def __call__(self, fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        if fn is None and self._cached is not None:
            return self._cached
        store: Store | None = None
        for outputs, index in self.evaluator.outputs(self.data.inputs, self.data.owned):
            target = self.data.labels.read(index)
            rows = self.evaluator.method.probs(outputs) if fn is None else fn(outputs, target)
            if store is None:
                store = self.data.new_store(None if fn is None else rows.shape[1])
            store.write(index, rows)
        assert store is not None  # no process is without rows
        if fn is None:
            self._cached = store
        return store
