"""What a report says otherwise of a run with a classifier of scikit-learn: it has folds and no epochs."""

from __future__ import annotations

from selc.analysis import Why
from selc.analysis.words import ASSUMPTION, WHY, percent, points
from selc.report.reading import Snapshot
from selc.turning import Reason

_STAGES = (
    "Boosting was looked at after each of its iterations: the share of held-out labels that it predicts rises while "
    "the pattern is learnt and falls when wrong labels are learnt by heart, since a wrong label can be learnt by heart "
    "but not predicted."
)


def first_sentence(run: Snapshot) -> str:
    """What was done."""
    labels = "corrected" if run.summary["changed"] else "given"
    return (
        f"This run is finished: {run.classifier} of scikit-learn was fitted to {len(run.given):,} samples with labels "
        f"of {len(run.classes):,} classes, several times without a part of them, to judge each label by a classifier "
        f"that never saw it, and at last on all of them with the {labels} labels."
    )


def how_it_was_judged(run: Snapshot, dealt: str) -> list[str]:
    """By which rows and iterations; ``dealt`` is how rows were held out."""
    decision, evidence = run.decision(), run.evidence()
    if decision is None or evidence is None:
        return [f"No label was judged, because {WHY[Why.TOO_FEW]}."]
    held, looks = len(evidence.labels), evidence.looks
    said = [
        f"The data were split {dealt} into {evidence.splits} parts, and as many classifiers were fitted, each without "
        f"another part: so {held:,} of {len(run.given):,} samples were predicted by one that never saw them."
    ]
    if looks > 1:
        said.append(_STAGES)
    if decision.reason is Reason.FALL:
        best = percent(decision.best / looks)
        said.append(
            f"Held-out labels are predicted best after {best} of the iterations ({percent(decision.accuracy)}), and at "
            f"the end {points(decision.fall)} less: wrong labels are learnt by heart. Labels are judged by the "
            "iterations before."
        )
    elif looks > 1:
        said.append("No fall was seen that is beyond chance, so labels are judged by the finished classifiers.")
    return [*said, ASSUMPTION]


def what_would_help(run: Snapshot) -> list[str]:
    """Another fit that would tell more."""
    if run.why is Why.NOT_LEARNT:
        return ["Another classifier, or features that say more of the classes: this one predicts labels by chance."]
    if run.why is Why.CANNOT_TELL:
        return [
            "A classifier that is not surer than it is right, such as a smaller or more regularised one, or a run with "
            "a network (--net mlp), which shows whether wrong labels are learnt by heart."
        ]
    return []


def of_classifier(sentences: list[str]) -> list[str]:
    """Sentences on what a network does, of a classifier."""
    return [sentence.replace("network", "classifier") for sentence in sentences]
