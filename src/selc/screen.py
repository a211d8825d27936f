"""What a person sees of a run in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from selc.analysis import Why
from selc.analysis.unchanged import which_changes, why_unchanged
from selc.analysis.words import decision_sentence, noise_words
from selc.callbacks import Callback, EpochRecord
from selc.classifiers import FILE as MODEL
from selc.classifiers import is_classifier_name
from selc.data import Bundle
from selc.data.progress import reporting
from selc.runs import Config, RunFolder
from selc.runs.classifier_job import REFIT
from selc.training.metrics import HEADLINE, formatted, headline, title
from selc.turning import TurningPoint
from selc.types import Decided, accuracies

WHAT_THEN = (
    "the network has not learnt enough. Train longer (epochs), with a larger learning rate (lr), or on features of a "
    "trained network (selc embed). If that does not help, most labels may be wrong, which nothing in the data can show."
)
QUIET_SECONDS = 5.0  # without a terminal, lines come at most this often


class Screen(Callback):
    """A live line in a terminal: epoch, samples per second, time left, loss, share of labels believed otherwise.

    Without a terminal (a pipe, a log file) it prints a line now and then instead.
    """

    def __init__(self, console: Console | None = None, label: str = "") -> None:
        self.console = console or Console(stderr=True)
        self.label = label
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            _Rate(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(),
            TextColumn("{task.fields[news]}", table_column=Column(no_wrap=True)),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task: TaskID | None = None
        self.last_line = 0.0
        self.epochs = 0
        self.aside = ""  # what the stage is for, if it is no part of the result
        self.stages = 0  # of the result that began

    def __enter__(self) -> Screen:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        if self.aside and self.task is not None:
            self.bars.update(self.task, visible=False)  # what only helped to decide gives way to what comes next
        self.aside, self.epochs, self.last_line = aside, epochs, time.monotonic()
        self.stages += not aside
        number = f"stage {self.stages}" if self.stages > 1 and not aside else ""
        label = self.label or ("" if aside else "training")
        self.task = self.bars.add_task(
            ", ".join(part for part in (label, aside, number) if part),
            total=epochs * rows,
            completed=first_epoch * rows,
            epoch=first_epoch,
            epochs=epochs,
            news="",
        )

    def on_batch_end(self, rows: int) -> None:
        assert self.task is not None
        self.bars.advance(self.task, rows)

    def on_epoch_saved(self, record: EpochRecord) -> None:
        assert self.task is not None
        entry = record.entry
        news = describe(entry)
        self.bars.update(self.task, epoch=entry["epoch"] + 1, news=news)
        late = time.monotonic() - self.last_line > QUIET_SECONDS or entry["epoch"] + 1 == self.epochs
        if not self.console.is_terminal and late:
            self.last_line = time.monotonic()
            left = (self.epochs - entry["epoch"] - 1) * entry["seconds"]
            speed = f"{entry['samples_per_second']:,.0f} samples/s, about {left:.0f} s left"
            where = f"{self.aside}, " if self.aside else ""
            self._say(f"{where}epoch {entry['epoch'] + 1}/{self.epochs}, {speed}, {news}")

    def on_message(self, text: str) -> None:
        self._say(text)

    def on_decision(self, decided: Decided) -> None:
        if found := TurningPoint.of(decided):
            self._say(decision_sentence(found.decision.as_dict()))

    def on_notice(self, text: str) -> bool:
        self._say(f"note: {text}")
        return True

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def reading() -> Iterator[None]:
    """Show how far the reading of data has come, if it takes a while."""
    console = Console(stderr=True)
    with Bars(
        TextColumn("reading the data"),
        BarColumn(bar_width=16),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bars:
        task: TaskID | None = None

        def show(done: int, total: int) -> None:
            nonlocal task
            if task is None:
                task = bars.add_task("", total=total)
            bars.update(task, completed=done, total=total)

        with reporting(show):
            yield


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} samples/s")


def describe(entry: dict[str, Any]) -> str:
    """An epoch in a few words."""
    words = [f"loss {entry['loss']:.3f}"]
    if "changed" in entry:
        words.append(f"believed otherwise {entry['changed']:.1%}")
    if "held_out" in entry:
        words.append(f"held out {entry['held_out']:.1%}")
    words += [f"{name} {headline(value):.1%}" for name, value in accuracies(entry).items()]
    return ", ".join(words)


def show_data(bundle: Bundle) -> None:
    """What the data are, in a line."""
    kind = "images" if len(bundle.shape) == 3 else "inputs"
    size = " x ".join(map(str, bundle.shape))
    sets = [f"{name} {len(test.labels):,}" for name, test in bundle.tests.items()]
    beside = f"; measured on: {', '.join(sets)}" if sets else "; no test set"
    print(
        f"found {len(bundle.labels):,} {kind} of {size} with labels of {len(bundle.classes)} classes{beside}",
        file=sys.stderr,
    )


def show_notes(notes: Sequence[str]) -> None:
    """What was noticed about the data."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def show_config(config: Config, folder: Path, data: str) -> None:
    """What will be done, before it is; ``data`` are called as the user typed them."""
    plan, noise = config.train, config.noise.name
    if "rate" in config.noise.options:
        noise += f" {config.noise.options['rate']:.0%}"
    how = f"{plan.epochs} epochs, batch {plan.batch_size}, {plan.optimizer} lr {plan.lr:g} {plan.schedule}"
    if is_classifier_name(config.net.name):
        how = ", ".join(f"{key} {value}" for key, value in config.net.options.items()) or "settings of scikit-learn"
    print(
        f"{data}, noise {noise}; {config.method.name} with {config.net.name}, {how}, seed {plan.seed} -> {folder}",
        file=sys.stderr,
    )


def told(metric: str, value: float) -> str:
    """A value with the name of its metric."""
    return f"{title(metric)} {formatted(metric, value)}"


def show_summary(run: RunFolder) -> None:
    """The results of a finished run, with how they were chosen."""
    summary = run.summary
    chosen = f"last epoch ({summary['epoch'] + 1})"
    if summary["pick"] == REFIT:
        chosen = f"fitted on all rows with the {'corrected' if summary['changed'] else 'given'} labels"
    elif summary["pick"] == "best-val":
        chosen = f"epoch {summary['epoch'] + 1}, the best on the validation set"
    lines = {}
    for name, values in summary["accuracy"].items():
        lines[f"{name} accuracy"] = f"{told(HEADLINE, values[HEADLINE])}, {chosen}"
        if others := [told(key, value) for key, value in values.items() if key != HEADLINE]:
            lines[f"{name} metrics"] = ", ".join(others)
    why = why_unchanged(summary)
    lines["labels changed"] = f"{summary['changed']:.2%}" + (f", because {why}" if why else "")
    if "right_after" in summary:
        lines["labels right"] = f"{summary['right_before']:.2%} before, {summary['right_after']:.2%} after"
    if summary["noise_rate"] is not None:
        lines["wrong labels"] = noise_words(summary["noise_rate"])
    actions = summary["actions"]
    lines["what to do"] = f"relabel {actions['relabel']:,}, review {actions['review']:,}, keep {actions['keep']:,}"
    if unjudged := which_changes(summary, round(summary["changed"] * sum(actions.values()))):
        lines["which changes"] = unjudged
    lines["training time"] = f"{summary['seconds_training']:.1f} s"
    lines["corrected labels"] = str(run.path / "corrected_labels.csv")
    lines["findings"] = str(run.path / "label_issues.csv")
    lines["model"] = str(run.path / (MODEL if summary["pick"] == REFIT else "model.safetensors"))
    for name, line in lines.items():
        print(f"{name:<18}{line}")
    if summary["why_unchanged"] == Why.NOT_LEARNT and summary["pick"] != REFIT:
        print(f"warning: {WHAT_THEN}", file=sys.stderr)
