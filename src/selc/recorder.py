"""Findings about labels from a training that is going on anyway, in any loop, without changing it."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from selc.analysis.label_analysis import LabelAnalysis, by_evidence
from selc.analysis.training_pass import before_memorising, by_training_pass
from selc.errors import InputError
from selc.losses.cross_entropy import checked_labels, log_softmax
from selc.losses.seen import Seen, Tables, filled, stacked, unseen
from selc.turning.decision import decide
from selc.turning.evidence import Evidence
from selc.turning.held_out import check_same_rows
from selc.types import Pass
from selc.world import current

log = logging.getLogger("selc")
AT_ONCE = 2**17  # outputs of small batches that wait for each other to be worked on in one call: 0.5 MB
LARGE = 2**15  # outputs of a batch that is not worth being copied to wait

EVALUATED = (
    "it takes down what is trained on; got a batch under no_grad, as of an evaluation, and recorded it. Show samples "
    "that are not trained on to recorder.validation(logits, labels)."
)


class Recorder:
    """Takes down what a network predicts of its training samples, and says which of their labels look wrong.

    It is called with each batch and changes nothing: not the loss, not the gradients, not the random numbers. Of each
    sample and epoch it keeps the predicted class, its probability and the loss on the given label, 10 bytes together;
    nothing of size N x C. A batch costs no synchronisation with a GPU, an epoch costs one.

    Parameters
    ----------
    labels : Tensor or array of int, shape [N]
        The given labels of the whole training set, in the order of the dataset.
    num_classes : int
        Number of classes C.

    Notes
    -----
    Call ``set_epoch(e)`` before each epoch. Without it an epoch is counted as N samples, which is not exact if the
    loader drops the last batch. Of a sample that comes twice in an epoch the last visit counts; one that does not come
    is taken as it was seen last. With gradient accumulation every batch is recorded, as in any loop.

    Under several processes each records its own batches; ``analysis``, ``gather`` and ``validation`` must be called by
    all of them.

    Examples
    --------
    >>> import torch
    >>> from selc import Recorder
    >>> labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 0, 0])
    >>> recorder = Recorder(labels, num_classes=2)
    >>> for epoch in range(3):
    ...     recorder.set_epoch(epoch)
    ...     logits = torch.tensor([[2.0, 0.0]] * 4 + [[0.0, 2.0]] * 4 + [[2.0, 0.0]] * 2)  # of a network that you train
    ...     recorder(torch.arange(10), logits)
    >>> issues = recorder.analysis().issues()
    >>> int(issues["label_quality"].argmin()), int(issues["suggested_label"][3])
    (3, 0)
    """

    def __init__(self, labels: Any, num_classes: int) -> None:
        self.labels = checked_labels(labels, num_classes).cpu().clone()
        self.num_classes, self.epoch = num_classes, 0
        self._counts = True  # epochs, as nobody says which it is
        self._here = 0  # samples of this epoch in this process
        self._epochs: dict[int, Seen] = {}  # on the CPU; the one that is going on is in the tables below
        self._tables: Tables | None = None
        self._gathered: set[int] = set()  # epochs in which nothing is new to other processes
        self._waiting: list[tuple[Tensor, Tensor, Tensor | None]] = []
        self._numbers = 0  # in the outputs that wait
        self._looks: dict[int, Seen] = {}  # of validation samples
        self._validation = torch.empty(0, dtype=torch.int64)  # their labels
        self._told: set[str] = set()  # what is said once

    def __call__(self, index: Tensor, logits: Tensor, labels: Tensor | None = None) -> None:
        """Take down a batch of the training.

        Parameters
        ----------
        index : Tensor of int, shape [B]
            The place of each sample in the dataset (see `selc.IndexedDataset`).
        logits : Tensor, shape [B, C]
            What the network said of them. Rows that are not finite count as not seen.
        labels : Tensor of int, shape [B], optional
            Their labels, to be compared with those at ``index``: so a wrong index, or labels in another order, are
            noticed after an epoch.
        """
        self._check(index, logits, labels)
        if not (torch.is_grad_enabled() or logits.requires_grad):
            self._tell("no_grad", EVALUATED)
        if self._counts and self._here * current().size >= len(self.labels):
            self._go_to(self.epoch + 1)
        self._here += len(index)
        self._numbers += logits.numel()
        if logits.numel() < LARGE and self._numbers < AT_ONCE:
            # Small batches wait for each other; what waits must not change meanwhile.
            self._waiting.append((index.clone(), logits.detach().clone(), labels if labels is None else labels.clone()))
        else:
            self._waiting.append((index, logits, labels))
            self._settle()  # keeps no graph

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next. Going back to an earlier one forgets it and what came after it."""
        self._counts = False
        if int(epoch) != self.epoch:
            self._go_to(int(epoch))

    @torch.no_grad()
    def validation(self, logits: Tensor, labels: Tensor) -> None:
        """Show what the network says after this epoch of samples that it is not trained on, the same ones each time.

        If there are such looks, epochs without one are left out of the analysis.

        Parameters
        ----------
        logits : Tensor, shape [M, C]
            In eval mode. Given twice in an epoch, the later ones count.
        labels : Tensor of int, shape [M]
            Their given labels, which may be as noisy as the others.
        """
        labels = checked_labels(labels, self.num_classes).cpu()
        if logits.shape != (len(labels), self.num_classes):
            raise InputError(
                f"logits and labels of validation must be [M, {self.num_classes}] and [M]; got {list(logits.shape)} "
                f"and {list(labels.shape)}."
            )
        if self._looks:
            check_same_rows("validation must be the same samples", labels, self._validation)
        log_p = log_softmax(logits.detach()).cpu()
        if not bool(log_p.isfinite().all()):
            raise InputError("logits of validation must be finite; got NaN or infinity. Lower the learning rate.")
        largest, predicted = log_p.max(dim=1)
        given = log_p.gather(1, labels[:, None])[:, 0]
        self._validation = labels
        self._looks[self.epoch] = Seen(-given, predicted, largest.exp())

    def analysis(self) -> LabelAnalysis:
        """What the epochs so far say about the labels.

        Returns
        -------
        LabelAnalysis
            With ``validation`` after each epoch it is decided as by `selc.fit` how many labels are wrong, and which
            are changed. Without, it ranks the labels and suggests others, ``noise_rate`` is a range, and
            ``corrected`` are the given labels.
        """
        self.gather()
        epochs = dict(sorted(self._epochs.items()))
        if not any(bool((seen.predictions >= 0).any()) for seen in epochs.values()):
            raise InputError("a recorder must be given the batches of a training before it is asked; got none.")
        if not self._looks.keys() & epochs.keys():
            return by_training_pass(_passes(list(epochs.values())), self.labels, self.num_classes)
        both = [epoch for epoch in epochs if epoch in self._looks]
        looks = stacked([self._looks[epoch] for epoch in both])
        evidence = Evidence(
            *(self._validation, looks.predictions, looks.confidences, looks.losses.neg().exp()),
            num_classes=self.num_classes,
            splits=1,
        )
        seen = _passes([epochs[epoch] for epoch in both])
        last = torch.where(seen.predictions[-1] >= 0, seen.predictions[-1].long(), self.labels)
        # A run's second witness is SELC's targets. Here it is what the network named before it changed its mind least.
        believed, _, _ = before_memorising(seen, self.labels, self.num_classes)
        decision = decide(evidence, len(both))
        return by_evidence(evidence, decision, seen, self.labels, believed=believed, last=last)

    def gather(self) -> None:
        """Put together what all processes have recorded, in each of them; all must call it. Alone it does nothing.

        Of a sample that several of them saw in an epoch, what the first of them saw counts.
        """
        self._put_down()
        world = current()
        if world.size == 1:
            return
        new = torch.tensor([epoch for epoch in self._epochs if epoch not in self._gathered], dtype=torch.int64)
        for epoch in torch.cat(world.gather(new)).unique().tolist():
            mine = self._epochs.get(epoch) or self._unseen()
            everyone = zip(*(world.gather(part) for part in mine), strict=True)
            seen = mine
            for theirs in map(Seen._make, reversed(list(everyone))):
                there = theirs.predictions >= 0
                seen = Seen(*(torch.where(there, new, old) for new, old in zip(theirs, seen, strict=True)))
            self._epochs[epoch] = seen
            self._gathered.add(epoch)

    def state_dict(self) -> dict[str, Tensor]:
        """All of it as tensors, which any file can hold. Under several processes call ``gather`` before."""
        self._put_down()
        about = [self.num_classes, self.epoch, self._counts, self._here]
        state = {"labels": self.labels, "validation": self._validation, "about": torch.tensor(about)}
        for name, kept in (("epochs", self._epochs), ("looks", self._looks)):
            state[name] = torch.tensor(list(kept), dtype=torch.int64)
            if kept:
                state |= {f"{name}.{part}": rows for part, rows in stacked(list(kept.values()))._asdict().items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from a state that was saved with the same labels."""
        num_classes, epoch, counts, here = state["about"].tolist()
        if num_classes != self.num_classes or not torch.equal(state["labels"].cpu(), self.labels):
            raise InputError(
                f"a recorder's state must be of the same labels; got one of {len(state['labels'])} labels and "
                f"{num_classes} classes for {len(self.labels)} and {self.num_classes}, or of others. Start a new one."
            )
        self.epoch, self._counts, self._here = epoch, bool(counts), here
        self._tables, self._waiting, self._numbers = None, [], 0
        self._validation = state["validation"].cpu()
        self._epochs, self._looks = (
            {
                epoch: Seen(*(state[f"{name}.{part}"][place].cpu().clone() for part in Seen._fields))
                for place, epoch in enumerate(state[name].tolist())
            }
            for name in ("epochs", "looks")
        )
        self._gathered = set()  # a state that was saved by one process may be that of one alone

    def _check(self, index: Tensor, logits: Tensor, labels: Tensor | None) -> None:
        """What can be told without looking at the numbers, which would wait for the device."""
        B = index.numel()
        if logits.shape != (B, self.num_classes) or index.dim() != 1 or (labels is not None and labels.shape != (B,)):
            shapes = ", ".join(str(list(t.shape)) for t in (index, logits, labels) if t is not None)
            raise InputError(
                f"index, logits and labels must be [B], [B, {self.num_classes}] and [B]; got {shapes}. A recorder is "
                "called with recorder(index, logits)."
            )
        if index.dtype not in (torch.int64, torch.int32):
            raise InputError(f"index must be of integers (int64 or int32); got {index.dtype}.")

    def _go_to(self, epoch: int) -> None:
        self._put_down()
        for later in [other for other in self._epochs if other >= epoch]:
            del self._epochs[later]
        self._looks = {other: look for other, look in self._looks.items() if other < epoch}
        self._gathered &= set(self._epochs)
        self.epoch, self._here = epoch, 0

    @torch.no_grad()
    def _settle(self) -> None:
        """Work out what the batches that wait show."""
        if not self._waiting:
            return
        waiting, self._waiting, self._numbers = self._waiting, [], 0
        logits = waiting[0][1] if len(waiting) == 1 else torch.cat([part for _, part, _ in waiting])
        if self._tables is None:
            before = self._epochs.pop(self.epoch, None)
            self._gathered.discard(self.epoch)
            self._tables = Tables(self.labels, before or self._unseen(), self.num_classes, logits.device)
        rows = self._together([index for index, _, _ in waiting], logits.device)
        compared = [(index, labels) for index, _, labels in waiting if labels is not None]
        if len(compared) == len(waiting):
            index = rows
        else:
            index = self._together([index for index, _ in compared], logits.device)
        self._tables.write(rows, logits, index, self._together([labels for _, labels in compared], logits.device))

    @staticmethod
    def _together(parts: list[Tensor], device: torch.device) -> Tensor:
        if not parts:
            return torch.empty(0, dtype=torch.int64, device=device)
        if len(parts) == 1:
            return parts[0].to(device, torch.int64, non_blocking=True)
        return torch.cat([part.to(device, non_blocking=True) for part in parts]).long()

    def _put_down(self) -> None:
        """Bring what was seen of this epoch to the CPU, which waits for the device."""
        self._settle()
        if self._tables is not None:
            tables, self._tables = self._tables, None
            self._epochs[self.epoch] = tables.read()
            for doubt in tables.doubts:
                self._tell(doubt[:20], doubt)

    def _tell(self, about: str, said: str) -> None:
        """Once, what raises no error but is likely to be a mistake."""
        if about not in self._told:
            self._told.add(about)
            log.warning("Recorder: %s", said)

    def _unseen(self) -> Seen:
        return unseen(len(self.labels), self.num_classes)


def _passes(epochs: list[Seen]) -> Pass:
    seen = filled(epochs)
    return Pass(*seen, beliefs=torch.full_like(seen.predictions, -1))
