"""The few types that everything shares. [B] batch, [N] training set, [C] classes, [E] epochs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from selc.errors import InputError
from selc.losses.cross_entropy import checked_labels
from selc.memory.choice import FEW_COLUMNS
from selc.memory.forms import FormName, one_hot
from selc.memory.store import Store, block_rows


@dataclass(frozen=True, slots=True)
class Batch:
    """What a method may see of the data. True labels are not in it, so they cannot leak."""

    x: Tensor  # [B, ...]
    target: Tensor  # [B, C] rows sum to one; a hard label is a one-hot row
    index: Tensor  # [B] rows of the training set
    clock: float  # epochs since the start, with fraction; int(clock) is the epoch, from 0
    seed: int  # for random draws of this batch; the same for any number of processes
    shard: Tensor  # [B] shard of each row: partners (mixup) come from the same one


class StagePlan(NamedTuple):
    """What a method may know of the plan of a stage."""

    epochs: int
    batch_size: int
    seed: int = 0  # of the run


class Step(NamedTuple):
    """What a method makes of a batch."""

    loss: Tensor  # [B] one value per sample, or [] for a loss of the whole batch
    outputs: Tensor | None  # of the unmixed inputs, for the recorded losses; None if there are none


class Inputs(Protocol):
    """Where the inputs come from: an array in memory, a dataset, a cache on disk."""

    def __len__(self) -> int: ...

    def stream(self, batches: Sequence[Tensor], seed: int | None) -> Iterator[Tensor]:
        """The inputs of each batch of rows; augmented by draws from ``seed``, or not at all if it is None."""

    def to(self, device: torch.device) -> Inputs: ...


class Labels:
    """The given labels, hard [N] or soft [N, C], read as rows that sum to one."""

    def __init__(self, labels: Tensor | Store, num_classes: int) -> None:
        self.num_classes = num_classes
        self._soft = labels if isinstance(labels, Store) else None
        self.hard = labels.argmax() if isinstance(labels, Store) else checked_labels(labels, num_classes)

    def __len__(self) -> int:
        return len(self.hard)

    def read(self, index: Tensor) -> Tensor:
        """The target rows at ``index``, [B, C]."""
        if self._soft is not None:
            return self._soft.read(index)
        label = self.hard.index_select(0, index)
        return one_hot(label, self.num_classes)

    @property
    def are_soft(self) -> bool:
        return self._soft is not None

    def blocks(self, size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        for index in torch.arange(len(self), device=self.hard.device).split(size or block_rows(self.num_classes)):
            yield index, self.read(index)

    def to(self, device: torch.device) -> Labels:
        if self.hard.device == device:
            return self
        soft = None if self._soft is None else copy.deepcopy(self._soft).to(device)  # a module moves in place
        return Labels(self.hard.to(device) if soft is None else soft, self.num_classes)


@dataclass(frozen=True)
class TrainSet:
    """Inputs and the label table that belongs to them, joined by row."""

    inputs: Inputs
    labels: Labels
    rows: Tensor | None = None  # the rows to train on, in their original numbers; None = all
    verified: Tensor | None = None  # [N] booleans: labels that a person has verified, which nothing changes
    owned: Tensor | None = None  # sorted rows whose state this process holds; None = all, as in a single process
    groups: Tensor | None = None  # [N] rows of a group are never split: one is not judged by what another one taught
    time: Tensor | None = None  # [N] when each row was taken, in any unit: a stretch of it is judged by the others
    form: FormName = "dense"  # of the tables that methods keep
    scratch: Path | None = None  # folder for tables on disk; None: where temporary files go

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            raise InputError(
                f"inputs and labels must have the same length; got {len(self.inputs)} and {len(self.labels)}."
            )
        if len(torch.unique(self.labels.hard)) < 2:
            raise InputError(
                "labels must name at least two classes; "
                f"got only class {int(self.labels.hard[0])}. There is nothing to tell apart."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        return self.labels.num_classes

    def relabel(self, labels: Tensor | Store) -> TrainSet:
        """The same inputs with another label table; verified labels stay."""
        if self.verified is not None and isinstance(labels, Store):
            labels = self.with_verified(labels)
        elif self.verified is not None and isinstance(labels, Tensor):
            labels = torch.where(self.verified, self.labels.hard, labels.to(self.verified.device))
        return replace(self, labels=Labels(labels, self.num_classes))

    def with_verified(self, belief: Store) -> Store:
        """What a method believes, with the labels that a person has verified in their rows."""
        if self.verified is None:
            return belief
        result = copy.deepcopy(belief)  # it may be what the method goes on with
        for rows in result.among_held(self.verified.nonzero().flatten()).split(block_rows(self.num_classes)):
            result.write(rows, self.labels.read(rows))
        return result

    def own_rows(self) -> Tensor:
        """The rows whose state this process holds, in order."""
        return torch.arange(len(self), device=self.labels.hard.device) if self.owned is None else self.owned

    def blocks(self, size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The label rows of this process, piece by piece, as (index, rows)."""
        for index in self.own_rows().split(size or block_rows(self.num_classes)):
            yield index, self.labels.read(index)

    def new_store(
        self, columns: int | None = None, *, labels: bool = False, dtype: torch.dtype = torch.float32
    ) -> Store:
        """A table for the rows of this process, of zeros or, with ``labels``, of the given labels.

        Without ``columns`` its rows are probabilities of the classes, in the form that the run has chosen. With
        ``columns`` its rows are numbers of another meaning, which every form but dense and disk would spoil.
        """
        form: FormName = self.form
        if columns is not None and form != "dense":
            form = "disk" if columns > FEW_COLUMNS and dtype == torch.float32 else "dense"
        width = self.num_classes if columns is None else columns
        folder = self.scratch if form == "disk" else None
        store = Store(len(self), width, dtype, form=form, owned=self.owned, folder=folder).to(self.labels.hard.device)
        if labels and self.labels.are_soft:
            for index, rows in self.blocks():
                store.write(index, rows)
        elif labels:
            rows = self.own_rows()
            store.write_labels(rows, self.labels.hard[rows])
        return store

    def to(self, device: torch.device) -> TrainSet:
        parts = (self.rows, self.verified, self.owned)  # groups and times are only ever read where rows are dealt
        rows, verified, owned = (part if part is None else part.to(device) for part in parts)
        inputs, labels = self.inputs.to(device), self.labels.to(device)
        return replace(self, inputs=inputs, labels=labels, rows=rows, verified=verified, owned=owned)


@dataclass(frozen=True)
class EvalSet:
    """A named set to measure accuracy on: a test set, or rows held out of the training set."""

    inputs: Inputs
    labels: Tensor  # [M], one for each of ``rows``
    rows: Tensor | None = None  # of the inputs; None = all

    def to(self, device: torch.device) -> EvalSet:
        rows = None if self.rows is None else self.rows.to(device)
        return EvalSet(self.inputs.to(device), self.labels.to(device), rows)


class Pass(NamedTuple):
    """What the training pass shows of each sample, [N] or [E, N]; NaN and -1 where there was none."""

    losses: Tensor  # on the given labels
    predictions: Tensor  # predicted class
    confidences: Tensor  # its probability
    beliefs: Tensor  # the label that the method believed in after the epoch, if it keeps one


class Decided(Protocol):
    """What a method has decided, and by what. Whoever trains carries it and saves it, and does not read it."""

    def save(self, folder: Path) -> None:
        """Write it into the folder of a run."""


@dataclass
class Outcome:
    """What a training leaves behind; `selc.fit` returns it.

    Attributes
    ----------
    model : nn.Module
        The trained network.
    target : Store
        The labels that the method believes, [N, C]; rows sum to one.
    probs : Store
        The network's probabilities on the training set, [N, C], in eval mode.
    losses : Tensor, shape [E, N]
        On the given labels, from the training pass; NaN where there was none. ``predictions`` and ``confidences`` are
        the predicted class (or -1) and its probability, ``beliefs`` the label that the method believed in.
    history : list of dict
        One entry per epoch; epochs count from 0.
    corrected_labels : Tensor of int, shape [N]
        The labels to go on with.
    corrected_names : numpy.ndarray, shape [N]
        The same, by their names where the labels had names.
    label_issues_ : dict of numpy.ndarray, shape [N] each
        The columns of ``label_issues.csv``; ``pandas.DataFrame(outcome.label_issues_)`` is the table.
    classes : tuple of str
        Names of the classes, where the labels had names.
    remarks : dict
        What was noticed about the data: sentences under ``notes``, and what they are about; as in ``data.json``.

    Examples
    --------
    >>> import torch
    >>> import selc
    >>> x = torch.tensor([[-1.0], [1.0]] * 20)
    >>> outcome = selc.fit(x, ["left", "right"] * 20, method="ce", epochs=2, batch_size=20)
    >>> outcome.losses.shape, outcome.classes, sorted(outcome.label_issues_)[:2]
    (torch.Size([2, 40]), ('left', 'right'), ['action', 'given_label'])
    """

    model: nn.Module
    target: Store  # the labels that the method believes; rows sum to one
    probs: Store  # the network's probabilities on the training set, eval mode
    losses: Tensor  # [E, N] on the given labels, from the training pass; NaN where there was none
    predictions: Tensor  # [E, N] class predicted in the training pass; -1 where there was none
    confidences: Tensor  # [E, N] probability of the predicted class; NaN where there was none
    beliefs: Tensor  # [E, N] label that the method believed in after the epoch; -1 if it keeps none
    history: list[dict[str, Any]] = field(default_factory=list)
    stage: int = 0  # which call of ``train`` it came from
    looks: Pass | None = None  # [L, M] what it predicted of the rows that it was only shown, if there were any
    recorded: Pass | None = None  # [E, N] of the last stage that recorded any, which need not be the last one
    decided: Decided | None = None  # what the method has decided on its way, for whoever knows its kind
    corrected: Tensor | None = None  # [N] the labels to go on with, once they were analysed or if the method says so
    classes: tuple[str, ...] = ()  # names of the classes, where the labels had names
    named: bool = False  # whether the labels were given by name
    label_issues_: dict[str, Any] = field(default_factory=dict)  # columns [N] of the findings, where they were made
    remarks: dict[str, Any] = field(default_factory=dict)  # what was noticed about the data

    @property
    def corrected_names(self) -> Any:
        """The corrected labels [N] as a numpy array, by their names where the labels had names."""
        labels = self.corrected_labels.cpu().numpy()
        return np.array(self.classes, dtype=np.str_)[labels] if self.named else labels

    @property
    def corrected_labels_(self) -> Any:
        """The name of `corrected_names` until 0.2.0.

        .. deprecated:: 0.2.0
            Use ``corrected_names``.
        """
        warnings.warn(
            "Outcome.corrected_labels_ is deprecated, use corrected_names; it goes with 0.4.0",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.corrected_names

    @property
    def believed_labels(self) -> Tensor:
        """The class that the method believes in most for every row, [N]."""
        return self.target.argmax()

    @property
    def corrected_labels(self) -> Tensor:
        """The labels to go on with, [N]: those of the analysis; before it, what the method believes in."""
        return self.believed_labels if self.corrected is None else self.corrected


def accuracies(entry: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The named sets in an entry of the history, with the metrics on each: whatever has values by name is one."""
    return {name: value for name, value in entry.items() if isinstance(value, dict)}


class Sweep(Protocol):
    """One pass over the training set in row order, in eval mode; the plain one is cached for the epoch."""

    def __call__(self, fn: Callable[[Tensor, Tensor], Tensor] | None = None) -> Store:
        """A row per sample: class probabilities, or ``fn(outputs, target)``."""
