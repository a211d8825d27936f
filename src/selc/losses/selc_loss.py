"""The loss of SELC (Eq. 3 to 6 of the paper), for people with their own training loop.

Yangdi Lu and Wenbo He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from selc.errors import ConfigError, InputError
from selc.losses.cross_entropy import (
    Option,
    are_probabilities,
    check_alpha,
    check_option,
    check_start,
    checked_labels,
    confidence_weights,
    handed_out,
    soft_cross_entropy,
)
from selc.losses.loss_table import StoreName, alike, as_saved, form_for
from selc.losses.watcher import Turn, Watcher
from selc.memory.forms import one_hot
from selc.memory.store import Store
from selc.world import ALONE, World, current

log = logging.getLogger("selc")
FORGOTTEN = 100  # visits of one sample in one epoch: no sampler repeats so often, a forgotten set_epoch does


def _gathered(world: World, index: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and outputs of the batches of all processes, in one message."""
    outputs = outputs.detach()
    if world.size == 1:
        return index, outputs
    bytes_ = [index.to(outputs.device).unsqueeze(1), outputs.float().contiguous()]
    everyone = torch.cat(world.gather(torch.cat([part.view(torch.uint8) for part in bytes_], dim=1)))
    rows, theirs = everyone.split([8, everyone.shape[1] - 8], dim=1)
    return rows.contiguous().view(torch.int64).flatten().to(index.device), theirs.contiguous().view(torch.float32)


class Witness(Protocol):
    """Who tells when correction may start; asked at the end of each epoch."""

    epochs: float

    @property
    def earliest(self) -> int: ...
    def ask(self) -> Turn | None: ...
    def turn(self) -> Turn | None: ...


class SELCLoss(nn.Module):
    """Cross entropy for ``start`` epochs, then cross entropy against a running average of label and prediction.

    Parameters
    ----------
    labels : Tensor of int, shape [N]
        The given labels of the whole training set, in the order of the dataset.
    num_classes : int
        Number of classes C.
    alpha : float, optional
        Weight of the old target, in [0, 1). The paper's 0.9 by default.
    start : float or "auto", default "auto"
        Epochs of plain cross entropy; may have a fraction. With ``"auto"`` correction starts by itself: by held-out
        rows if ``validation`` is given, as `selc.fit` decides it; else once predictions of the training samples have
        changed least (see `selc.Watcher`). It logs when it did, and ``turn`` says what it saw. It cannot step back.
    epochs : int, optional
        Length of the training, for the patience of ``"auto"``. A training in which too few epochs are left for a label
        to change says so, and leaves all labels as they are. With ``validation`` it is taken from there.
    validation : HeldOut, optional
        Rows that are not trained on, see `selc.HeldOut`.
    option : "I" or "II", default "II"
        Option I (Eq. 3 of the paper) leaves the given label out: its rows start at zero and sum to ``1 - alpha^k``
        after k updates, in the table and in the loss, as in the paper; ``targets`` divides by that sum.
    weighted : bool, default False
        Adds the per-sample weight of self-adaptive training.
    repeats : "error" or "once", optional
        What an index that comes twice in an epoch means: an error, or that only its first visit counts, which is the
        default under several processes, whose samplers pad.
    reduction : "mean" or "none", default "mean"
        Of the loss over the batch.
    store : "auto", "dense", "half", "disk" or "top-k", default "auto"
        Form of the table of targets, see `selc.Store`. ``"auto"`` chooses by its size and the memory that is free, and
        logs what it chose if that is not dense. A state that was saved in one form can be loaded in any.

    Attributes
    ----------
    targets : Tensor, shape [N, C]
        The soft target of every sample; rows sum to one. Where it does not fit, ``blocks()`` hands it out in pieces.
    corrected_labels : Tensor of int, shape [N]
        The class with the largest target.
    label_quality : Tensor, shape [N]
        The probability that each given label had on average; low is bad.
    turn : Turn or None
        With ``start="auto"`` what was seen of the turning point, once it has passed.

    Notes
    -----
    With the prediction p of the training pass, from ``start`` on,

        t <- alpha t + (1 - alpha) p      loss = -sum_c t_c log p_c

    Call ``criterion.set_epoch(e)`` before each epoch, counted from 0. In eval mode and under ``no_grad`` nothing is
    written. The checks of index and labels cost one synchronisation per step on a GPU.

    Under DDP the rows and outputs of all processes are gathered at each step, so every process holds the same table,
    however the sampler deals the data; the loss of a process is scaled for DDP's average. Keep the loss outside of the
    module that DDP wraps, which would send the table around at each step.

    References
    ----------
    Yangdi Lu and Wenbo He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022.

    Examples
    --------
    Two groups of points, one of them with two wrong labels; correction starts after five epochs.

    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from selc import IndexedDataset, SELCLoss
    >>> _ = torch.manual_seed(0)
    >>> x = torch.cat([torch.full((20, 1), -1.0), torch.full((20, 1), 1.0)])
    >>> labels = torch.tensor([0] * 18 + [1] * 2 + [1] * 20)
    >>> loader = DataLoader(IndexedDataset(TensorDataset(x, labels)), batch_size=10, shuffle=True)
    >>> model = torch.nn.Linear(1, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> criterion = SELCLoss(labels, num_classes=2, start=5)
    >>> for epoch in range(15):
    ...     criterion.set_epoch(epoch)
    ...     for inputs, given, index in loader:
    ...         optimizer.zero_grad()
    ...         criterion(model(inputs), given, index).backward()
    ...         optimizer.step()
    >>> criterion.corrected_labels[18:20].tolist(), criterion.label_quality.argsort()[:2].sort().values.tolist()
    ([0, 0], [18, 19])
    """

    labels: Tensor
    visits: Tensor
    likelihood: Tensor
    updates: Tensor

    def __init__(
        self,
        labels: Tensor,
        num_classes: int,
        alpha: float | Literal["auto"] | None = None,
        *,
        start: float | Literal["auto"] = "auto",
        epochs: int | None = None,
        validation: Witness | None = None,
        option: Option = "II",
        weighted: bool = False,
        repeats: Literal["error", "once"] | None = None,
        reduction: Literal["mean", "none"] = "mean",
        store: StoreName = "auto",
    ) -> None:
        super().__init__()
        if repeats not in (None, "error", "once"):
            raise ConfigError(f"repeats must be 'error' or 'once'; got {repeats!r}.")
        if reduction not in ("mean", "none"):
            raise ConfigError(f"reduction must be 'mean' or 'none'; got {reduction!r}.")
        labels = checked_labels(labels, num_classes)
        self.option = check_option(option)
        if validation is not None and (start != "auto" or not hasattr(validation, "ask")):
            raise ConfigError(
                f"validation must be a selc.HeldOut, and goes with start='auto'; got {type(validation).__name__} and "
                f"start {start!r}. Wrap your loader: selc.HeldOut.by(model, loader, epochs=100)."
            )
        self.watcher = None if start != "auto" else validation or Watcher(len(labels), epochs or math.inf)
        self.start = math.inf if isinstance(start, str) else check_start(start)
        self.alpha_given = alpha if not isinstance(alpha, str) else None  # None: the paper's
        self.alpha = check_alpha(0.9 if self.alpha_given is None else self.alpha_given)
        self.weighted, self.repeats, self.reduction = weighted, repeats, reduction
        self.num_classes, self.epoch = num_classes, 0.0
        self._turn: Turn | None = None  # asked for at the end of each epoch
        self.epochs = math.inf if epochs is None else epochs  # of the training, as far as is known
        if self.watcher is not None:
            self.epochs = self.watcher.epochs
        earliest = self.start if self.watcher is None else self.watcher.earliest
        if self._too_late(earliest):
            log.warning(
                "SELCLoss: in %d epochs no label can change, as correction starts after %g%s and takes some epochs: "
                "train longer, lower alpha, or %s.",
                self.epochs,
                earliest,
                "" if self.watcher is None else " at the earliest",
                "start earlier" if self.watcher is None else "give a start",
            )
        self.form_given, self._agreed, self._looked = store, False, False
        form, why = form_for(store, len(labels), num_classes, labels.device)
        if form != "dense" and why:
            log.warning("SELCLoss: %s", why)
        # Option II starts as the given labels (Eq. 4), Option I as zeros (Eq. 3).
        if option == "II":
            self.store = Store.from_labels(labels, num_classes, form=form)
        else:
            self.store = Store(len(labels), num_classes, form=form)
        self.register_buffer("labels", labels.clone())
        self.register_buffer("visits", torch.zeros(len(labels), dtype=torch.int16))  # of each row in this epoch
        self.register_buffer("likelihood", torch.zeros(len(labels)))  # sum of log p of the given label
        self.register_buffer("updates", torch.zeros(len(labels), dtype=torch.int32))
        self.to(labels.device)
        self.register_load_state_dict_pre_hook(_before_load)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(_after_load)  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: float) -> None:
        """Say which epoch comes next (or, with a fraction, how far it is)."""
        if int(epoch) != int(self.epoch):
            if self.watcher is not None and self._turn is None and bool((self.visits > 0).any()):
                self._turn = self.watcher.ask()
                self._start_if_turned(epoch)
            self.visits.zero_()
        self.epoch = float(epoch)

    def forward(self, outputs: Tensor, labels: Tensor, index: Tensor | None = None) -> Tensor:
        if index is None:
            raise InputError(
                "SELCLoss is called with criterion(outputs, labels, index); got no index, the place of each sample in "
                "the dataset. Wrap the dataset in selc.IndexedDataset, which puts it beside each sample."
            )
        index, labels = index.to(self.labels.device), labels.to(self.labels.device)
        self._check(outputs, labels, index)
        index, labels = index.long(), labels.long()  # after the check: a fraction must not be cut off
        writes = self.training and torch.is_grad_enabled()
        world = current() if writes else ALONE
        if writes:
            if not self._looked:
                self._look_at(outputs)
            if world.size > 1 and not self._agreed:
                self.store, self._agreed = alike(self.store, world), True
            rows, theirs = _gathered(world, index, outputs)
            fresh = self._count_visits(rows)
            rows, theirs = rows[fresh], theirs[fresh]
            self._note_quality(rows, theirs)
        if self.epoch < self.start:
            if writes and isinstance(self.watcher, Watcher) and self._turn is None:
                self.watcher.feed(rows, theirs)
            target = one_hot(labels, self.num_classes).to(outputs.device)
            return self._reduce(soft_cross_entropy(outputs, target), world)
        if writes:
            updated = self.store.ema(rows, theirs.float().softmax(dim=-1).to(index.device), self.alpha)
            # A form may not keep all of a row: the loss takes the rows as they were worked out, where they were.
            whole = world.size == 1 and isinstance(fresh, slice)
            target = updated if whole else self._read(index, rows, updated)
        else:
            target = self.store.read(index)
        target = target.to(outputs.device)
        loss = soft_cross_entropy(outputs, target)
        return self._reduce(confidence_weights(target, world) * loss if self.weighted else loss, world)

    @property
    def targets(self) -> Tensor:
        """The soft target of every sample, [N, C]; rows sum to one."""
        return torch.cat([rows for _, rows in self.blocks()])

    def blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The same piece by piece, as (index, rows): all of it may not fit."""
        for index, rows in self.store.blocks():
            yield index, handed_out(rows, one_hot(self.labels[index], self.num_classes)) if self.option == "I" else rows

    @property
    def corrected_labels(self) -> Tensor:
        """The class with the largest target for every sample, [N]."""
        share, label = self.store.top()
        return torch.where(share > 0, label, self.labels)  # zeros: Option I without an update

    @property
    def turn(self) -> Turn | None:
        """With ``start="auto"`` what was found out about the turning point, once it has passed."""
        return self._turn

    @property
    def label_quality(self) -> Tensor:
        """How well each given label fits, [N] in [0, 1]: the probability that it had on average; low is bad."""
        return (self.likelihood / self.updates.clamp_min(1)).exp().masked_fill(self.updates == 0, torch.nan)

    def issues(self) -> dict[str, Tensor]:
        """Columns [N] to look at, the worst labels first by ``label_quality``: given and suggested label, and whether
        they differ. Nothing was held out, so nothing is said of how many of them are wrong."""
        suggested = self.corrected_labels
        return {
            "is_label_issue": suggested != self.labels,
            "label_quality": self.label_quality,
            "given_label": self.labels.clone(),
            "suggested_label": suggested,
        }

    def _too_late(self, epoch: float) -> bool:
        """Whether a given label keeps more than half of its weight if it is corrected from an epoch on."""
        if self.option == "I":  # it leaves the given label out
            return False
        return bool(self.alpha ** max(self.epochs - epoch, 0.0) > 1 / 2)

    def _start_if_turned(self, epoch: float) -> None:
        if self._turn is None:
            return
        self.start = float(epoch)
        seen = "predictions changed least at" if isinstance(self.watcher, Watcher) else "held-out rows tell of"
        said = f"{seen} epoch {self._turn.peak:g}; correction starts with alpha {self.alpha:.2f}"
        if self._too_late(epoch):
            said += ". So few epochs are left that no label can change: train longer, or lower alpha"
        log.warning("SELCLoss, epoch %g: %s.", epoch, said)

    @torch.no_grad()
    def _note_quality(self, rows: Tensor, outputs: Tensor) -> None:
        log_p = outputs.detach().float().log_softmax(dim=-1).to(self.labels.device)
        given = log_p.gather(1, self.labels[rows][:, None]).squeeze(1)
        self.likelihood.index_add_(0, rows, given)
        self.updates.index_add_(0, rows, torch.ones_like(rows, dtype=self.updates.dtype))

    def _read(self, index: Tensor, rows: Tensor, updated: Tensor) -> Tensor:
        """The targets of the rows ``index``: those that are among ``rows`` as ``updated``, others from the table."""
        if len(rows) == 0:
            return self.store.read(index)
        ordered, order = rows.sort()
        place = torch.searchsorted(ordered, index).clamp_(max=len(rows) - 1)
        known = ordered[place] == index
        target = updated[order[place]]
        if not bool(known.all()):
            target[~known] = self.store.read(index[~known])
        return target

    def _reduce(self, loss: Tensor, world: World) -> Tensor:
        if self.reduction == "none":
            return loss
        if world.size == 1:
            return loss.mean()
        # DDP averages over the processes: so a sample counts the same wherever it is, also in a short last batch.
        return loss.sum() * (world.size / int(world.sum(torch.tensor(len(loss), device=loss.device))))

    def _look_at(self, outputs: Tensor) -> None:
        """Once: a second softmax is the mistake that raises no error, but makes every prediction unsure."""
        self._looked = True
        if bool(are_probabilities(outputs)):
            log.warning("SELCLoss: outputs must be logits; got what sums to one. Leave out the softmax.")

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
        about = f"num_classes={self.num_classes}, alpha={self.alpha}, start={self.start}, option={self.option!r}"
        return f"{about}, store={self.store.form!r}"


def _before_load(criterion: SELCLoss, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """A state is continued in the form in which it was saved, to the same bits, unless a form was asked for."""
    if criterion.form_given == "auto":
        criterion.store = as_saved(criterion.store, state, f"{prefix}store.")


def _after_load(criterion: SELCLoss, _: Any) -> None:
    criterion._turn = None if criterion.watcher is None else criterion.watcher.turn()
