"""What a person sees of a run in the terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from selc._io.terminal import folded
from selc.analysis.words import decision_in_short
from selc.callbacks import Callback, EpochRecord
from selc.classifiers import is_classifier_name
from selc.data import Bundle
from selc.data.progress import reporting
from selc.runs import Config
from selc.training.metrics import headline
from selc.turning import TurningPoint
from selc.types import Decided, accuracies

WIDE = 110  # columns of a terminal from which on there is room for more
QUIET_SECONDS = 5.0  # without a terminal, lines come at most this often


class Bars(Progress):
    """A bar that is not shown leaves no empty line behind either, as it does in rich before 15."""

    def stop(self) -> None:
        if not self.disable:
            super().stop()


class Screen(Callback):
    """One live line in a terminal: epoch, samples per second, time left, loss, accuracy.

    Without a terminal (a pipe, a log file) it prints a line now and then instead. ``quiet``: neither, and of what is
    said only the notes.
    """

    def __init__(self, console: Console | None = None, label: str = "", quiet: bool = False) -> None:
        self.console = console or Console(stderr=True)
        self.label, self.quiet = label, quiet
        self.wide = self.console.width >= WIDE
        one_line = Column(no_wrap=True)
        self.bars = Bars(
            TextColumn("{task.description}", table_column=one_line),
            BarColumn(bar_width=24 if self.wide else 8),
            TextColumn("{task.fields[epoch]}/{task.fields[epochs]}", table_column=one_line),
            _Rate(table_column=one_line),
            TimeRemainingColumn(compact=True, table_column=one_line),
            TextColumn("{task.fields[news]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.task: TaskID | None = None
        self.last_line = 0.0
        self.epochs = 0
        self.part = ""  # what the stage is for, if it is no part of the result; else its number, from the second on
        self.stages = 0  # of the result that began
        self.done = 0  # epochs of the stage that is shown, or was last
        self.noted: set[str] = set()  # each stage may have the same to say

    def __enter__(self) -> Screen:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        if self.task is not None:
            self.bars.update(self.task, visible=False)  # there is one bar
        if first_epoch and not aside:
            how = "Going back to the end of" if first_epoch < self.done else "Going on after"
            self._say(f"{how} epoch {first_epoch}.")
        self.done = first_epoch
        self.epochs, self.last_line = epochs, time.monotonic()
        self.stages += not aside
        self.part = aside or (f"stage {self.stages}" if self.stages > 1 else "")
        label = self.label or ("" if aside else "training")
        self.task = self.bars.add_task(
            ", ".join(part for part in (label, self.part) if part),
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
        news = describe(entry, self.wide or not self.console.is_terminal)
        self.done = record.done
        self.bars.update(self.task, epoch=entry["epoch"] + 1, news=news)
        late = time.monotonic() - self.last_line > QUIET_SECONDS or entry["epoch"] + 1 == self.epochs
        if not self.console.is_terminal and late and not self.quiet:
            self.last_line = time.monotonic()
            left = (self.epochs - entry["epoch"] - 1) * entry["seconds"]
            speed = f"{entry['samples_per_second']:,.0f} samples/s, about {left:.0f} s left"
            where = f"{self.part}, " if self.part else ""
            self._say(f"{where}epoch {entry['epoch'] + 1}/{self.epochs}, {speed}, {news}")

    def on_message(self, text: str) -> None:
        self._say(text)

    def on_decision(self, decided: Decided) -> None:
        if found := TurningPoint.of(decided):
            self._say(decision_in_short(found.decision.as_dict()))

    def on_notice(self, text: str) -> bool:
        if text not in self.noted:
            self.noted.add(text)
            self._print(f"note: {text}")
        return True

    def _say(self, text: str) -> None:
        if not self.quiet:
            self._print(text)

    def _print(self, text: str) -> None:
        self.console.print(folded(text, self.console.file), highlight=False, soft_wrap=True, markup=False)


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
        return Text("" if speed is None else f"{speed:,.0f}/s")


def describe(entry: dict[str, Any], wide: bool = True) -> str:
    """An epoch in a few words: the loss and one accuracy, or where there is room all that is known."""
    words = [f"loss {entry['loss']:.3f}"]
    measured = [f"{name} {headline(value):.1%}" for name, value in accuracies(entry).items()]
    if "held_out" in entry:
        measured.append(f"held out {entry['held_out']:.1%}")
    if wide and "would_relabel" in entry:
        words.append(f"would relabel {entry['would_relabel']:.1%}")
    return ", ".join([*words, *(measured if wide else measured[:1])])


def show_data(bundle: Bundle) -> None:
    """What the data are, in a line."""
    images = len(bundle.shape) == 3
    size = " x ".join(map(str, bundle.shape[1:])) if images else ""
    what = f"images of {size} pixels" if images else "rows of " + count(math.prod(bundle.shape), "feature")
    sets = [f"{name} set of {len(test.labels):,}" for name, test in bundle.tests.items()]
    beside = f"; {', '.join(sets)}" if sets else "; no test set"
    _tell(f"found {len(bundle.labels):,} {what}, labels of {count(len(bundle.classes), 'class')}{beside}")


def count(number: int, what: str) -> str:
    """A number of things."""
    many = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{number:,} {what if number == 1 else many}"


def show_notes(notes: Sequence[str]) -> None:
    """What was noticed about the data."""
    for note in notes:
        _tell(f"note: {note}")


def show_config(config: Config, folder: Path, data: str) -> None:
    """What will be done, before it is; ``data`` are called as the user typed them."""
    plan, noise = config.train, ""
    if config.noise.name != "none":
        rate = f" {config.noise.options['rate']:.0%}" if "rate" in config.noise.options else ""
        noise = f", noise {config.noise.name}{rate}"
    how = f"{plan.epochs} epochs, batch {plan.batch_size}, {plan.optimizer} lr {plan.lr:g} {plan.schedule}"
    if is_classifier_name(config.net.name):
        how = ", ".join(f"{key} {value}" for key, value in config.net.options.items()) or "settings of scikit-learn"
    _tell(f"{data}{noise}; {config.method.name} with {config.net.name}, {how}, seed {plan.seed} -> {folder}")


def _tell(text: str) -> None:
    print(folded(text, sys.stderr), file=sys.stderr)
