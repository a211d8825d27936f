"""Passes without training: accuracy on a named set, and the sweep over the training set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from selc.core.store import Store
from selc.methods.base import Method
from selc.types import EvalSet, Inputs, TrainSet

EVAL_BATCH = 1024  # largest one; no gradients are kept, so it is larger than in training


class Evaluator:
    """A model with the way to run it: device layout and precision."""

    def __init__(
        self, model: nn.Module, method: Method, device: torch.device, dtype: torch.dtype | None, train_batch: int
    ) -> None:
        self.model, self.method, self.device, self.dtype = model, method, device, dtype
        self.batch = min(EVAL_BATCH, 4 * train_batch)  # whoever trains on few large images can hold few at a time
        self.images = any(isinstance(m, nn.Conv2d) for m in model.modules())

    def prepared(self, x: Tensor) -> Tensor:
        """Convolutions are faster when the channels of a pixel lie side by side."""
        return x.contiguous(memory_format=torch.channels_last) if self.images and x.dim() == 4 else x

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, dtype=self.dtype)

    @torch.no_grad()
    def outputs(self, inputs: Inputs, rows: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """(outputs, rows) in row order, eval mode, no augmentation."""
        was_training = self.model.training
        self.model.eval()
        all_rows = torch.arange(len(inputs), device=self.device) if rows is None else rows
        batches = torch.split(all_rows, self.batch)
        for batch, x in zip(batches, inputs.stream(batches, seed=None), strict=True):
            with self.autocast():
                outputs = self.model(self.prepared(x))
            yield outputs, batch
        self.model.train(was_training)

    def accuracy(self, data: EvalSet) -> dict[str, float]:
        """Top-1 and, with more than five classes, top-5 accuracy."""
        hits = torch.zeros(5, device=self.device)
        first = 0
        num_classes = 0
        for outputs, batch in self.outputs(data.inputs, data.rows):
            log_p = self.method.log_probs(outputs)
            num_classes = log_p.shape[1]
            top = log_p.topk(min(5, num_classes), dim=1).indices
            label = data.labels[first : first + len(batch), None]
            hits[: top.shape[1]] += (top == label).sum(dim=0)
            first += len(batch)
        share = (hits.cumsum(0) / max(first, 1)).tolist()
        return {"top1": share[0]} | ({"top5": share[4]} if num_classes > 5 else {})


class TrainSweep:
    """The pass over the training set that a method may ask for; the plain one is kept until the weights change."""

    def __init__(self, evaluator: Evaluator, data: TrainSet) -> None:
        self.evaluator, self.data = evaluator, data
        self._cached: Store | None = None

    def forget(self) -> None:
        self._cached = None

    def __call__(self, fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        if fn is None and self._cached is not None:
            return self._cached
        store: Store | None = None
        for outputs, index in self.evaluator.outputs(self.data.inputs, None):
            target = self.data.labels.read(index)
            rows = self.evaluator.method.probs(outputs) if fn is None else fn(outputs, target)
            if store is None:
                store = Store(len(self.data), rows.shape[1]).to(rows.device)
            store.write(index, rows)
        assert store is not None  # a training set is never empty
        if fn is None:
            self._cached = store
        return store
