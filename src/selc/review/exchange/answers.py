"""Answers of an annotation tool as decisions, with the checks of our own: recognised by content, not by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from selc.analysis.findings import Findings
from selc.errors import InputError
from selc.review.exchange.content import read_content
from selc.review.exchange.tools import TOOLS
from selc.review.exchange.tools.base import DROP, Answer
from selc.runs.decisions import Decisions, Verdict, fingerprint
from selc.runs.folder import RunFolder


def read_decisions(path: Path, run: RunFolder) -> tuple[Decisions, Sequence[str]]:
    """What a person decided about samples of ``run``, and what to know of how it was read.

    Parameters
    ----------
    path : Path
        What the review page saved, or the export of an annotation tool.
    run : RunFolder
        The finished run that was reviewed.

    Returns
    -------
    Decisions
        One for each sample in the file.
    sequence of str
        Notes, a sentence each.
    """
    content = read_content(path)
    if content is None:
        return Decisions.read(path).of_run(run), ()
    tool = next((tool for tool in (TOOLS[name]() for name in TOOLS) if tool.wrote(content)), None)
    if tool is None:
        raise InputError(
            f"decisions must be what the review page saved, or an export of {', '.join(TOOLS)} with answers; got "
            f"{path}, which is none of them. Is it the file that was imported there?"
        )
    answers = tool.answers(content, str(path))
    made = _decided(_named(answers.made, run), run, run.findings(), path)
    if all(decision.verdict == "skip" for decision in made.values()):
        raise InputError(
            f"--decisions must hold a verdict; got {path} with {len(made)} samples, none of which anybody has judged. "
            "Export it again when some are." + "".join(f" ({note}.)" for note in answers.notes)
        )
    return Decisions(path, fingerprint(run), len(run.ids), made).of_run(run), answers.notes


def _named(answers: Sequence[Answer], run: RunFolder) -> list[Answer]:
    """The answers with the ids of the run: a tool may put a folder or an address before the path of an image."""
    ids = set(run.ids)
    found = []
    for answer in answers:
        name, cut = answer.sample_id, answer.sample_id
        while cut and cut not in ids and answer.run is None:
            cut = cut.partition("/")[2]
        found.append(answer._replace(sample_id=cut or name))
    return found


def _decided(answers: Sequence[Answer], run: RunFolder, findings: Findings, path: Path) -> dict[str, Verdict]:
    own, names = fingerprint(run), run.classes
    row_of = {sample: row for row, sample in enumerate(run.ids)}
    given, suggested = findings.given.tolist(), findings.suggested.tolist()
    made: dict[str, Verdict] = {}
    for answer in answers:
        sample = answer.sample_id
        if answer.run not in (None, own):
            raise InputError(
                f"--decisions must come from an export of {run.path} (or of a run on the same labels); got {path}, "
                f"where {sample!r} was exported from a run on other labels. Give the run that was exported."
            )
        if len(answer.labels) > 1:
            raise InputError(
                f"a sample must have one label; got {', '.join(map(repr, answer.labels))} for {sample!r} in {path}. "
                "Choose one of them in the tool and export again."
            )
        row = row_of.get(sample)
        before = answer.given if answer.given is not None else "" if row is None else names[given[row]]
        guess = None if row is None else names[suggested[row]]
        decision = _verdict(sample, before, guess, answer.labels)
        known = made.get(sample)
        if known is None or known.verdict == "skip":
            made[sample] = decision
        elif decision.verdict != "skip" and decision != known:
            both = " and ".join(repr(DROP if d.label is None else d.label) for d in (known, decision))
            raise InputError(
                f"{path} must decide on each sample once; got {both} for {sample!r}. Settle it in the tool and export "
                "again."
            )
    return made


def _verdict(sample: str, given: str, suggested: str | None, labels: Sequence[str]) -> Verdict:
    if not labels:
        return Verdict(sample, given, "skip", None)
    label = labels[0]
    if label == DROP:
        return Verdict(sample, given, "drop", None)
    return Verdict(sample, given, "keep" if label == given else "suggested" if label == suggested else "other", label)
