"""What a report says in sentences: what happened, when labels began to be corrected, and the score by the truth."""

from __future__ import annotations

from shlex import quote

import torch
from torch import Tensor

from selc.analysis import Why
from selc.analysis.findings import RELABEL, Findings
from selc.analysis.unchanged import which_changes, why_unchanged
from selc.analysis.words import ASSUMPTION, WHY, decision_sentence, no_sign, noise_sentence, percent, points
from selc.methods.judge import SPLITS
from selc.report.classifier import first_sentence, how_it_was_judged, of_classifier
from selc.report.next_commands import LOOK
from selc.report.reading import Snapshot
from selc.report.style import shortened
from selc.runs.config import ARRAYS
from selc.training.metrics import headline
from selc.turning import Decision, Evidence, Reason
from selc.turning.splits import LEAST
from selc.types import accuracies

_LETTERS = 60  # of a name of the user's
_AFRESH = ("selc", "selc+")  # whose second training, if any, is that of a fresh network on what they believe
_LISTED = "they are marked in label_issues.csv"
_FROM = f"a class needs at least {LEAST * SPLITS} samples for that"  # to hold some out


def what_happened(run: Snapshot) -> list[str]:
    """The run in five sentences; the first one says whether it is finished."""
    return _finished(run) if run.finished else _so_far(run)


def _finished(run: Snapshot) -> list[str]:
    found = run.verdicts
    assert found is not None
    said = [_wrong_labels(run, found), _changes(run, found), _accuracy(run), _to_do(run, found)]
    if run.classifier:
        return [first_sentence(run), *of_classifier(said)]
    return [f"This run is finished: {_trained(run)} (method {named(run.config.method.name)}).", *said]


def _trained(run: Snapshot) -> str:
    """Who learnt what, and for how long."""
    lengths, method = run.trainings, run.config.method
    samples = f"{len(run.given):,} samples with labels of {len(run.classes):,} classes"
    if len(lengths) == 1:
        return f"a network learnt from {samples} for {lengths[0]:,} epochs"
    if len({*lengths}) > 1:
        return f"a network learnt from {samples} in {len(lengths)} stages of {_and([f'{n:,}' for n in lengths])} epochs"
    if len(lengths) == 2 and method.name in _AFRESH and method.options.get("start") != "pilot":
        return (
            f"two networks learnt from {samples}, one after the other, for {lengths[0]:,} epochs each; the second one, "
            "which is the result, learnt from the labels as they were believed after the first"
        )
    return f"a network learnt from {samples} in {len(lengths)} stages of {lengths[0]:,} epochs each"


def _wrong_labels(run: Snapshot, found: Findings) -> str:
    if run.noise is not None:
        return noise_sentence(run.noise, len(run.given))
    if run.why in (Why.NOT_LEARNT, Why.TOO_FEW):
        return f"How many labels are wrong cannot be told, because {WHY[run.why]}."
    share = percent(float((found.suggested != found.given).double().mean()))
    return (
        "This run does not estimate how many labels are wrong, as it judged by no held-out samples; at the end the "
        f"method believes in another label for {share} of the samples."
    )


def _changes(run: Snapshot, found: Findings) -> str:
    changed = run.corrected() != run.given
    count = int(changed.sum())
    if not count:
        said = f"No label was replaced, because {why_unchanged(run.summary)}."
        return "So no label was replaced." if _says_why(run) else said
    what = f"{count:,} labels ({percent(count / len(changed))}) were replaced in corrected_labels.csv"
    if run.noise is None:
        return f"{what}; how many of the new ones are right, this method cannot tell."
    right = float(found.confidence[found.action == RELABEL].mean())
    said = f"{what}; about {percent(right)} of the new ones are expected to be right"
    return f"{said}{'' if right > 0.5 else ', and fewer of the old ones'}."


def _says_why(run: Snapshot) -> bool:
    """Whether the sentence on how many labels are wrong has said already why none was replaced."""
    return run.why in (Why.NOT_LEARNT, Why.TOO_FEW, Why.CLEAN) or (run.why is Why.CANNOT_TELL and not one_number(run))


def one_number(run: Snapshot) -> bool:
    """Whether the share of wrong labels is estimated by more than a range."""
    return run.noise is not None and run.noise["estimate"] is not None


def _accuracy(run: Snapshot) -> str:
    measured = run.summary["accuracy"] if run.finished else accuracies(run.timeline[-1])
    if not measured:
        return "There was no test set, so how well the network does on new samples was not measured."
    parts = [f"{named(name)} accuracy {percent(headline(value))}" for name, value in measured.items()]
    when = "after the epoch that was best on the validation set" if _picked(run) else "after the last epoch"
    when = "fitted on all samples" if run.classifier else when
    said = _and(parts)
    return f"{said[:1].upper()}{said[1:]} ({when}, on samples that the network was not trained on)."


def _picked(run: Snapshot) -> bool:
    return run.finished and run.summary["pick"] == "best-val"


def _to_do(run: Snapshot, found: Findings) -> str:
    keep, review, relabel = torch.bincount(found.action, minlength=3).tolist()
    if no_sign(run.noise, len(run.given)):
        free = f"; optionally look at the {review:,} labels of the lowest quality ({_LISTED})" if review else ""
        return f"Nothing needs to be done about the labels{free}."
    if run.why is Why.NOT_LEARNT and run.classifier:
        return "What to do: take another classifier, or features that say more of the classes."
    if run.why is Why.NOT_LEARNT:
        return "What to do: train again for longer or with a larger learning rate, and look at the report of that run."
    if run.why is Why.TOO_FEW:
        return f"What to do: look through the labels, or train with more samples ({_FROM})."
    if worst := worst_to_look_at(run, found):
        taken = f"take over the suggested labels of {relabel:,} samples ({_LISTED}), and " if relabel else ""
        return (
            f"What to do: {taken}look at the {worst:,} labels of the lowest quality (selc review shows them); how "
            "many of them are wrong tells you what the network cannot."
        )
    if not review + relabel:
        return "What to do: to know how many labels are wrong, train with the method selc, or look at some of them."
    parts = []
    if relabel:
        parts.append(f"take over the suggested labels of {relabel:,} samples")
    if review:
        parts.append(f"have a look at {review:,}{' more' if relabel else ' samples'}, the worst first")
    said = f"What to do: {_and(parts)} ({_LISTED}); {keep:,} labels can stay as they are."
    unjudged = which_changes(run.summary, int((run.corrected() != run.given).sum()))
    return f"{said} {unjudged[:1].upper()}{unjudged[1:]}".rstrip()


def worst_to_look_at(run: Snapshot, found: Findings) -> int:
    """Where the network cannot tell, as many samples as may be wrong, or as a person can look at; else none."""
    if run.noise is None or no_sign(run.noise, len(run.given)) or run.why in (Why.NOT_LEARNT, Why.TOO_FEW):
        return 0
    if one_number(run) and bool(found.is_issue.any()):
        return 0
    may_be_wrong: int = round(run.noise["high"] * len(run.given))
    return max(1, min(may_be_wrong, LOOK))


def _so_far(run: Snapshot) -> list[str]:
    if run.classifier:
        again = f"selc resume {quote(str(run.path))}"
        return [f"This run is not finished, and a classifier has nothing to show before: {again}."]
    samples = f"{len(run.given):,} samples with labels of {len(run.classes):,} classes"
    first = f"This run is not finished: {_done(run)}, so what follows is what is known so far."
    second = f"A network is learning from {samples} (method {named(run.config.method.name)})."
    decision = run.decision()
    third = "It is too early to say how many labels are wrong."
    if decision is not None:
        third = f"{decision_sentence(decision.as_dict())} How many labels are wrong is worked out at the end."
    fourth = _accuracy(run) if run.timeline else "Nothing has been measured yet."
    again = f"selc resume {quote(str(run.path))}"
    if run.config.data.name == ARRAYS:
        again = "selc.fit with the same arguments and resume=True"
    fifth = f"No label has been replaced yet; if the run was interrupted, go on with {again}, and nothing is lost."
    return [first, second, third, fourth, fifth]


def _done(run: Snapshot) -> str:
    """How far an unfinished run has come."""
    epochs = run.config.train.epochs
    if run.preparing is not None:
        where = f"{run.preparing['aside']}, epoch {run.preparing['epoch'] + 1:,} of {epochs:,}"
        return f"networks learn from parts of the data first, to see when wrong labels are learnt by heart ({where})"
    if not run.timeline:
        return "no epoch has been saved yet"
    last = run.timeline[-1]
    stage = run.stage_number(last)
    part = f" of stage {stage}" if stage > 1 else ""
    return f"epoch {last['epoch'] + 1:,} of {epochs:,}{part} is the last one that was saved"


_SHOWS = (
    "The curve is the share of these held-out labels that plain cross entropy predicts: it rises while the pattern is "
    "learnt and falls when wrong labels are learnt by heart, since a wrong label can be learnt by heart but not "
    "predicted."
)


def turning_point(run: Snapshot) -> list[str]:
    """When labels began to be corrected: what was held out to decide it, what that showed, which fall could have been
    seen, and what is taken for granted; or why nothing was decided."""
    if run.classifier:
        return how_it_was_judged(run, _how_it_was_dealt(run))
    decision, evidence = run.decision(), run.evidence()
    if decision is None:
        return [_undecided(run)]
    said = decision_sentence(decision.as_dict())
    if evidence is None:
        return [said, f"{_FROM[:1].upper()}{_FROM[1:]}."]
    if decision.start is not None and decision.start < run.config.train.epochs and run.why is not None:
        said += f" But at the end no label was replaced, because {WHY[run.why]}."
    return [_what_was_held_out(run, evidence), _SHOWS, said, *_visible(decision), ASSUMPTION]


def _what_was_held_out(run: Snapshot, evidence: Evidence) -> str:
    held, samples = len(evidence.labels), len(run.given)
    if evidence.rows is None:
        return f"The {held:,} labels of the validation set, which no network was trained on, were predicted."
    how = _how_it_was_dealt(run)
    if evidence.splits == 1:
        return (
            f"Of {samples:,} samples {held:,} were chosen {how} and held out to the end: nothing is learnt from them."
        )
    every = "each sample" if held == samples else f"each of {held:,} samples ({_FROM})"
    return (
        f"The data were split {how} into {evidence.splits} parts, and as many networks were trained, each without "
        f"another part: so {every} was predicted by a network that was not trained on it."
    )


def _how_it_was_dealt(run: Snapshot) -> str:
    options = run.config.data.options
    group, time = options.get("group_column"), options.get("time_column")
    if run.config.data.name == ARRAYS:  # these are in the memory of whoever called
        return "at random (or by the groups and times that were given)"
    together = f", those with the same {group!r} together," if group else ""
    return (f"by {time!r}" if time else "at random") + together


def _visible(decision: Decision) -> list[str]:
    """Which fall could have been seen; where none was, its size has been told."""
    if decision.reason is Reason.FALL:
        return [f"With so many held-out labels a fall of {points(decision.visible)} is enough to be told from chance."]
    if decision.reason is Reason.NO_FALL and decision.visible < 1:
        return ["With so many held-out labels a smaller fall cannot be told from chance."]
    return []


def _undecided(run: Snapshot) -> str:
    start = run.config.method.options.get("start")
    if isinstance(start, int | float):
        return f"Correction starts after {start:g} epochs, as was asked for (method.start), so nothing was held out."
    if start == "pilot":
        return "Correction starts where the paper's metric was largest in a first training, so nothing was held out."
    if start == "auto" and not run.finished:
        return "It has not been decided yet when labels are corrected."
    name = named(run.config.method.name)
    return f"The method {name} does not look for a turning point by itself, so nothing was held out to find one by."


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


def named(name: str) -> str:
    """A name of the user's, not too long for a sentence."""
    return shortened(name, _LETTERS)


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
