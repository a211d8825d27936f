"""The loss of SELC (Eq. 3 to 6 of the paper), for people with their own training loop.

Yangdi Lu and Wenbo He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.core.store import Store
from selc.core.turning import Turn, Watcher, flips_within
from selc.core.world import ALONE, World, current
from selc.errors import ConfigError, InputError

log = logging.getLogger("selc")
Option = Literal["I", "II"]
FORGOTTEN = 100  # visits of one sample in one epoch: no sampler repeats so often, a forgotten set_epoch does


def soft_cross_entropy(outputs: Tensor, target: Tensor) -> Tensor:
    """Cross entropy -sum_c t_c log p_c of each sample, [B]; in fp32 whatever the outputs were computed in."""
    if outputs.shape[-2:] != target.shape[-2:]:
        raise InputError(
            f"target must hold a probability for every output; got {list(target.shape)} for outputs "
            f"{list(outputs.shape)}. Class numbers go to F.cross_entropy."
        )
    log_p = F.log_softmax(outputs if outputs.dtype == torch.float64 else outputs.float(), dim=-1)
    return -(target * log_p).sum(dim=-1)


def log_softmax(outputs: Tensor) -> Tensor:
    """Log probabilities over the last dimension, in fp32.

    Below the width of a vector register torch's kernel on a CPU is five times slower than the formula by parts.
    """
    if torch.is_grad_enabled() or outputs.shape[-1] >= 16:
        return F.log_softmax(outputs.float(), dim=-1)
    shifted = outputs.float() - outputs.float().amax(dim=-1, keepdim=True)
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log_()


def checked_labels(labels: Tensor, num_classes: int) -> Tensor:
    """``labels`` as int64 [N], or an error that says what is wrong with them."""
    labels = torch.as_tensor(labels)
    if labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex():
        raise InputError(f"labels must be integers; got {labels.dtype}. Convert them to class numbers first.")
    if labels.dim() != 1 or labels.numel() == 0:
        raise InputError(f"labels must be a non-empty vector [N]; got shape {tuple(labels.shape)}.")
    labels = labels.long()
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        raise InputError(
            f"labels must be in 0..{num_classes - 1} for {num_classes} classes; "
            f"got values from {low} to {high}. Number the classes from 0."
        )
    return labels


def check_alpha(alpha: float, name: str = "alpha") -> float:
    if not 0.0 <= alpha < 1.0:
        hint = " It is the weight of the old target; the paper uses 0.9." if name == "alpha" else ""
        raise ConfigError(f"{name} must be in [0, 1); got {alpha}.{hint}")
    return alpha


def check_start(start: float) -> float:
    if not start >= 0:
        raise ConfigError(f"start must be at least 0; got {start}. It is the number of epochs of plain CE.")
    return start


def check_option(option: Option) -> Option:
    if option not in ("I", "II"):
        raise ConfigError(f"option must be 'I' or 'II', as in the paper; got {option!r}.")
    return option


def handed_out(rows: Tensor, given: Tensor) -> Tensor:
    """Rows of an ensemble that started at zero, scaled to sum to one; a row without an update is ``given``.

    After k updates such a row sums to 1 - alpha^k (Eq. 3), so the division needs no count of updates.
    """
    total = rows.sum(dim=1, keepdim=True)
    return torch.where(total > 0, rows / total.clamp_min(torch.finfo(rows.dtype).tiny), given)


def confidence_weights(target: Tensor, world: World = ALONE) -> Tensor:
    """The weight max_c t_c of self-adaptive training (Huang et al. 2020), scaled to a mean of one over the batch.

    The rows of the batch may be spread over the processes of a ``world``: then each of them must call this.
    """
    weight = target.detach().max(dim=1).values
    if world.size == 1:
        mean = weight.mean()
    else:
        total, count = world.sum(torch.stack([weight.double().sum(), weight.new_tensor(len(weight)).double()]))
        mean = (total / count).to(weight.dtype)
    return weight / mean.clamp_min(torch.finfo(weight.dtype).tiny)  # zeros: Option I before any update


def _gathered(world: World, index: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and outputs of the batches of all processes, in one message."""
    outputs = outputs.detach()
    if world.size == 1:
        return index, outputs
    bytes_ = [index.to(outputs.device).unsqueeze(1), outputs.float().contiguous()]
    everyone = torch.cat(world.gather(torch.cat([part.view(torch.uint8) for part in bytes_], dim=1)))
    rows, theirs = everyone.split([8, everyone.shape[1] - 8], dim=1)
    return rows.contiguous().view(torch.int64).flatten().to(index.device), theirs.contiguous().view(torch.float32)


class SELCLoss(nn.Module):
    """Cross entropy for ``start`` epochs, then cross entropy against a running average of label and prediction.

        t <- alpha t + (1 - alpha) p      loss = -sum_c t_c log p_c

    ``loss = criterion(logits, labels, index)`` where ``index`` is the place of each sample in the dataset
    (see `IndexedDataset`). Call ``criterion.set_epoch(e)`` before each epoch, counted from 0; ``e`` and ``start``
    may have a fraction. In eval mode and under ``no_grad`` nothing is written. k in Eq. 5 counts a sample's
    updates. Option I (Eq. 3) leaves the given label out: its rows start at zero and sum to 1 - alpha^k, in the
    table and in the loss, as in the paper; ``targets`` divides by that sum.

    With ``start="auto"`` it watches the training losses and starts when the turning point has passed (see
    `selc.core.turning`; ``epochs``, the length of the training, bounds its patience), with the ``alpha`` that follows
    from it; it logs when it did, and ``turn`` says what it saw. It cannot step back: `selc.fit` can. With a number for
    ``start``, ``alpha`` is the paper's 0.9 unless given.

    Under DDP the rows and outputs of all processes are gathered at each step, so every process holds the same table,
    however the sampler deals the data; the loss of a process is scaled for DDP's average.

    ``weighted`` adds the per-sample weight of self-adaptive training. ``repeats`` says what an index that comes
    twice in an epoch means: an ``"error"``, or ``"once"`` (only its first visit counts), the default under several
    processes, whose samplers pad. The checks of index and labels cost one synchronisation per step on a GPU.
    """

    labels: Tensor
    visits: Tensor

    def __init__(
        self,
        labels: Tensor,
        num_classes: int,
        alpha: float | Literal["auto"] | None = None,
        *,
        start: float | Literal["auto"] = "auto",
        epochs: int | None = None,
        option: Option = "II",
        weighted: bool = False,
        repeats: Literal["error", "once"] | None = None,
        reduction: Literal["mean", "none"] = "mean",
    ) -> None:
        super().__init__()
        if repeats not in (None, "error", "once"):
            raise ConfigError(f"repeats must be 'error' or 'once'; got {repeats!r}.")
        if reduction not in ("mean", "none"):
            raise ConfigError(f"reduction must be 'mean' or 'none'; got {reduction!r}.")
        labels = checked_labels(labels, num_classes)
        self.option = check_option(option)
        self.watcher = Watcher(len(labels), epochs or math.inf) if start == "auto" else None
        self.start = math.inf if isinstance(start, str) else check_start(start)
        self.alpha_given = alpha if not isinstance(alpha, str) else None  # None: it follows from the turning point
        self.alpha = check_alpha(0.9 if self.alpha_given is None else self.alpha_given)
        self.weighted, self.repeats, self.reduction = weighted, repeats, reduction
        self.num_classes, self.epoch = num_classes, 0.0
        # Option II starts as the given labels (Eq. 4), Option I as zeros (Eq. 3).
        self.store = Store.from_labels(labels, num_classes) if option == "II" else Store(len(labels), num_classes)
        self.register_buffer("labels", labels.clone())
        self.register_buffer("visits", torch.zeros(len(labels), dtype=torch.int16))  # of each row in this epoch
        self.to(labels.device)

    def set_epoch(self, epoch: float) -> None:
        """Say which epoch comes next (or, with a fraction, how far it is)."""
        if int(epoch) != int(self.epoch):
            if self.watcher is not None and self.turn is None and bool((self.visits > 0).any()):
                self._start_if_turned(self.watcher, epoch)
            self.visits.zero_()
        self.epoch = float(epoch)

    def forward(self, outputs: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        index, labels = index.to(self.labels.device), labels.to(self.labels.device)
        self._check(outputs, labels, index)
        index, labels = index.long(), labels.long()  # after the check: a fraction must not be cut off
        writes = self.training and torch.is_grad_enabled()
        world = current() if writes else ALONE
        if writes:
            rows, theirs = _gathered(world, index, outputs)
            fresh = self._count_visits(rows)
            rows, theirs = rows[fresh], theirs[fresh]
        if self.epoch < self.start:
            if writes and self.watcher is not None and self.turn is None:
                self.watcher.feed(rows, theirs, self.labels[rows].to(theirs.device))
            target = F.one_hot(labels, self.num_classes).float()
            return self._reduce(soft_cross_entropy(outputs, target.to(outputs.device)), world)
        if writes:
            self.store.ema(rows, theirs.float().softmax(dim=-1).to(index.device), self.alpha)
        target = self.store.read(index).to(outputs.device)
        loss = soft_cross_entropy(outputs, target)
        return self._reduce(confidence_weights(target, world) * loss if self.weighted else loss, world)

    @property
    def targets(self) -> Tensor:
        """The soft target of every sample, [N, C]; rows sum to one."""
        return torch.cat(list(self._handed_out()))

    @property
    def corrected_labels(self) -> Tensor:
        """The class with the largest target for every sample, [N]."""
        return torch.cat([rows.argmax(dim=1) for rows in self._handed_out()])

    @property
    def turn(self) -> Turn | None:
        """With ``start="auto"`` what was found out about the turning point, once it has passed."""
        return None if self.watcher is None else self.watcher.turn()

    def _start_if_turned(self, watcher: Watcher, epoch: float) -> None:
        turn = watcher.ask()
        if turn is None:
            return
        word = "no label is corrected"
        if turn.start is not None:
            self.start = float(epoch)
            suits = min(turn.alpha, flips_within(watcher.epochs - epoch))
            self.alpha = suits if self.alpha_given is None else self.alpha_given
            word = f"correction starts with alpha {self.alpha:.2f}"
        log.warning("SELCLoss, epoch %g: %s (peak at %.1f); %s.", epoch, turn.reason, turn.peak, word)

    def _handed_out(self) -> Iterator[Tensor]:
        for index, rows in self.store.blocks():
            given = F.one_hot(self.labels[index], self.num_classes).float()
            yield handed_out(rows, given) if self.option == "I" else rows

    def _reduce(self, loss: Tensor, world: World) -> Tensor:
        if self.reduction == "none":
            return loss
        if world.size == 1:
            return loss.mean()
        # DDP averages over the processes: so a sample counts the same wherever it is, also in a short last batch.
        return loss.sum() * (world.size / int(world.sum(torch.tensor(len(loss), device=loss.device))))

    def _count_visits(self, index: Tensor) -> Tensor | slice:
        """Count this visit of each row; return which of them are the first of the epoch."""
        before = self.visits[index]
        self.visits.index_add_(0, index, torch.ones_like(index, dtype=torch.int16))
        repeated = self.visits[index] > 1
        if not bool(repeated.any()):
            return slice(None)
        if not self._repeats_count_once():
            self.visits.index_add_(0, index, -torch.ones_like(index, dtype=torch.int16))
            raise InputError(
                f"an index must come once per epoch; got {int(index[repeated][0])} again in epoch "
                f"{int(self.epoch)}. Call set_epoch before each epoch; if the sampler repeats samples on "
                "purpose, pass repeats='once'."
            )
        if int(self.visits[index].max()) > FORGOTTEN:
            raise InputError(
                f"set_epoch must be called before each epoch; got an index {FORGOTTEN} times in epoch "
                f"{int(self.epoch)}. Without it only the first visit of a sample counts."
            )
        place = torch.arange(len(index), device=index.device)
        _, group = torch.unique(index, return_inverse=True)
        first = place.new_full((len(index),), len(index)).scatter_reduce(0, group, place, "amin")
        return (before == 0) & (first[group] == place)

    def _repeats_count_once(self) -> bool:
        if self.repeats is not None:
            return self.repeats == "once"
        return current().size > 1

    def _check(self, outputs: Tensor, labels: Tensor, index: Tensor) -> None:
        B, N = index.numel(), len(self.labels)
        if outputs.shape != (B, self.num_classes) or labels.shape != (B,) or index.shape != (B,) or B == 0:
            raise InputError(
                f"outputs, labels and index must be [B, {self.num_classes}], [B] and [B]; "
                f"got {list(outputs.shape)}, {list(labels.shape)} and {list(index.shape)}."
            )
        if index.dtype not in (torch.int64, torch.int32):
            raise InputError(f"index must be of integers (int64 or int32); got {index.dtype}.")
        if not bool(torch.isfinite(outputs).all()):
            raise InputError(
                "outputs must be finite, or the table would keep what is not; got NaN or infinity. "
                "Lower the learning rate, or look for extreme inputs."
            )
        low, high = (int(v) for v in index.aminmax())
        if low < 0 or high >= N:
            raise InputError(
                f"index must be in 0..{N - 1}, the rows of the label table; got {low if low < 0 else high}. "
                "Give SELCLoss the labels of the whole training set, in the order of the dataset."
            )
        wrong = self.labels[index] != labels
        if bool(wrong.any()):
            raise InputError(
                f"labels must be those of the table at index; got {int(wrong.sum())} of {B} that differ. "
                "The index must be the place in the dataset, not in the batch: wrap the dataset in IndexedDataset."
            )

    def get_extra_state(self) -> Tensor:
        """Epoch, start and alpha as numbers: a state that any file format can hold."""
        return torch.tensor([self.epoch, self.start, self.alpha], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        self.epoch, self.start, self.alpha = state.tolist()

    def extra_repr(self) -> str:
        return f"num_classes={self.num_classes}, alpha={self.alpha}, start={self.start}, option={self.option!r}"
