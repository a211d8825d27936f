"""The turning point for training loops that are not ours, by rows that they hold out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from selc.errors import InputError
from selc.losses.watcher import Turn, waited
from selc.turning.decision import Decision, decide
from selc.turning.evidence import Evidence

Shown = Callable[[], tuple[Tensor, Tensor]]  # () -> (outputs [M, C], given labels [M]) of rows that are not trained on


class HeldOut(nn.Module):
    """Watches a training by rows that are held out: the evidence that `selc.fit` decides by, for a loop of one's own.

    The labels may be as noisy as those that are trained on. After each epoch the rows are predicted; correction starts
    once the epoch by which they were predicted as well as ever has not moved for a tenth of the training. A loop that
    is not ours cannot step back, so it starts that much later than `selc.fit` would.

    Parameters
    ----------
    shown : callable
        Returns logits [M, C] and given labels [M] of the held-out rows, in the same order each time. `HeldOut.by`
        makes one of a model and a loader.
    epochs : float
        Length of the training.

    Attributes
    ----------
    decision : Decision or None
        What the epochs so far show: when to start, how well held-out rows were predicted, and whether that fell.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from selc import HeldOut, SELCLoss
    >>> model = torch.nn.Linear(1, 2)
    >>> held_back = TensorDataset(torch.randn(30, 1), torch.randint(2, (30,)))
    >>> held_out = HeldOut.by(model, DataLoader(held_back, batch_size=10), epochs=100)
    >>> criterion = SELCLoss(torch.randint(2, (200,)), num_classes=2, epochs=100, validation=held_out)
    >>> held_out.earliest  # epochs before which correction never starts
    11
    """

    def __init__(self, shown: Shown, epochs: float) -> None:
        super().__init__()
        self.shown, self.epochs = shown, float(epochs)
        self.looks: list[tuple[Tensor, Tensor, Tensor]] = []  # predicted class, its probability, that of the label
        self.labels = torch.empty(0, dtype=torch.int64)
        self.num_classes = 0

    @classmethod
    def by(cls, model: nn.Module, loader: Iterable[Any], epochs: float) -> HeldOut:
        """With batches (x, y) of a loader; the model is asked in eval mode, on the device where it is."""
        return cls(lambda: _predicted(model, loader), epochs)

    @property
    def earliest(self) -> int:
        """Epochs before which correction never starts, whatever they show."""
        return 1 + math.ceil(waited(self.epochs))

    @property
    def evidence(self) -> Evidence:
        predictions, confidences, given = (torch.stack(part) for part in zip(*self.looks, strict=True))
        return Evidence(self.labels, predictions, confidences, given, self.num_classes, splits=1)

    @property
    def decision(self) -> Decision | None:
        """What the epochs so far show."""
        return decide(self.evidence, self.epochs) if self.looks else None

    @torch.no_grad()
    def ask(self) -> Turn | None:
        """Call it once at the end of each epoch: whether the turning point has passed."""
        outputs, labels = self.shown()
        labels = torch.as_tensor(labels).cpu().long()
        if outputs.dim() != 2 or labels.shape != outputs.shape[:1] or len(labels) == 0:
            raise InputError(
                f"held-out rows must have outputs [M, C] and labels [M]; got {list(outputs.shape)} and "
                f"{list(labels.shape)}."
            )
        if self.looks:
            check_same_rows("held-out rows must be the same ones", labels, self.labels)
        p = outputs.detach().float().softmax(dim=1).cpu()
        self.labels, self.num_classes = labels, outputs.shape[1]
        sure, named = p.max(dim=1)
        self.looks.append((named, sure, p.gather(1, labels[:, None])[:, 0]))
        return self.turn()

    def turn(self) -> Turn | None:
        """When correction may start, and when that was clear."""
        decision = self.decision
        if decision is None or decision.start is None or len(self.looks) - decision.start < waited(self.epochs):
            return None
        return Turn(decision.start, len(self.looks))

    def get_extra_state(self) -> Tensor:
        """The labels, and three rows for each look; a number of classes at the end of each: any file can hold it."""
        rows = torch.stack([self.labels, *(part for look in self.looks for part in look)]).double()
        return torch.cat([rows, torch.full((len(rows), 1), self.num_classes)], dim=1)

    def set_extra_state(self, state: Tensor) -> None:
        labels, *looks = state[:, :-1].cpu()
        self.labels, self.num_classes = labels.long(), int(state[0, -1])
        self.looks = [(looks[k].long(), looks[k + 1].float(), looks[k + 2].float()) for k in range(0, len(looks), 3)]


def check_same_rows(must: str, labels: Tensor, before: Tensor) -> None:
    """Looks are compared row by row, so rows must not change places between them."""
    if not torch.equal(labels, before):
        raise InputError(
            f"{must} in the same order after each epoch; got other labels than before. Do not shuffle the validation "
            "loader."
        )


@torch.no_grad()
def _predicted(model: nn.Module, loader: Iterable[Any]) -> tuple[Tensor, Tensor]:
    """Outputs and labels of all batches; the model is left in the mode that it was in."""
    before = {module: module.training for module in model.modules()}
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    model.eval()
    try:
        with torch.random.fork_rng([]):  # a DataLoader draws a number, even if it shuffles nothing
            parts = [(model(x.to(device)).float().cpu(), torch.as_tensor(y).cpu()) for x, y, *_ in loader]
    finally:
        for module, training in before.items():
            module.training = training
    if not parts:
        raise InputError("the loader of held-out rows must have a batch; got none.")
    outputs, labels = zip(*parts, strict=True)
    return torch.cat(outputs), torch.cat(labels)
