"""A fresh network on what was found out about the labels: the second training of SELC and of SELC+."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from selc.analysis.label_analysis import both_witnesses, judgements
from selc.losses.cross_entropy import soft_cross_entropy
from selc.memory.store import Store
from selc.methods.base import Method, Train
from selc.methods.judge import Judged, without
from selc.methods.parts import mixup
from selc.turning.decision import AS_GOOD, Reason
from selc.turning.evidence import TOGETHER
from selc.types import Batch, EvalSet, Outcome, Step, TrainSet


class Retraining(Method):
    """Cross entropy on the targets of the data, which may be mixed; nothing is recorded of the labels once given."""

    parallel = True

    def __init__(self, *, concentration: float = 0.0) -> None:
        super().__init__()
        self.concentration = concentration

    def step(self, model: nn.Module, batch: Batch) -> Step:
        x, target = mixup(batch, self.concentration)
        return Step(soft_cross_entropy(model(x), target), None)


def by_both(first: Outcome, judged: Judged) -> Store | None:
    """What the networks that never saw a row and the targets of the first training say together, as targets; None where
    that is not to be believed (see `both_witnesses`)."""
    evidence, decision, data = judged.evidence, judged.decision, judged.data
    if evidence is None or evidence.rows is None or decision.reason is not Reason.FALL:
        return None  # before anything is fitted
    given = data.labels.hard.cpu()
    found = judgements(evidence, decision, None, given)
    rate = found.noise(data.num_classes).rate
    both = both_witnesses(found, evidence, decision, first.target, given, rate)
    if both is None:
        return None
    held = torch.zeros(len(given), dtype=torch.bool).index_fill_(0, evidence.rows, True)
    both = (both / both.sum(dim=1, keepdim=True)).float().to(first.target.device)
    targets = first.target.like()
    for index, rows in first.target.blocks():
        targets.write(index, torch.where(held[index.cpu(), None].to(rows.device), both[index], rows))
    return targets


def handed_on(first: Outcome, second: Outcome) -> Outcome:
    """The network of the second training; what is known of the labels is known by the first."""
    history = [*first.history, *second.history]
    return replace(first, model=second.model, probs=second.probs, history=history, stage=second.stage)


def retrained(data: TrainSet, judged: Judged, train: Train, concentration: float) -> Outcome:
    """A fresh network on ``data``, with mixup unless held-out rows are predicted worse with it than without.

    The published weight of mixup suits long trainings of large networks; a small one that needs most of its epochs to
    learn is held up by it. Where nothing is held out there is nothing to ask, and it is used.
    """
    plain, mixed = Retraining(), Retraining(concentration=concentration)
    if concentration == 0:
        return train(plain, data)
    if judged.looks is not None:  # they stay out to the end: one of the two is the result
        both = train(plain, data, looks=judged.looks), train(mixed, data, looks=judged.looks)
        gain = _hits(both[1], judged.looks) - _hits(both[0], judged.looks)
        return both[0] if _lost(gain) else both[1]
    if judged.parts:
        train.tell(f"Trying mixup: {2 * len(judged.parts)} trainings, each time without a part of the rows.")
    gains = []
    for number, part in enumerate(judged.parts, start=1):
        assert part.rows is not None
        rest, aside = without(data, part.rows), f"trial {number} of {len(judged.parts)} of mixup"
        hits = [_hits(train(method, rest, looks=part, aside=aside), part) for method in (plain, mixed)]
        gains.append(hits[1] - hits[0])
    return train(plain if gains and _lost(torch.cat(gains)) else mixed, data)


def _hits(outcome: Outcome, looks: EvalSet) -> Tensor:
    """How often each given label was predicted of late of a row that was not trained on, [M]."""
    assert outcome.looks is not None
    return (outcome.looks.predictions[-TOGETHER:] == looks.labels.cpu()).double().mean(dim=0)


def _lost(gain: Tensor) -> bool:
    """Whether a gain [M] is a loss, by more than the error with which a look is as good as another."""
    error = float(gain.var(correction=1) / len(gain)) ** 0.5 if len(gain) > 1 else 1.0
    return float(gain.mean()) < -AS_GOOD * error
