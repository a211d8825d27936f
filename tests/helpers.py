"""What several tests share: random inputs, and the textbook definitions in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from selc.data import ArrayInputs
from selc.memory import Store
from selc.types import Batch, Labels, TrainSet


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_logits(*shape: int, seed: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(*shape, generator=rng(seed))


def random_labels(count: int, num_classes: int, seed: int) -> Tensor:
    return torch.randint(num_classes, (count,), generator=rng(seed))


def random_targets(count: int, num_classes: int, seed: int) -> Tensor:
    """Soft targets; rows sum to one."""
    weight = torch.rand(count, num_classes, generator=rng(seed))
    return weight / weight.sum(dim=1, keepdim=True)


def softmax64(logits: Tensor) -> Tensor:
    """exp(z_c) / sum_j exp(z_j), by the definition; keeps the graph."""
    power = torch.exp(logits.double() - logits.detach().double().amax(dim=-1, keepdim=True))
    return power / power.sum(dim=-1, keepdim=True)


def entropy64(target: Tensor, p: Tensor) -> Tensor:
    """-sum_c t_c log p_c of each row, by the definition."""
    return -(target.double() * torch.log(p)).sum(dim=-1)


def one_hot64(labels: Tensor, num_classes: int) -> Tensor:
    return torch.eye(num_classes, dtype=torch.float64)[labels]


def close(actual: Tensor, expected: Tensor, atol: float = 1e-6, rtol: float = 1e-5) -> None:
    """Equal up to float32 rounding; the expected value is usually in float64."""
    torch.testing.assert_close(actual.double(), expected.double(), atol=atol, rtol=rtol)


def gradient(loss: Tensor, wrt: Tensor) -> Tensor:
    (result,) = torch.autograd.grad(loss.sum(), wrt)
    return result


def stored(rows: Tensor) -> Store:
    """A table with these rows."""
    store = Store(*rows.shape)
    store.write(torch.arange(len(rows)), rows)
    return store


def train_set(labels: Tensor | Store, num_classes: int) -> TrainSet:
    return TrainSet(ArrayInputs(torch.zeros(len(labels), 1)), Labels(labels, num_classes))


def batch_of(
    data: TrainSet, index: Tensor, clock: float = 0.0, *, x: Tensor | None = None, shard: Tensor | None = None
) -> Batch:
    return Batch(
        x=torch.zeros(len(index), 1) if x is None else x,
        target=data.labels.read(index),
        index=index,
        clock=clock,
        seed=0,
        shard=torch.zeros_like(index) if shard is None else shard,
    )


def no_sweep(fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
    raise AssertionError("nothing here needs a pass over the training set")
