"""What a finished command says last: the result in a few lines and the commands that come next, or one JSON object."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from selc.runs import RunFolder

WHAT_THEN = (
    "the network has not learnt enough. Train longer (--epochs), with a larger learning rate (--lr), or on features of "
    "a trained network (selc embed). If that does not help, most labels may be wrong, which nothing in the data can "
    "show."
)
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object at the end, for scripts.", rich_help_panel="What is shown"),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="No progress; at the end only the place of what was written.",
        rich_help_panel="What is shown",
    ),
]
NAMES = 18  # letters of the first column


def say(lines: Mapping[str, str], commands: Sequence[tuple[str, str]] = ()) -> None:
    """A short block, and the commands to paste next, each with what it is for."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, line in lines.items():
        parts = textwrap.wrap(line, max(width - NAMES, 20), break_long_words=False, break_on_hyphens=False)
        print(f"{name:<{NAMES}}" + f"\n{'':{NAMES}}".join(parts))
    if commands:
        longest = max(len(command) for command, _ in commands)
        beside = 2 + longest + 4 + max(len(what) for _, what in commands) <= width
        print("\nNext:")
        for command, what in commands:
            print(f"  {command:<{longest}}  # {what}" if beside else f"  # {what}\n  {command}")


def as_json(content: Mapping[str, Any]) -> None:
    """The one object that a script reads."""
    print(json.dumps(content, ensure_ascii=False))


def show_run(run: RunFolder, json_: bool = False, quiet: bool = False) -> None:
    """The results of a finished run."""
    from selc.analysis import Why
    from selc.report.next_commands import next_commands

    if json_:
        as_json(run_as_dict(run))
    elif quiet:
        print(run.path)
    else:
        say(_lines(run), next_commands(run))
    if run.summary["why_unchanged"] == Why.NOT_LEARNT and not _fitted(run):
        print(f"warning: {WHAT_THEN}", file=sys.stderr)


def run_as_dict(run: RunFolder) -> dict[str, Any]:
    """The results of a finished run under names that stay; docs/scripts.md lists them."""
    from selc.report.next_commands import next_commands

    summary, actions = run.summary, run.summary["actions"]
    rate = summary["noise_rate"]
    return {
        "run": str(run.path),
        "samples": sum(actions.values()),
        "classes": len(run.classes),
        "wrong_labels": None if rate is None else {key: rate[key] for key in ("estimate", "low", "high")},
        "labels_changed": _changed(run),
        "why_unchanged": summary["why_unchanged"],
        "relabel": actions["relabel"],
        "review": actions["review"],
        "keep": actions["keep"],
        "epoch": None if _fitted(run) else summary["epoch"] + 1,
        "accuracy": summary["accuracy"],
        "labels_right_before": summary.get("right_before"),
        "labels_right_after": summary.get("right_after"),
        "seconds_training": summary["seconds_training"],
        "corrected_labels": str(run.path / "corrected_labels.csv"),
        "label_issues": str(run.path / "label_issues.csv"),
        "model": str(run.path / _model(run)),
        "next": [command for command, _ in next_commands(run)],
    }


def cleaned_beside(run: Path) -> Path:
    """Where `selc apply` writes by itself."""
    return run.with_name(f"{run.name}-cleaned")


def _fitted(run: RunFolder) -> bool:
    """Whether it was a classifier of scikit-learn, which has no epochs."""
    from selc.runs.classifier_job import REFIT

    return bool(run.summary["pick"] == REFIT)


def _model(run: RunFolder) -> str:
    from selc.classifiers import FILE

    return FILE if _fitted(run) else "model.safetensors"


def _changed(run: RunFolder) -> int:
    share: float = run.summary["changed"]
    count: int = sum(run.summary["actions"].values())
    return round(share * count)


def _lines(run: RunFolder) -> dict[str, str]:
    """The block at the end: how many labels are wrong, what was changed, how good the model is, where it all is."""
    from selc.analysis import Why
    from selc.analysis.unchanged import which_changes, why_unchanged
    from selc.analysis.words import noise_words, percent
    from selc.report.next_commands import to_look_at
    from selc.training.metrics import HEADLINE, formatted, headline, title, usual

    summary, actions = run.summary, run.summary["actions"]
    lines = {}
    if summary["noise_rate"] is not None:
        lines["wrong labels"] = noise_words(summary["noise_rate"])
    changed, why = _changed(run), why_unchanged(summary)
    review = to_look_at(run)
    look = f"; {review:,} {'more ' if changed and actions['relabel'] else ''}to look at"
    if not review or summary["why_unchanged"] == Why.NOT_LEARNT:  # then the order means nothing
        look = ""
    if changed:
        lines["labels changed"] = f"{changed:,} of {sum(actions.values()):,} ({percent(summary['changed'])}){look}"
    else:
        lines["labels changed"] = f"none, because {why}{look}"
    if unjudged := which_changes(summary, changed):
        lines["which changes"] = unjudged
    if "right_after" in summary:
        before, after = (percent(summary[key]) for key in ("right_before", "right_after"))
        lines["labels right"] = f"{before} before, {after} after (the true ones are known here)"
    when = f"after the last epoch, {summary['epoch'] + 1}"
    if _fitted(run):
        when = f"fitted on all rows with the {'corrected' if changed else 'given'} labels"
    elif summary["pick"] == "best-val":
        when = f"after epoch {summary['epoch'] + 1}, the best on the validation set"
    for name, values in summary["accuracy"].items():
        lines[f"{name} accuracy"] = f"{percent(headline(values))} ({when})"
        others = [f"{title(key)} {formatted(key, value)}" for key, value in values.items() if key != HEADLINE]
        if {*run.config.train.metrics} != {*usual()} and others:  # they were asked for; else they are in the report
            lines[f"{name} metrics"] = ", ".join(others)
    lines["written to"] = f"{run.path}{'' if str(run.path).endswith('/') else '/'}"
    lines[""] = f"corrected_labels.csv, label_issues.csv, {_model(run)}"
    return lines
