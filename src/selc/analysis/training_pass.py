"""What the training pass alone says of labels: which to look at first, and no more than that.

A network that is trained on a wrong label contradicts it until it knows it by heart. So the mean probability of a label
over the epochs before that ranks labels well, but nothing in these rows tells a wrong label from one that was hard to
learn, or from one that was learnt by heart early. No label is changed, and of how many are wrong there is a range only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from selc.analysis.findings import KEEP, REVIEW, Findings
from selc.analysis.label_analysis import LabelAnalysis, Why, mean_probabilities, transitions
from selc.analysis.noise_rate import NoiseRange, explain
from selc.losses.watcher import TOGETHER, first_minimum, waited
from selc.turning.decision import better_than_chance
from selc.types import Pass


def by_training_pass(seen: Pass, given: Tensor, num_classes: int) -> LabelAnalysis:
    """Rank labels [N] by what was recorded while they were trained on; rows that never were, are left alone."""
    known = seen.predictions[0] >= 0
    named, sure, end = before_memorising(seen, given, num_classes)
    quality = torch.where(known, seen.losses[:end].double().neg().exp().mean(dim=0), 1.0)
    contradicted = named != given
    named_then = seen.predictions[max(end - TOGETHER, 0) : end, known]
    learnt = better_than_chance(named_then, given[known])
    noise = explain(contradicted[known], sure[known], num_classes)
    likely, _, high = noise.rate
    worst = torch.zeros_like(known)
    worst[quality.argsort(stable=True)[: round((likely + high) / 2 * len(given))]] = True
    # Some wrong labels are known by heart already: the range reaches to all labels that were contradicted even once.
    high = max(high, float((named_then != given[known]).any(dim=0).double().mean()))
    right = noise.right(sure) / 2  # a label may be hard as well as wrong: the one is as likely as the other
    confidence = torch.where(contradicted, right, noise.agreed(sure)).clamp(0, 1)
    last = torch.where(known, seen.predictions[-1].long(), given)
    action = torch.where(contradicted & worst & learnt, REVIEW, KEEP)
    findings = Findings(given, last, named, confidence, quality, action)
    matrix = transitions(given, named, torch.where(contradicted, right, 0.0), num_classes)
    rate = NoiseRange(likely, 0.0, high) if learnt else None
    return LabelAnalysis(findings, given.clone(), rate, matrix, None, Why.NOT_HELD_OUT if learnt else Why.NOT_LEARNT)


def before_memorising(seen: Pass, given: Tensor, num_classes: int) -> tuple[Tensor, Tensor, int]:
    """The classes [N] that the network named in the epochs before its predictions changed least, their mean
    probability [N], and after how many epochs that was; rows that never came have their given label."""
    known = seen.predictions[0] >= 0
    end = calmest(seen.predictions[:, known])
    window = slice(max(end - TOGETHER, 0), end)
    named, sure = given.clone(), torch.ones(len(given), dtype=torch.float64)
    sure[known], named[known] = mean_probabilities(
        seen.predictions[window, known],
        seen.confidences[window, known],
        seen.losses[window, known].neg().exp(),
        given[known],
        range(end - window.start),
        num_classes,
    ).max(dim=1)
    return named, sure, end


def calmest(predictions: Tensor) -> int:
    """After how many epochs predictions [E, N] changed least; all of them, where they never changed more again."""
    changed = (predictions[1:] != predictions[:-1]).double().mean(dim=1)
    turn = first_minimum(changed.tolist(), waited(len(predictions)))
    return len(predictions) if turn is None else int(turn.peak)
