"""What happens around a training: hooks that the loop calls, for whoever decides, shows or writes something."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from selc.errors import in_python
from selc.types import Decided, Pass


@dataclass(frozen=True)
class EpochRecord:
    """What an epoch of a stage has shown.

    Parameters
    ----------
    entry : dict
        Its line of the history: ``stage``, ``epoch`` (from 0), ``loss``, the sets that were measured, ...
    read_looks : callable, optional
        Reads what was predicted, up to now, of the rows that the stage only looks at.

    Examples
    --------
    >>> from selc import EpochRecord
    >>> EpochRecord({"stage": 0, "epoch": 4, "loss": 0.05}).done
    5
    """

    entry: dict[str, Any]
    read_looks: Callable[[], Pass] | None = None

    @property
    def done(self) -> int:
        """Epochs that are done, this one included."""
        return int(self.entry["epoch"]) + 1

    @cached_property
    def looks(self) -> Pass | None:
        """All looks so far, [L, M]; None: the stage looks at no rows. They are read when somebody asks for them."""
        return None if self.read_looks is None else self.read_looks()


class Callback:
    """Hooks into a training; override those that you need. By default they do nothing.

    The first six are called in this order, those of a stage for each stage, the others whenever there is something to
    say; each in every process that was given the callback.

    Examples
    --------
    >>> from selc import Callback, EpochRecord
    >>> class Enough(Callback):
    ...     def on_epoch_end(self, record):
    ...         return record.entry["loss"] < 0.1
    >>> Enough().on_epoch_end(EpochRecord({"stage": 0, "epoch": 4, "loss": 0.05}))
    True
    """

    def on_run_begin(self, folder: Path | None) -> None:
        """A run begins, or goes on, in its ``folder``; None: nothing is written."""

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        """A stage begins, or goes on after an interruption at ``first_epoch``.

        ``aside`` says what a stage is for that is no part of the result.
        """

    def on_batch_end(self, rows: int) -> None:
        """A batch of ``rows`` samples is done."""

    def on_epoch_end(self, record: EpochRecord) -> bool | None:
        """An epoch is done: whether the stage ends with it; None: no opinion.

        The answer is saved with the epoch, so that a stage that is resumed ends where it would have.
        """
        return None

    def on_epoch_saved(self, record: EpochRecord) -> None:
        """An epoch is done, decided on, and saved or on its way to the disk."""

    def on_run_end(self, summary: Mapping[str, Any], folder: Path | None) -> None:
        """The results are there, and in the ``folder`` if there is one; ``summary`` is what its summary.json holds."""

    def on_message(self, text: str) -> None:
        """What happens next, in a sentence."""

    def on_decision(self, decided: Decided) -> None:
        """The method has decided something that its outcome will carry."""

    def on_notice(self, text: str) -> bool | None:
        """Something that the user should know: whether it was seen to. What nobody sees to becomes a warning."""
        return None


class Silent(Callback):
    """For the processes of which another one speaks."""

    def on_notice(self, text: str) -> bool:
        return True


class Callbacks(Callback):
    """Several callbacks as one, asked in their order."""

    def __init__(self, each: Iterable[Callback]) -> None:
        self.each = tuple(each)

    def on_run_begin(self, folder: Path | None) -> None:
        for callback in self.each:
            callback.on_run_begin(folder)

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        for callback in self.each:
            callback.on_stage_begin(stage, epochs, first_epoch, rows, aside)

    def on_batch_end(self, rows: int) -> None:
        for callback in self.each:
            callback.on_batch_end(rows)

    def on_epoch_end(self, record: EpochRecord) -> bool | None:
        """Whether any of them ends the stage; None: none has an opinion."""
        answers = [answer for c in self.each if (answer := c.on_epoch_end(record)) is not None]
        return any(answers) if answers else None

    def on_epoch_saved(self, record: EpochRecord) -> None:
        for callback in self.each:
            callback.on_epoch_saved(record)

    def on_run_end(self, summary: Mapping[str, Any], folder: Path | None) -> None:
        for callback in self.each:
            callback.on_run_end(summary, folder)

    def on_message(self, text: str) -> None:
        for callback in self.each:
            callback.on_message(text)

    def on_decision(self, decided: Decided) -> None:
        for callback in self.each:
            callback.on_decision(decided)

    def on_notice(self, text: str) -> bool:
        answers = [callback.on_notice(text) for callback in self.each]  # each hears of it
        return any(answers)

    def notice(self, text: str) -> None:
        """Tell the user, by a warning if no callback does."""
        if not self.on_notice(text):
            warnings.warn(in_python(text), stacklevel=2)


def with_trackers(callbacks: Sequence[Callback], tracker: Any) -> list[Callback]:
    """The callbacks, and those of trackers: names such as ``mlflow``, or `selc.integrations.trackers.Tracker`."""
    if not tracker:
        return list(callbacks)
    # By its name: what trains knows no tracker, and imports none before one is asked for.
    found: list[Callback] = import_module("selc.integrations.trackers").tracking(tracker, callbacks)
    return [*callbacks, *found]
