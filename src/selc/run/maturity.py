"""Whether a network has learnt enough to judge labels, by what its training pass shows; the truth is not asked."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from selc.core.judgement import contested
from selc.core.turning import Turn
from selc.core.window import ENOUGH, changed_mind, changes_of_mind
from selc.types import Outcome, Pass

UNSURE = 0.05  # of contradictions that lasted to the end: so many changes of mind, and labels are not changed
ADVICE = "Train longer (epochs), with a larger learning rate (lr), or on features of a trained network (selc embed)."
OR_ELSE = "If that does not help, most labels may be wrong, which nothing in the data can show."


def unlearnt(seen: Pass, given: Tensor, num_classes: int, turn: Turn | None) -> str | None:
    """Why the network cannot judge the given labels [N], in a sentence; None if it can.

    It is asked for the epoch after the turning point, by which the estimates are made, else for the last one. The
    first sign is that predictions have nothing to do with the labels: then each class is predicted as often where it
    is the label as elsewhere, and the mean recall of the classes is 1 / C, within two standard errors. The second is
    that even the more confident half of the predictions contradicts most labels, while no label prevails among the
    samples of a pattern: wrong labels that are in the majority, and a network that is not there yet, look the same.
    """
    last = _last_recorded(seen)
    if last is None:
        return None  # the method shows nothing of it
    epoch = last if turn is None else turn.judged(last + 1)
    there = seen.predictions[epoch] >= 0
    predicted, label = seen.predictions[epoch][there].long(), given[there]
    if not bool(there.any()):
        return None
    agreement = float((predicted == label).double().mean())
    recall, error = _mean_recall(predicted, label, num_classes)
    start = f"The network has not learnt enough to judge labels: in training it predicted {agreement:.0%} of them"
    if recall - 1 / num_classes <= 2 * error:
        return f"{start}, which is no better than chance. {ADVICE}"
    surest = seen.confidences[epoch][there].argsort(descending=True, stable=True)[: max(1, len(label) // 2)]
    disputed = float((predicted != label)[surest].double().mean())
    classes = contested(predicted, label, num_classes)
    undecided = float((classes[predicted] | classes[label]).double().mean())
    if disputed > 0.5 and undecided > 0.5:
        return f"{start}, and even where it was surest it contradicted {disputed:.0%}. {ADVICE} {OR_ELSE}"
    return None


def fickle(seen: Pass, given: Tensor, num_classes: int, turn: Turn) -> str | None:
    """Why the network must not change labels, in a sentence, though it can say which to look at first; None if it may.

    It changes its mind about what it contradicts, see `Window.steady`, between the epoch that labels are judged by and
    the last one.
    """
    last = _last_recorded(seen)
    if last is None or turn.start is None:  # no correction: it took in the labels
        return None
    epoch = turn.judged(last + 1)
    there = (seen.predictions[epoch] >= 0) & (seen.predictions[last] >= 0)
    then, now = seen.predictions[epoch][there], seen.predictions[last][there]
    surest = seen.confidences[epoch][there].argsort(descending=True, stable=True)
    changes, lasting = changes_of_mind(changed_mind(now, then, given[there], num_classes), surest)
    if changes < max(ENOUGH, UNSURE * lasting):
        return None
    return (
        f"The network has not learnt enough to judge labels: in {changes / lasting:.0%} of the cases in which it was "
        "surer and contradicted a label to the end, it changed its mind about the right one. It can tell which labels "
        f"to look at first, but not how many are wrong. {ADVICE}"
    )


class Judged(NamedTuple):
    """An outcome, and whether its network can judge labels."""

    outcome: Outcome
    reason: str | None  # why it cannot; then all labels are as they were given
    ranks: bool  # whether it can tell which ones to look at first


def judging(outcome: Outcome, given: Tensor, num_classes: int) -> Judged:
    """The outcome; if its network cannot judge labels, with all of them as they were given, and the reason."""
    given = given.cpu()
    seen = outcome.recorded or _at_the_end(outcome)
    turn = outcome.turning_point if outcome.recorded else None
    nothing = unlearnt(seen, given, num_classes, turn)
    reason = nothing if nothing is not None or turn is None else fickle(seen, given, num_classes, turn)
    if reason is not None:
        outcome.given, outcome.trust = given, torch.zeros(len(given), dtype=torch.float64)
    return Judged(outcome, reason, nothing is None)


def _last_recorded(seen: Pass) -> int | None:
    """The last epoch with predictions; None: the method shows none."""
    epochs = (seen.predictions >= 0).any(dim=1).nonzero().flatten()
    return int(epochs[-1]) if len(epochs) else None


def _mean_recall(predicted: Tensor, label: Tensor, num_classes: int) -> tuple[float, float]:
    """The mean over the classes of the share that is predicted right, and its error if there were no connection."""
    sizes = torch.bincount(label, minlength=num_classes).double()
    right = torch.bincount(label[predicted == label], minlength=num_classes).double()
    guessed = torch.bincount(predicted, minlength=num_classes).double() / len(predicted)
    used = sizes > 0
    # A class without samples counts with what is expected of it without a connection.
    recall = torch.where(used, right / sizes.clamp_min(1), guessed)
    variance = torch.where(used, guessed * (1 - guessed) / sizes.clamp_min(1), 0.0)
    return float(recall.mean()), float(variance.sum().sqrt()) / num_classes


def _at_the_end(outcome: Outcome) -> Pass:
    """What the trained network says, for a method whose training pass shows nothing: its inputs are mixed."""
    confidence, predicted = (part.cpu() for part in outcome.probs.top())
    return Pass(outcome.losses[-1:], predicted[None], confidence[None], outcome.beliefs[-1:])
