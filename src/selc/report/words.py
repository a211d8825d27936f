"""What a report says in sentences: what happened, how far to trust it, what would help, and the score by the truth."""

from __future__ import annotations

import torch
from torch import Tensor

from selc.analysis.findings import Findings
from selc.report.reading import Snapshot
from selc.report.style import shortened
from selc.run.config import ARRAYS
from selc.run.estimates import warnings_of
from selc.run.unchanged import which_changes, why_unchanged
from selc.types import accuracies

WIDE = 0.15  # between the ends of an interval, from which on it says little
SAYS_NOTHING = 0.9  # the same, from which on it is not told
EARLY = 3.0  # epochs: an epoch is a coarse clock for a turning point before that
FEW = 30  # samples of a class of which little can be learnt
_LETTERS = 60  # of a name of the user's


def percent(share: float) -> str:
    """A share as a reader expects it: a digit more where whole per cent would say none or all."""
    near = 0 < share < 0.1 or 0.99 < share < 1
    return f"{share:.1%}" if near else f"{share:.0%}"


def what_happened(run: Snapshot) -> list[str]:
    """The run in five sentences; the first one says whether it is finished."""
    return _finished(run) if run.finished else _so_far(run)


def _finished(run: Snapshot) -> list[str]:
    found = run.verdicts
    assert found is not None
    samples, changed = len(run.given), int((run.corrected() != run.given).sum())
    epochs = len(run.timeline)
    first = (
        f"This run is finished: a network learnt from {samples:,} samples with labels of {len(run.classes):,} classes "
        f"for {epochs:,} epochs (method {_name(run.config.method.name)})."
    )
    return [first, _wrong_labels(run, found), _changes(run, changed), _accuracy(run), _to_do(run, found)]


def _wrong_labels(run: Snapshot, found: Findings) -> str:
    if run.unlearnt:
        return run.unlearnt
    if run.turn is None or run.noise is None:
        share = percent(float((found.suggested != found.given).double().mean()))
        return (
            f"This method does not estimate how many labels are wrong; at the end it believes in another label for "
            f"{share} of the samples."
        )
    estimate, low, high = run.noise
    if run.turn.start is None:
        return (
            "There is no sign of wrong labels beyond what hard samples explain "
            f"(estimated share of wrong labels {percent(estimate)}, at most {percent(high)})."
        )
    return (
        f"About {percent(estimate)} of the labels are probably wrong; the true share should lie between "
        f"{percent(low)} and {percent(high)}."
    )


def _changes(run: Snapshot, changed: int) -> str:
    if run.unlearnt:
        return "So no label was replaced, and nothing is said about how many are wrong."
    if not changed:
        told = run.turn is not None and run.turn.start is None  # the sentence before this one says why
        return "No label was replaced." if told else f"No label was replaced, because {why_unchanged(run.summary)}."
    what = f"{changed:,} labels ({percent(changed / len(run.given))}) were replaced in corrected_labels.csv"
    right = run.summary.get("corrections_right")
    if right is None:
        return f"{what}; how many of the new ones are right, this method cannot tell."
    if right["high"] - right["low"] > SAYS_NOTHING:
        return f"{what}; these are too few to tell how many of the new ones are right."
    return (
        f"{what}; about {percent(right['estimate'])} of the new ones are expected to be right, "
        f"at least {percent(right['low'])}."
    )


def _accuracy(run: Snapshot) -> str:
    measured = run.summary["accuracy"] if run.finished else accuracies(run.timeline[-1])
    if not measured:
        return "There was no test set, so how well the network does on new samples was not measured."
    parts = [f"{percent(value['top1'])} of the samples in “{_name(name)}”" for name, value in measured.items()]
    when = "after the epoch that was best on the validation set" if _picked(run) else "after the last epoch"
    return f"The network {when} predicts the label as given for {_and(parts)}, which it was not trained on."


def _picked(run: Snapshot) -> bool:
    return run.finished and run.summary["pick"] == "best-val"


def _to_do(run: Snapshot, found: Findings) -> str:
    keep, review, relabel = torch.bincount(found.action, minlength=3).tolist()
    listed = "they are marked in label_issues.csv"
    if run.unlearnt:
        again = "train again for longer or with a larger learning rate, and look at the report of that run"
        if not review:
            return f"What to do: {again}."
        return f"What to do: have a look at {review:,} samples, the worst first ({listed}); or {again}."
    if not review and not relabel:
        return "Nothing needs to be done about the labels."
    if run.turn is not None and run.turn.start is None:
        return f"Nothing needs to be done; whoever has the time looks at the {review:,} worst samples ({listed})."
    parts = []
    if relabel:
        parts.append(f"take over the suggested labels of {relabel:,} samples")
    if review:
        parts.append(f"have a look at {review:,}{' more' if relabel else ' samples'}, the worst first")
    said = f"What to do: {_and(parts)} ({listed}); {keep:,} labels can stay as they are."
    differ = which_changes(run.summary, int((run.corrected() != run.given).sum()), relabel)
    return f"{said} {differ[:1].upper() + differ[1:]}".rstrip() if differ else said


def _so_far(run: Snapshot) -> list[str]:
    plan, line = run.config.train, run.timeline
    samples = f"{len(run.given):,} samples with labels of {len(run.classes):,} classes"
    method = _name(run.config.method.name)
    if not line:
        done = "no epoch has been saved yet"
    else:
        last = line[-1]
        part = f" of stage {last['stage'] + 1}" if last["stage"] else ""
        done = f"epoch {last['epoch'] + 1:,} of {plan.epochs:,}{part} is the last one that was saved"
    first = f"This run is not finished: {done}, so what follows is what is known so far."
    second = f"A network is learning from {samples} (method {method})."
    if run.noise is not None and run.turn is not None and run.turn.start is not None:
        estimate, low, high = run.noise
        third = (
            f"The turning point has passed: about {percent(estimate)} of the labels are probably wrong "
            f"(between {percent(low)} and {percent(high)})."
        )
    elif run.turn is not None:
        third = "The turning point has passed, and there is no sign of wrong labels beyond what hard samples explain."
    else:
        third = "No turning point has been found yet, so it is too early to say how many labels are wrong."
    fourth = _accuracy(run) if line else "Nothing has been measured yet."
    again = f"selc resume {run.path}"
    if run.config.data.name == ARRAYS:
        again = "selc.fit with the same arguments and resume=True"
    fifth = f"No label has been replaced yet; if the run was interrupted, go on with {again}, and nothing is lost."
    return [first, second, third, fourth, fifth]


def turning_point(run: Snapshot) -> list[str]:
    """What the turning point was, or why there is none."""
    turn = run.turn
    if turn is None:
        if run.finished:
            return [f"The method {_name(run.config.method.name)} does not look for a turning point by itself."]
        return ["It has not been found yet, or the method does not look for it."]
    said = [
        f"The losses of the training samples lay farthest apart at epoch {turn.peak:.1f} ({turn.reason}). In epoch "
        f"{turn.best + 1}, {percent(turn.dispute)} of the labels were in dispute, {percent(turn.dispute_half)} among "
        f"the more confident half of the predictions and {percent(turn.dispute_fifth)} among the most confident fifth."
    ]
    if turn.start is None:
        said.append("Cross entropy went on, and no label was changed.")
    elif run.finished and not run.summary["changed"]:
        said.append(
            f"From epoch {turn.start:.1f} on the network learnt from targets in which its own predictions count too, "
            f"with a momentum alpha of {turn.alpha:.2f}; but at the end no label was replaced, because "
            f"{why_unchanged(run.summary)}."
        )
    else:
        said.append(f"Labels are corrected from epoch {turn.start:.1f} on, with a momentum alpha of {turn.alpha:.2f}.")
    undone = sum(bool(entry.get("undone")) for entry in run.history())
    if undone:
        said.append(f"To get there, {undone} epochs were stepped back over; they are not drawn.")
    return said


def doubts(run: Snapshot) -> list[str]:
    """What must not be overlooked in the result, of a finished run."""
    if not run.finished or run.turn is None or run.unlearnt:
        return []
    return list(warnings_of({"turning_point": run.turn._asdict()}))


def trust(run: Snapshot) -> list[str]:
    """How far to trust the run."""
    said = []
    if not run.finished:
        said.append(
            "The run is not finished: early in a training a network also contradicts labels that it has not learnt "
            "yet, so the lists on this page are too long rather than too short."
        )
    if run.noise is not None:
        _, low, high = run.noise
        width = "narrow" if high - low < WIDE else "wide"
        said.append(
            f"The interval for the share of wrong labels is {width} ({percent(low)} to {percent(high)}): its lower end "
            "is what the most confident predictions contradict, its upper end what all of them do, which counts "
            "samples that are merely hard."
        )
    elif run.unlearnt and run.summary.get("ranks"):
        said.append(
            "In the order of the samples, not in the suggestions: a label that the network has not learnt yet is "
            "contradicted like a wrong one. Wrong labels are frequent among those with the least label quality."
        )
    elif run.unlearnt:
        said.append(
            "Not at all: the network contradicts labels because it has not learnt them yet. The figures and lists on "
            "this page show that, and not which labels are wrong."
        )
    elif run.finished:
        said.append(
            "There is no estimate of the share of wrong labels, so label_issues.csv calls everything that the method "
            "contradicts an issue, whether the label is wrong or the sample hard."
        )
        if run.summary["changed"] and not run.summary.get("actions", {}).get("relabel"):
            said.append(
                "The method has no estimate of how many of its changes are right either, so none of them is to be "
                "taken over unseen: corrected_labels.csv holds what it believes. Look at them first (selc review), or "
                "train with the method selc."
            )
    right = run.summary.get("corrections_right") if run.finished else None
    if right and right["high"] - right["low"] <= SAYS_NOTHING:
        said.append(
            f"Of the labels that were replaced, at least {percent(right['low'])} are expected to be right; changes of "
            "which the run was less sure were not made, and are left for review."
        )
    if run.turn is not None and not run.unlearnt:
        said += warnings_of({"turning_point": run.turn._asdict()})
    said.append(
        "Confidence and label quality come from samples that the network was trained on: they put the samples in a "
        "useful order, but they are no probabilities for new data."
    )
    if run.true is None:
        said.append("No true labels are known, so nothing on this page has been checked against the truth.")
    return said


def helpful(run: Snapshot) -> list[str]:
    """What would make the result more certain."""
    said = []
    turn, plan = run.turn, run.config.train
    if run.unlearnt:
        said.append(
            f"A longer training (it had {plan.epochs:,} epochs) or a larger learning rate (it was {plan.lr:g}); if "
            "that does not help, a network that suits the data better."
        )
        turn = None
    elif turn is None and run.finished:
        said.append(
            "A run with the method selc: it looks for the turning point and estimates how many labels are wrong."
        )
    if turn is not None and turn.reason.startswith("nothing was memorised"):
        said.append(
            "A longer training or a higher learning rate: the network was still learning when correction began."
        )
    if turn is not None and turn.peak < EARLY and turn.start is not None:
        said.append(
            f"A lower learning rate (it was {run.config.train.lr:g}): the turning point came in the first epochs, and "
            "more time between learning and memorising tells wrong labels from hard samples more sharply."
        )
    if run.noise is not None and run.noise[2] - run.noise[1] >= WIDE:
        said.append(
            "A network that suits the data better, for images a pretrained one (selc embed): the fewer samples are "
            "hard for it, the narrower the interval."
        )
    line = run.timeline
    if line and not accuracies(line[-1]):
        said.append("A test set with labels that were checked, 200 samples or more (--test).")
    counts = torch.bincount(run.given, minlength=len(run.classes))
    few = [name for name, count in zip(run.classes, counts.tolist(), strict=True) if count < FEW]
    if few:
        named = ", ".join(f"“{_name(name)}”" for name in few[:5]) + (
            f" and {len(few) - 5:,} more" if len(few) > 5 else ""
        )
        said.append(f"More samples of the classes with fewer than {FEW}: {named}.")
    if run.finished and not run.unlearnt:
        doubtful = "relabel" if run.summary["changed"] else "review"
        said.append(
            f"Half an hour of your time: after a look at 100 samples drawn at random from those to {doubtful} in "
            "label_issues.csv, you know the share of right suggestions to within ten points."
        )
    elif not run.finished:
        said.append("To wait until the run is finished, and to write this report again.")
    return said


def truth(run: Snapshot) -> list[tuple[str, str]]:
    """The score of the run by the true labels, which it never saw: what was measured, and its value."""
    true, found = run.true, run.verdicts
    if true is None:
        return []
    wrong = run.given != true
    rows = [("labels that are really wrong", f"{int(wrong.sum()):,} of {len(true):,} ({percent(_mean(wrong))})")]
    if found is None:
        return rows
    if run.finished:
        corrected = run.corrected()
        rows.append(("labels right before", percent(1 - _mean(wrong))))
        rows.append(("labels right after", percent(_mean(corrected == true))))
        changed = corrected != run.given
        if bool(changed.any()):
            rows.append(("replaced labels that are now right", percent(_mean((corrected == true)[changed]))))
    issues = found.is_issue
    if bool(issues.any()):
        rows.append(("label issues that are really wrong labels (precision)", percent(_mean(wrong[issues]))))
    if bool(wrong.any()):
        rows.append(("wrong labels that were found as issues (recall)", percent(_mean(issues[wrong]))))
    if bool(wrong.any()) and not bool(wrong.all()):
        rows.append(("order of the label quality (AUROC, 1 is perfect)", f"{auroc(-found.quality, wrong):.3f}"))
    return rows


def auroc(scores: Tensor, positive: Tensor) -> float:
    """The probability that a positive sample has a higher score than another one, ties counting half."""
    _, place, counts = scores.double().unique(return_inverse=True, return_counts=True)
    ranks = (counts.cumsum(0) - counts + (counts + 1) / 2)[place]  # from 1; ties share the middle of their ranks
    P, N = int(positive.sum()), int((~positive).sum())
    return (float(ranks[positive].sum()) - P * (P + 1) / 2) / (P * N)


def _mean(chosen: Tensor) -> float:
    return float(chosen.double().mean())


def _name(name: str) -> str:
    return shortened(name, _LETTERS)


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
