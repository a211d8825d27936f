"""What an epoch of the training pass shows, in a few numbers: the gap of the losses, and who contradicts the labels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from selc.core.mixture import fit_mixture, normalise

TRIM = 0.01  # of the losses at either end that the mixture does not see: a few huge ones would decide everything
HARD = 0.04  # of the dispute among all: the surest are contradicted so seldom where samples are hard, not labels wrong
ENOUGH = 5  # samples: if so many are expected and next to none is there, it is not by chance
FICKLE = 0.1  # of lasting contradictions: so many changes of mind, and a network is still learning


class Window(NamedTuple):
    """What the training pass showed over the time of one epoch."""

    clock: float  # the middle of that time, in epochs
    gap: float  # distance of the two groups of losses, in nats
    dispute: float  # share of samples whose prediction differed from the given label
    dispute_half: float  # the same among the more confident half of the predictions
    dispute_fifth: float  # and among the most confident fifth
    samples: float = math.inf
    lasting: float = 0.0  # labels that the more confident half contradicted, as it did an epoch before
    fickle: float = 0.0  # share of these that were contradicted by another class then, see `changed_mind`

    @property
    def purity(self) -> float:
        """How often the surer predictions contradict a label, in units of how often all do.

        It rises while a network learns: ever more of what is in dispute are wrong labels, and they fall on sure
        predictions as on others. It falls when labels are memorised, because the surest are memorised first.
        """
        return (self.dispute_half + self.dispute_fifth) / max(2 * self.dispute, 1e-9)

    @property
    def error(self) -> float:
        """The standard error of the purity."""
        spread = self.dispute_half * (1 - self.dispute_half) * 2 + self.dispute_fifth * (1 - self.dispute_fifth) * 5
        return math.sqrt(spread / self.samples) / max(2 * self.dispute, 1e-9)

    @property
    def steady(self) -> bool:
        """Whether the network knows its mind: what it contradicts again, it contradicts by the same class.

        A label that is contradicted by one class and then by another was contradicted wrongly at least once.
        Memorisation cannot be taken for that, as it ends a contradiction. A handful of changes says nothing.
        """
        return self.fickle * self.lasting < max(ENOUGH, FICKLE * self.lasting)

    def hard(self) -> bool:
        """Whether it is hard samples that are in dispute: the surest are contradicted far less often than all.

        Of the surest of very few samples, none may be contradicted by chance: five would have to be expected.
        """
        return self.dispute_fifth < HARD * self.dispute and self.dispute * self.samples / 5 >= ENOUGH


def gap(losses: Tensor) -> float:
    """M1 in the unit of the losses (nats), on all but the smallest and largest of them.

    The paper scales each epoch to [0, 1] anew; as the range of the losses changes from epoch to epoch, so does the
    unit, and the maximum is often an artefact of an epoch with few large losses. In nats epochs can be compared.
    """
    ordered = losses.flatten().sort().values
    cut = int(TRIM * (len(ordered) - 1))
    kept = ordered[cut : len(ordered) - cut]
    scale = float(kept[-1] - kept[0])
    mixture = fit_mixture(normalise(kept), bins=512, steps=200, tolerance=1e-6)
    return scale * (mixture.mean[1] - mixture.mean[0])


def changed_mind(predictions: Tensor, before: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Of each label [N] that was contradicted ``before`` and is again: 1 by another class, 0 by the same; else -1.

    Of two classes there is no other: there 1 is a contradiction that is new, which can be an error of before or of now.
    """
    lasting = (predictions != labels) & (before >= 0)
    if num_classes > 2:
        lasting &= before != labels
    return torch.where(lasting, (predictions != before).to(torch.int8), -1)


def changes_of_mind(changed: Tensor, surest: Tensor) -> tuple[int, int]:
    """How many of the surer half changed their mind, and of how many; ``surest`` are all rows by confidence."""
    surer = changed[surest[: len(surest) // 2]]
    return int((surer == 1).sum()), int((surer >= 0).sum())


def look(losses: Tensor, agrees: Tensor, confidences: Tensor, epoch: int, changed: Tensor | None = None) -> Window:
    """The window of a whole epoch: a part of one holds samples that were seen a shorter or longer time ago.

    ``changed`` is what `changed_mind` says of this epoch and the one before, if there was one.
    """
    order = confidences.argsort(descending=True, stable=True)
    surest = (~agrees)[order].double()
    every, half, fifth = (float(surest[: max(1, int(part * len(surest)))].mean()) for part in (1.0, 0.5, 0.2))
    window = Window(epoch + 0.5, gap(losses), every, half, fifth, len(surest))
    if changed is None:
        return window
    changes, lasting = changes_of_mind(changed, order)
    return window._replace(lasting=lasting, fickle=changes / max(lasting, 1))
