"""How far a run can be relied on, what to beware of, and what would make its result more certain."""

from __future__ import annotations

import torch

from selc.analysis import Why
from selc.analysis.words import percent, points
from selc.report.classifier import of_classifier, what_would_help
from selc.report.next_commands import LOOK
from selc.report.reading import Snapshot
from selc.report.sentences import named, one_number
from selc.runs.older import version_of
from selc.turning import Reason
from selc.types import accuracies

MAJORITY = 0.5  # share of labels that may be wrong, from which on the wrong ones of a class may be its majority
FEW_OF_A_CLASS = 30  # samples of a class of which little can be learnt


def doubts(run: Snapshot) -> list[str]:
    """What must not be overlooked in the result, of a finished run."""
    said = _doubts(run)
    return of_classifier(said) if run.classifier else said


def _doubts(run: Snapshot) -> list[str]:
    if run.noise is None or run.noise["high"] < MAJORITY:
        return []
    return [
        f"Up to {percent(run.noise['high'])} of the labels may be wrong. If most labels of a class were wrong in the "
        "same way, the network has learnt them, and nothing in the data can show it: look at some samples of each "
        "class."
    ]


def reliability(run: Snapshot) -> list[str]:
    """How far the run can be relied on."""
    said = _reliability(run)
    return of_classifier(said) if run.classifier else said


def _reliability(run: Snapshot) -> list[str]:
    said = []
    if not run.finished:
        said.append(
            "The run is not finished: early in a training a network also contradicts labels that it has not learnt "
            "yet, so the lists on this page are too long rather than too short."
        )
    elif run.of_older:
        said.append(
            f"The run was made by selc {version_of(run.path)}, which judged labels by samples that it was trained on. "
            "What it found is shown as it was; how many labels are wrong is not said any more. Train again to know it."
        )
    elif run.noise is not None:
        said += _reliance_on_estimates(run)
    elif run.why is Why.NOT_LEARNT:
        said.append(
            "Not at all: the network contradicts labels because it has not learnt them yet. The figures and lists on "
            "this page show that, and not which labels are wrong."
        )
    elif run.why is Why.TOO_FEW:
        said.append("Nothing could be held out, so nothing is said about which labels are wrong.")
    else:
        said += _reliance_on_belief(run)
    said += doubts(run)
    if run.noise is None:
        said.append(
            "Confidence and label quality come from samples that the network was trained on: they put the samples in a "
            "useful order, but they are no probabilities for new data."
        )
    if run.true is None:
        said.append("No true labels are known, so nothing on this page has been checked against the truth.")
    return said


def _reliance_on_estimates(run: Snapshot) -> list[str]:
    """Of a run that judged by held-out samples."""
    decision = run.decision()
    assert run.noise is not None
    low, high = percent(run.noise["low"]), percent(run.noise["high"])
    said = [
        "The share of wrong labels is read off held-out labels, which were predicted by networks that were not trained "
        "on them: those that are contradicted even by the surest predictions are wrong and not merely hard. Any share "
        f"from {low} to {high} explains them within chance"
        + ("." if one_number(run) else ", which is too much for one number to be named.")
    ]
    if run.summary["changed"]:
        said.append(
            "A label was replaced only where a network that was not trained on the sample names another class, and "
            f"where that is likelier right than wrong even if no more than {low} of the labels are wrong. Changes of "
            "which less is known were not made, and are left for review."
        )
        said += _not_held_out(run)
    if decision is not None and decision.reason is Reason.NO_FALL and not decision.can_see:
        which = f"A fall of less than {points(decision.visible)}" if decision.visible < 1 else "A fall"
        said.append(f"{which} would not have been seen, so it is open whether wrong labels are learnt by heart.")
    said.append("The confidence of a suggestion is how likely it is right, by the same held-out labels.")
    return said


def _not_held_out(run: Snapshot) -> list[str]:
    """What is known less well, of a run that held only a part of the samples out."""
    evidence = run.evidence()
    held = torch.zeros(len(run.given), dtype=torch.bool)
    if evidence is not None and evidence.rows is not None:
        held[evidence.rows] = True
    count = int((~held).sum())
    if not count:
        return []
    if run.classifier:
        return [f"{count:,} of the {len(held):,} samples were never held out, and their labels are left as they are."]
    return [
        f"{count:,} of the {len(held):,} samples were never held out. They are judged by the predictions of the same "
        "epochs, in which wrong labels were not yet learnt by heart, and the run itself must believe in the new label, "
        "too."
    ]


def _reliance_on_belief(run: Snapshot) -> list[str]:
    """Of a run that held nothing out."""
    said = [
        "There is no estimate of the share of wrong labels, so label_issues.csv calls everything that the method "
        "contradicts an issue, whether the label is wrong or the sample hard."
    ]
    if run.summary["changed"]:
        said.append(
            "The method has no estimate of how many of its changes are right either, so none of them is to be taken "
            "over unseen: corrected_labels.csv holds what it believes. Look at them first (selc review), or train with "
            "the method selc."
        )
    return said


def helpful(run: Snapshot) -> list[str]:
    """What would make the result more certain."""
    said = [*_better_training(run)]
    if run.timeline and not accuracies(run.timeline[-1]):
        said.append("A test set with labels that were checked, 200 samples or more (--test).")
    counts = torch.bincount(run.given, minlength=len(run.classes))
    few = [name for name, count in zip(run.classes, counts.tolist(), strict=True) if count < FEW_OF_A_CLASS]
    if few:
        names = ", ".join(f"“{named(name)}”" for name in few[:5]) + (
            f" and {len(few) - 5:,} more" if len(few) > 5 else ""
        )
        said.append(f"More samples of the classes with fewer than {FEW_OF_A_CLASS}: {names}.")
    if not run.finished:
        said.append("To wait until the run is finished, and to write this report again.")
    elif sum(run.summary["actions"][action] for action in ("relabel", "review")):
        doubtful = "relabel" if run.summary["actions"]["relabel"] else "review"
        count = run.summary["actions"][doubtful]
        said.append(
            f"A look at the {count:,} samples to {doubtful} in label_issues.csv (selc review): then you know which of "
            "the suggestions are right."
            if count <= LOOK
            else f"Half an hour of your time: after a look at {LOOK} samples drawn at random from those to {doubtful} "
            "in label_issues.csv, you know the share of right suggestions to within ten points."
        )
    return said


def _better_training(run: Snapshot) -> list[str]:
    """Another training that would tell more."""
    plan, decision = run.config.train, run.decision()
    if not run.finished:
        return []
    if run.classifier:
        return what_would_help(run)
    if run.why is Why.NOT_LEARNT:
        return [
            f"A longer training (it had {plan.epochs:,} epochs) or a larger learning rate (it was {plan.lr:g}); if "
            "that does not help, a network that suits the data better."
        ]
    if decision is None:
        return [
            "A run with the method selc that decides by itself when to start: it estimates how many labels are wrong."
        ]
    said = []
    if decision.best >= plan.epochs:
        said.append(
            f"A longer training (it had {plan.epochs:,} epochs) or a larger learning rate (it was {plan.lr:g}): the "
            "network was still learning at the end."
        )
    if run.noise is not None and not one_number(run):
        said.append(
            "A network that suits the data better, for images a pretrained one (selc embed): the fewer samples are "
            "hard for it, the narrower the range of the share of wrong labels."
        )
    return said
