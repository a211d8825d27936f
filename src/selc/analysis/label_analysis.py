"""Which labels are wrong, and which are changed: one pure function of what a training recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selc.analysis.findings import KEEP, RELABEL, REVIEW, Column, Findings
from selc.analysis.lapse import TINY
from selc.analysis.noise_rate import Noise, NoiseRate, explain
from selc.errors import ConfigError
from selc.memory.store import Store
from selc.turning.decision import BEYOND, Decision, Reason, better_than_chance
from selc.turning.evidence import TOGETHER, Evidence
from selc.turning.point import TurningPoint
from selc.types import Outcome, Pass


class Why(StrEnum):
    """Why no label was changed."""

    NOT_LEARNT = "not learnt"  # the network predicts labels no better than by chance
    CLEAN = "clean"  # there is no room for wrong labels beside hard rows
    CANNOT_TELL = "cannot tell"  # there may be wrong labels, but they cannot be told from hard rows
    NOT_SURE = "not sure"  # no single change is likelier right than wrong
    TOO_FEW = "too few"  # nothing could be held out
    METHOD = "method"  # the method ended up with the given labels
    NOT_HELD_OUT = "not held out"  # every row was trained on: there was nothing to judge by


@dataclass(frozen=True)
class LabelAnalysis:
    """What a training concludes about its labels. Everything else reads it.

    Attributes
    ----------
    findings : Findings
        For each label its quality, a suggestion with its confidence, and what to do; see ``issues`` and ``frame``.
    corrected : Tensor of int, shape [N]
        The labels to go on with.
    noise_rate : NoiseRate or None
        The share of wrong labels, ``likely``, ``low`` and ``high``, and ``estimate``, which is None where wrong labels
        cannot be told from hard samples. None if nothing was held out that it could be told from.
    transition_matrix : Tensor, shape [C, C]
        P(given = column | true = row); rows sum to one.
    decision : Decision or None
        When correction started, and why; None if that was not decided by held-out rows.
    why_unchanged : Why or None
        Why no label was changed; None if some were.

    Examples
    --------
    >>> import numpy as np
    >>> import selc
    >>> pred_probs = np.array([[0.9, 0.1]] * 20 + [[0.1, 0.9]] * 20)
    >>> labels = np.array([0] * 19 + [1] + [1] * 20)
    >>> analysis = selc.analyse_probabilities(pred_probs, labels)
    >>> issues = analysis.issues(classes=["cat", "dog"])
    >>> worst = issues["label_quality"].argmin()
    >>> int(worst), str(issues["given_label"][worst]), str(issues["suggested_label"][worst])
    (19, 'dog', 'cat')
    """

    findings: Findings
    corrected: Tensor  # [N] labels to go on with
    noise_rate: NoiseRate | None  # None: nothing was held out that it could be told from
    transition_matrix: Tensor  # [C, C] P(given = column | true = row); rows sum to one
    decision: Decision | None  # when SELC started, and why; None: it was not decided by evidence
    why_unchanged: Why | None  # None: some labels were changed

    def issues(self, ids: Column | None = None, classes: Column | None = None) -> dict[str, Any]:
        """One row per sample as columns [N]: quality of the label, suggestion, what to do.

        Parameters
        ----------
        ids : sequence, shape [N], optional
            Names of the samples; their row numbers by default.
        classes : sequence, shape [C], optional
            Names of the classes; their numbers by default.
        """
        N, C = len(self.corrected), len(self.transition_matrix)
        return self.findings.columns(range(N) if ids is None else ids, range(C) if classes is None else classes)

    def frame(self, ids: Column | None = None, classes: Column | None = None) -> Any:
        """The same as a pandas DataFrame, the worst labels first."""
        try:
            import pandas
        except ImportError:
            raise ConfigError(
                "a frame needs pandas; got no such package. Install it (pip install pandas), or take issues()."
            ) from None
        return pandas.DataFrame(self.issues(ids, classes)).sort_values("label_quality", kind="stable")

    # What follows is made elsewhere and looked up by name: an analysis knows no page and no other library.

    def report(self, path: Path | str, items: Any = None, **options: Any) -> Path:
        """Write a report as one page of HTML that needs nothing else.

        Parameters
        ----------
        path : Path or str
            The file to write.
        items : optional
            The samples in the order of the labels, to be shown: an array of images or of rows, a list of paths, texts
            or images of Pillow, a dataset (of pairs the first part is shown), a DataFrame.
        **options
            ``ids`` [N] and ``classes`` [C], names in the place of numbers; ``samples``, how many are shown (60).

        Returns
        -------
        Path
            The file.
        """
        written: Path = import_module("selc.review.of_labels").write_report_on(self, path, items, **options)
        return written

    def review(self, path: Path | str, items: Any = None, **options: Any) -> Path:
        """Write a page on which a person decides about labels; `decided` reads what it saves.

        The parameters are those of `report`, but ``top`` (500) says how many samples there are.
        """
        written: Path = import_module("selc.review.of_labels").write_review_of(self, path, items, **options)
        return written

    def decided(self, path: Path | str, **names: Any) -> Any:
        """What was decided on the review page: ``labels`` [N], and whether each was ``verified`` or ``dropped``.

        ``names`` are the ``ids`` and ``classes`` that the page was written with.
        """
        return import_module("selc.runs.decided").decided_labels(self, path, **names)

    def to_cleanlab(self, pred_probs: Any = None, *, classes: Column | None = None) -> Any:
        """What cleanlab's functions and Datalab take: see `selc.integrations.cleanlab.to_cleanlab`."""
        return import_module("selc.integrations.cleanlab").to_cleanlab(self, pred_probs, classes=classes)

    def as_dict(self) -> dict[str, Any]:
        """What is not a table, for a file."""
        rate = self.noise_rate
        return {
            "decision": None if self.decision is None else self.decision.as_dict(),
            "noise_rate": None if rate is None else {"estimate": rate.estimate, **rate._asdict()},
            "transition_matrix": self.transition_matrix.tolist(),
            "why_unchanged": None if self.why_unchanged is None else str(self.why_unchanged),
        }

    @classmethod
    def of_saved(cls, saved: Mapping[str, Any], findings: Findings, corrected: Tensor) -> LabelAnalysis:
        """What `as_dict` and `tensors` were made of; ``saved`` may hold more than is looked at."""
        rate, decision, why = (saved[name] for name in ("noise_rate", "decision", "why_unchanged"))
        return cls(
            findings,
            corrected,
            None if rate is None else NoiseRate(*(float(rate[name]) for name in NoiseRate._fields)),
            torch.tensor(saved["transition_matrix"], dtype=torch.float64),
            None if decision is None else Decision.from_dict(decision),
            None if why is None else Why(why),
        )

    def tensors(self) -> dict[str, Tensor]:
        """The tables, [N] each, for a file."""
        found = self.findings
        return {
            "corrected": self.corrected,
            "predicted": found.predicted,
            "suggested": found.suggested,
            "confidence": found.confidence,
            "quality": found.quality,
            "action": found.action,
        }


def analyse(outcome: Outcome, given: Tensor, num_classes: int, settled: Tensor | None = None) -> LabelAnalysis:
    """What to make of each label [N]. What a person has ``settled`` [N] is left as it is, and is no evidence."""
    given = given.cpu()
    found = TurningPoint.of(outcome.decided)
    if found is None or found.evidence is None:
        return _by_belief(outcome, found, given, num_classes, settled)
    return by_evidence(
        *(found.evidence, found.decision, _pass_of(outcome), given),
        believed=outcome.target.top()[1].cpu(),
        last=_predicted(outcome),
        target=outcome.target,
        settled=settled,
    )


def by_evidence(
    evidence: Evidence,
    decision: Decision,
    seen: Pass | None,
    given: Tensor,
    *,
    believed: Tensor,
    last: Tensor,
    target: Store | None = None,
    settled: Tensor | None = None,
    slack: float = 0.0,
) -> LabelAnalysis:
    """What follows for each label [N] from what was predicted of held-out rows, and in the training pass.

    ``believed`` [N] is what a second witness says who saw the labels, ``last`` [N] what the network predicts at the
    end, and ``target`` the belief as probabilities, of a method that has such. ``slack`` is that of `explain`.
    """
    judged = judgements(evidence, decision, seen, given)
    noise = judged.noise(evidence.num_classes, slack)
    reason = decision.reason
    learnt, harmful = reason in (Reason.FALL, Reason.NO_FALL), reason is Reason.FALL
    # A floor of contradictions is of wrong labels, or of rows that are hard in a way that the network does not know of.
    # It is of wrong labels if learning them by heart was seen to spoil the prediction of other rows, or if the network
    # is not surer than it is right. Else either is as likely as the other, and there may be no wrong label at all.
    trusted = learnt and (harmful or not noise.overconfident)
    rate = noise.rate if trusted else noise.rate._replace(low=0.0)
    predicted, confidence = judged.predicted, judged.confidence
    free = torch.ones_like(judged.known) if settled is None else ~settled
    # A label is changed where a network that never saw it names another class, and where that is more often right than
    # wrong: with as many wrong labels as are likely if these do harm, else with the fewest. Of a row that was never
    # held out, the network of the same epochs did see the label: there the second witness must name the class, too.
    witnessed = judged.held_out | (believed == predicted)
    then_right, then_kept = noise.odds(confidence, rate.likely if harmful else rate.low)
    changed = (predicted != given) & judged.known & witnessed & (then_right > then_kept) & free & trusted
    both = None if target is None else both_witnesses(judged, evidence, decision, target, given, rate)
    if both is not None:
        sure, named = both.max(dim=1)
        doubted = (named != given) & judged.known
        changed = doubted & free
        predicted, confidence = (torch.where(doubted, *pair) for pair in ((named, predicted), (sure, confidence)))
    contradicted = (predicted != given) & judged.known
    right = noise.right(confidence) if trusted else noise.right(confidence) / 2
    worst = torch.zeros_like(contradicted)
    worst[judged.quality.argsort(stable=True)[: round((rate.likely + rate.high) / 2 * len(given))]] = True
    review = contradicted & worst & free
    action = torch.where(changed, RELABEL, torch.where(review, REVIEW, KEEP))
    corrected = torch.where(changed, predicted, given)
    suggested = torch.where(contradicted & free, predicted, given)
    of_suggestion = torch.where(contradicted & free, right, noise.agreed(confidence))
    quality = judged.quality if settled is None else judged.quality.masked_fill(settled, 1.0)
    findings = Findings(given, last, suggested, of_suggestion.clamp(0, 1), quality, action)
    matrix = transitions(given, predicted, torch.where(contradicted, right, 0.0), evidence.num_classes)
    why = _why(rate, learnt, trusted, len(given)) if not bool(changed.any()) else None
    return LabelAnalysis(findings, corrected, rate if learnt else None, matrix, decision, why)


class Judgements(NamedTuple):
    """What is known of each row before it is decided on, [N]; the last four are of rows that were held out, [M]."""

    predicted: Tensor
    confidence: Tensor
    quality: Tensor
    known: Tensor  # whether its label may be judged at all
    held_out: Tensor  # whether a network judged it that never saw it
    held_predicted: Tensor
    held_contradicted: Tensor
    held_confidence: Tensor
    held_probabilities: Tensor  # [M, C]

    def noise(self, num_classes: int, slack: float = 0.0) -> Noise:
        """How many labels are wrong, by the rows that were held out; ``slack`` is that of `explain`."""
        return explain(self.held_contradicted, self.held_confidence, num_classes, slack)


def judgements(evidence: Evidence, decision: Decision, seen: Pass | None, given: Tensor) -> Judgements:
    """Put together what held-out looks and the training pass say.

    Predictions are those from the start to the best look. Where a row was held out, the prediction is that of the
    network that never saw it. Elsewhere it is that of the training pass in the same epochs, brought to the scale of
    held-out rows by its place among the others, so that no kind of row crowds the list. A label's quality is the mean
    probability that it had, half of it in the network that never saw the row and half in those that were trained on it,
    up to the last look before learning labels by heart was seen to do harm; to the end, where none was seen.
    """
    near = TOGETHER // 2  # a point of the curve is a mean over its neighbours, so these belong to it
    looks = range(max(decision.first - near, 0), min(evidence.look_at(decision.best) + near + 1, evidence.looks))
    seen_out = (evidence.predictions, evidence.confidences, evidence.given)
    probabilities = mean_probabilities(*seen_out, evidence.labels, looks, evidence.num_classes)
    sure, held = named_blindly(evidence.predictions, evidence.confidences, looks, evidence.num_classes)
    end = min(decision.last + near + 1, evidence.looks) if decision.reason is Reason.FALL else evidence.looks
    held_quality = evidence.given[:end].double().mean(dim=0)
    contradicted = held != evidence.labels
    N = len(given)
    out = torch.zeros(N, dtype=torch.bool)
    if evidence.rows is not None:
        out[evidence.rows] = True
    predicted, confidence = given.clone(), torch.zeros(N, dtype=torch.float64)
    passed = torch.full((N,), torch.nan, dtype=torch.float64)  # quality by the networks that were trained on the row
    known, others = out.clone(), torch.zeros_like(out)
    if seen is not None:
        first, best, last = (
            math.ceil(clock) for clock in (evidence.clock(decision.first), decision.best, evidence.clock(decision.last))
        )
        epochs = slice(min(first, len(seen.losses) - 1), min(max(best, first + 1), len(seen.losses)))
        trained = (seen.predictions[epochs] >= 0).all(dim=0)
        passed[trained] = seen.losses[: max(last, 1), trained].double().neg().exp().nanmean(dim=0)
        others = trained & ~out
        if bool(others.any()):
            share, named = named_blindly(
                seen.predictions[epochs, others],
                seen.confidences[epochs, others],
                range(epochs.stop - epochs.start),
                evidence.num_classes,
            )
            predicted[others], known[others] = named, True
            confidence[others] = like(share, sure)
            passed[others] = like(passed[others], held_quality)
    quality = passed.nan_to_num(1.0)
    if evidence.rows is not None:
        predicted[evidence.rows], confidence[evidence.rows] = held, sure
        if evidence.learnt is not None:
            passed[evidence.rows] = evidence.learnt[: math.ceil(evidence.clock(end - 1))].double().nanmean(dim=0)
        by_trained = passed[evidence.rows]
        quality[evidence.rows] = torch.where(by_trained.isnan(), held_quality, (held_quality + by_trained) / 2)
        if bool(others.any()) and not bool(by_trained.isnan().all()):
            quality[out] = like(quality[out], quality[others])
    known &= evidence.classes[given] & evidence.classes[predicted]
    return Judgements(predicted, confidence, quality, known, out, held, contradicted, sure, probabilities)


def both_witnesses(
    judged: Judgements, evidence: Evidence, decision: Decision, target: Store, given: Tensor, rate: NoiseRate
) -> Tensor | None:
    """The mean of what networks say that never saw a row and of its target, [N, C]; None where that is not to be
    believed. Rows that were never held out have their given label.

    SELC that was trained against harm that was seen, on all rows, is a second witness of each label. If both together
    contradict no more labels than may be wrong, but for chance, hard rows have no room among them.
    """
    if decision.reason is not Reason.FALL or evidence.splits < 2 or evidence.rows is None:
        return None
    targets = target.full().cpu().double()
    if bool((targets.argmax(dim=1) == given).all()):
        return None
    both = torch.nn.functional.one_hot(given, evidence.num_classes).double()
    both[evidence.rows] = (judged.held_probabilities + targets[evidence.rows]) / 2
    both[evidence.rows[:, None], (~evidence.classes).nonzero().T] = 0.0
    share = float(((both.argmax(dim=1) != given) & judged.known).double().mean())
    by_chance = BEYOND * math.sqrt(share * (1 - share) / len(given))
    return both if share - by_chance <= rate.high else None


def named_blindly(predictions: Tensor, confidences: Tensor, looks: range, num_classes: int) -> tuple[Tensor, Tensor]:
    """The confidence [M] and the class [M] that some looks name on average, of which only the predicted class is known.

    What else is known, the probability of the given label, would make a prediction surer where the label agrees with
    it; but the prediction is to be a witness of that label.
    """
    table = torch.zeros(predictions.shape[1], num_classes, dtype=torch.float64)
    for look in looks:
        sure = confidences[look].double()
        share = (1 - sure) / (num_classes - 1)
        table += share[:, None]
        table.scatter_add_(1, predictions[look].long()[:, None], (sure - share)[:, None])
    sure, named = (table / len(looks)).max(dim=1)
    return sure, named


def mean_probabilities(
    predictions: Tensor, confidences: Tensor, given: Tensor, labels: Tensor, looks: range, num_classes: int
) -> Tensor:
    """The mean over some looks, [M, C].

    Of each look the probabilities of the predicted class and of the given label are known; the others share the rest.
    """
    table = torch.zeros(len(labels), num_classes, dtype=torch.float64)
    for look in looks:
        said, sure, other = predictions[look].long(), confidences[look].double(), given[look].double()
        same = said == labels
        rest = (1 - sure - torch.where(same, 0.0, other)).clamp_min(0)
        share = rest / torch.where(same, num_classes - 1, max(num_classes - 2, 1))
        table += share[:, None]
        table.scatter_add_(1, said[:, None], (sure - share)[:, None])
        table.scatter_add_(1, labels[:, None], torch.where(same, 0.0, other - share)[:, None])
    return table / len(looks)


def like(values: Tensor, others: Tensor) -> Tensor:
    """The values, moved to the distribution of ``others``: the smallest becomes the smallest, the median the median."""
    if len(values) == 0 or len(others) == 0:
        return values
    place = values.argsort(stable=True).argsort(stable=True).double()
    at = (place + 1 / 2) / len(values) * len(others) - 1 / 2
    ordered = others.sort().values
    low = at.floor().long().clamp(0, len(others) - 1)
    high = (low + 1).clamp_max(len(others) - 1)
    return torch.lerp(ordered[low], ordered[high], (at - low).clamp(0, 1))


def transitions(given: Tensor, predicted: Tensor, changed: Tensor, num_classes: int) -> Tensor:
    """P(given = column | true = row), [C, C]; ``changed`` [N] is how likely the predicted class is the true one."""
    counts = torch.zeros(num_classes**2, dtype=torch.float64)
    counts.index_add_(0, predicted * num_classes + given, changed.double())
    counts.index_add_(0, given * num_classes + given, 1 - changed.double())
    counts = counts.view(num_classes, num_classes)
    sums = counts.sum(dim=1, keepdim=True)
    return torch.where(sums > 0, counts / sums.clamp_min(TINY), torch.eye(num_classes, dtype=torch.float64))


def _why(rate: NoiseRate, learnt: bool, trusted: bool, rows: int) -> Why:
    if not learnt:
        return Why.NOT_LEARNT
    if round(rate.likely * rows) == 0 and rate.estimate is not None:
        return Why.CLEAN
    return Why.NOT_SURE if trusted else Why.CANNOT_TELL


def _predicted(outcome: Outcome) -> Tensor:
    return outcome.probs.top()[1].cpu()


def _pass_of(outcome: Outcome) -> Pass | None:
    if outcome.recorded is not None:
        return outcome.recorded
    recorded = Pass(outcome.losses, outcome.predictions, outcome.confidences, outcome.beliefs)
    return recorded if len(outcome.losses) and bool((outcome.predictions >= 0).any()) else None


def _by_belief(
    outcome: Outcome, found: TurningPoint | None, given: Tensor, num_classes: int, settled: Tensor | None
) -> LabelAnalysis:
    """Without held-out rows: what the method believes is what it hands out, every change is for a person to look at,
    and nothing is said of how many are wrong. A network that has learnt nothing changes nothing."""
    predicted, believed = _predicted(outcome), outcome.corrected_labels.cpu()
    confidence = outcome.target.at(believed.to(outcome.target.device)).cpu()
    few = found is not None  # it could not be decided
    learnt = better_than_chance(predicted[None], given) and not few
    free = torch.ones(len(given), dtype=torch.bool) if settled is None else ~settled
    changed = (believed != given) & free & learnt
    quality = _quality_of_losses(_pass_of(outcome), outcome.target, given)
    quality = quality if settled is None else quality.masked_fill(settled, 1.0)
    action = torch.where(changed, REVIEW, KEEP)
    findings = Findings(given, predicted, believed, confidence.double(), quality, action)
    corrected = torch.where(changed, believed, given)
    matrix = transitions(given, corrected, changed.double(), num_classes)
    why = None if bool(changed.any()) else Why.TOO_FEW if few else Why.METHOD if learnt else Why.NOT_LEARNT
    return LabelAnalysis(findings, corrected, None, matrix, None if found is None else found.decision, why)


def _quality_of_losses(seen: Pass | None, target: Store, given: Tensor) -> Tensor:
    """The probability that a given label had on average over the training; by its target where none was recorded."""
    by_target = target.at(given.to(target.device)).cpu().double()
    if seen is None:
        return by_target.clamp(0, 1)
    there = ~torch.isnan(seen.losses)
    mean = torch.where(there, seen.losses, 0.0).double().sum(0) / there.sum(0).clamp_min(1)
    return torch.where(there.any(0), torch.exp(-mean), by_target).clamp(0, 1)
