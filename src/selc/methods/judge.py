"""Gather evidence on rows that are not trained on, and decide by it: for SELC, and for whoever must know the noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from selc.analysis.label_analysis import judgements
from selc.callbacks import Callback, EpochRecord
from selc.errors import ConfigError
from selc.methods.base import Train
from selc.methods.ce import CE
from selc.turning.decision import Decision, decide
from selc.turning.evidence import Evidence
from selc.turning.splits import deal_parts, fingerprints, joined
from selc.types import EvalSet, Outcome, Pass, TrainSet

SPLITS = 5  # networks, each without another fifth of the rows: every row is judged by one that never saw it
ONE_IN = 33  # rows that are held out where there is one split only: a look is 3 % of an epoch's forward passes
LARGE = 20_000  # rows from which on there is one split only
AT_MOST = 60.0  # seconds that the splits may take
PATIENCE = 0.2  # of all epochs: so long CE goes on after the start; with what is done again it is 1.3 trainings
CURVE = 10  # looks that a training must have for its curve to be read: where there are fewer epochs, several in each
ENOUGH = 1_000  # held-out rows that are left where a part is made smaller, to look at it more often
BLOCK = 1024  # rows that are read at a time

Rate = float | Literal["auto"]  # a share of wrong labels; "auto": to be estimated


class Judged(NamedTuple):
    """What was found out before the training that counts."""

    evidence: Evidence | None  # None: there are too few rows to hold any out
    decision: Decision
    data: TrainSet  # what to train on: all rows, or all but those that stay out to the end
    watched: Outcome | None = None  # a CE training to go on from; None: begin with a fresh network
    looks: EvalSet | None = None  # the rows that stay out
    parts: Sequence[EvalSet] = ()  # where none stay out: those of each split, to try something on


def judge(data: TrainSet, train: Train) -> Judged:
    """Evidence by the user's validation set, else by splits if they are affordable, else by one part that stays out."""
    often = math.ceil(CURVE / train.epochs)
    if train.val is not None:
        train.tell("Deciding by your validation set when labels are corrected: nothing else is held out.")
        affordable = _count(data) // (ONE_IN * len(train.val.labels))
        return _watched(data, train, train.val, None, max(1, min(often, affordable)))
    seconds = train.forecast(data)
    several = _count(data) < LARGE and (SPLITS - 1) * seconds <= AT_MOST
    if not several:
        often = max(1, min(often, _count(data) // (ONE_IN * ENOUGH)))
    parts = _dealt(data, SPLITS if several else ONE_IN * often, train.seed)
    used = parts[parts >= 0].unique().tolist()  # of few groups not every part has one
    if len(used) < 2:
        return Judged(None, Decision.too_few(), data)
    if not several:
        held = (parts == used[-1]).nonzero().flatten()
        train.tell(
            f"Holding out {len(held):,} rows to the end, to see when wrong labels begin to be learnt by heart: about "
            f"{_time(1.3 * seconds)}."
        )
        rest = without(data, held)
        return _watched(rest, train, _shown(data, held), held, often)
    train.tell(
        f"Training {len(used)} times, each time without another part of the rows, to see when wrong labels begin to be "
        f"learnt by heart, then once on all of them: about {_time(len(used) * seconds)}."
    )
    shown, learnt = [], Learnt()
    for number, part in enumerate(used, start=1):
        held = (parts == part).nonzero().flatten()
        rest = without(data, held)
        aside = f"split {number} of {len(used)}"
        outcome = train(CE(), rest, looks=_shown(data, held), per_epoch=often, aside=aside)
        assert outcome.looks is not None
        shown.append((held, outcome.looks))
        learnt.add(outcome.losses)
    evidence = _evidence(data, shown, often, learnt.mean())
    return Judged(evidence, decide(evidence, train.epochs), data, parts=[_shown(data, held) for held, _ in shown])


def _watched(data: TrainSet, train: Train, looks: EvalSet, rows: Tensor | None, often: int) -> Judged:
    """One CE training with looks, until it is time to switch."""

    def evidence_of(passes: Pass) -> Evidence:
        return Evidence(looks.labels.cpu(), *_fields(passes), data.num_classes, 1, rows, often)

    switch = Switch(evidence_of, train.epochs)
    watched = train(CE(), data, looks=looks, per_epoch=often, callbacks=[switch], back=switch.back)
    assert watched.looks is not None
    evidence = evidence_of(watched.looks)
    return Judged(evidence, switch.decision(evidence), data, watched, looks)


class Switch(Callback):
    """Ends a CE training once the start of SELC is so long ago that going back farther would cost too much."""

    def __init__(self, evidence_of: Callable[[Pass], Evidence], epochs: int) -> None:
        self.evidence_of, self.epochs = evidence_of, epochs
        self.back = math.ceil(PATIENCE * epochs)  # epochs that can be stepped back

    def decision(self, evidence: Evidence) -> Decision:
        """What the looks so far say, but for a start that is too long ago."""
        done = evidence.looks / evidence.looks_per_epoch
        return decide(evidence, self.epochs, earliest=done - self.back)

    def on_epoch_end(self, record: EpochRecord) -> bool:
        assert record.looks is not None
        start = self.decision(self.evidence_of(record.looks)).start
        return start is not None and record.done - start >= self.back


class Learnt:
    """The probability of each given label in the training passes of networks, but for those that left it out."""

    def __init__(self) -> None:
        self.total = self.count = torch.zeros(())

    def add(self, losses: Tensor) -> None:
        """Losses [E, N] of one network; NaN where it was not trained on a row."""
        there = ~torch.isnan(losses)
        self.total = self.total + torch.where(there, (-losses).exp(), 0.0)
        self.count = self.count + there

    def mean(self) -> Tensor:
        """Over the networks, [E, N]."""
        return self.total / self.count


def _evidence(data: TrainSet, shown: list[tuple[Tensor, Pass]], often: int, learnt: Tensor) -> Evidence:
    """The rows of all splits side by side, in their order."""
    rows = torch.cat([held for held, _ in shown])
    order = rows.argsort()
    predictions, confidences, given = (
        torch.cat(parts, dim=1)[:, order] for parts in zip(*(_fields(looks) for _, looks in shown), strict=True)
    )
    rows = rows[order]
    known = (predictions, confidences, given)
    return Evidence(data.labels.hard.cpu()[rows], *known, data.num_classes, len(shown), rows, often, learnt[:, rows])


def _fields(passes: Pass) -> tuple[Tensor, Tensor, Tensor]:
    """Predictions, confidences, and the probability of the given label."""
    return passes.predictions, passes.confidences, (-passes.losses).exp()


def _dealt(data: TrainSet, count: int, seed: int) -> Tensor:
    """The part of each row; a person's verdicts are no evidence, as people look at the worst first."""
    among = torch.ones(len(data), dtype=torch.bool)
    if data.rows is not None:
        among = torch.zeros_like(among).index_fill_(0, data.rows.cpu(), True)
    if data.verified is not None:
        among &= ~data.verified.cpu()
    batches = list(torch.arange(len(data), device=data.labels.hard.device).split(BLOCK))
    alike = fingerprints(data.inputs.stream(batches, seed=None))
    groups = alike if data.groups is None else joined(data.groups, alike)
    return deal_parts(data.labels.hard, count, seed, among=among, groups=groups, time=data.time)


def _count(data: TrainSet) -> int:
    return len(data) if data.rows is None else len(data.rows)


def without(data: TrainSet, held: Tensor) -> TrainSet:
    """The data but for some rows."""
    left = torch.ones(len(data), dtype=torch.bool)
    if data.rows is not None:
        left = torch.zeros_like(left).index_fill_(0, data.rows.cpu(), True)
    left[held.cpu()] = False
    return replace(data, rows=left.nonzero().flatten().to(data.labels.hard.device))


def _shown(data: TrainSet, held: Tensor) -> EvalSet:
    rows = held.to(data.labels.hard.device)
    return EvalSet(data.inputs, data.labels.hard[rows], rows)


def _time(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds / 60:.0f} minutes"
    return "1 second" if seconds < 1.5 else f"{seconds:.0f} seconds"


def check_rate(rate: Rate, name: str) -> Rate:
    if rate == "auto" or (not isinstance(rate, str) and 0 <= rate < 1):
        return rate
    raise ConfigError(f"{name} must be in [0, 1) or 'auto'; got {rate!r}. It is the share of samples to leave out.")


def known_rate(rate: Rate, data: TrainSet, train: Train) -> float:
    """A given share of wrong labels, or an estimate of it by held-out rows; 0 where there are too few rows."""
    if not isinstance(rate, str):
        return rate
    judged = judge(data, train)
    if judged.evidence is None:
        return 0.0
    found = judgements(judged.evidence, judged.decision, None, data.labels.hard.cpu())
    return found.noise(data.num_classes).rate.likely
