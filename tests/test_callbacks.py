"""What is called around a training, when, and what its answers do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import selc
from selc.callbacks import Callback, Callbacks, EpochRecord, Silent
from selc.methods import CE, Method
from selc.methods.base import Train
from selc.types import Decided, EvalSet, Outcome, Pass, TrainSet
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, blobs, fit, results, train_set, trainer


class Log(Callback):
    """Writes down every hook, and gives an answer at the end of an epoch."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.stop_after, self.calls = stop_after, list[Any]()
        self.records: list[EpochRecord] = []

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        self.calls.append(("stage", stage, epochs, first_epoch, rows, aside))

    def on_batch_end(self, rows: int) -> None:
        self.calls.append(rows)

    def on_epoch_end(self, record: EpochRecord) -> bool | None:
        self.calls.append(("end", record.done))
        self.records.append(record)
        return None if self.stop_after is None else record.done >= self.stop_after

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.calls.append(("saved", record.done))

    def on_message(self, text: str) -> None:
        self.calls.append(text)

    def on_decision(self, decided: Decided) -> None:
        self.calls.append(decided)

    def on_notice(self, text: str) -> bool:
        self.calls.append(("notice", text))
        return True


def test_hooks_are_called_in_the_order_of_the_training() -> None:
    log = Log()
    fit(CE(), callback=log, epochs=2, batch_size=50)
    batches = [50, 40]
    assert log.calls == [
        ("stage", 0, 2, 0, 90, ""),
        *(call for epoch in (1, 2) for call in (*batches, ("end", epoch), ("saved", epoch))),
    ]


class Told(Method):
    """Looks at some rows, ends its stage by callbacks of its own, and decides something."""

    def __init__(self, *callbacks: Callback) -> None:
        super().__init__()
        self.callbacks = callbacks

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        x, y = blobs(12, seed=4)
        looks = EvalSet(type(data.inputs)(x), y)  # type: ignore[call-arg]
        train.tell("A training begins.")
        train.decided(MARK)
        return train(CE(), data, looks=looks, per_epoch=2, callbacks=self.callbacks)


class Mark:
    """Something that a method has decided, and nobody else can read."""

    def save(self, folder: Path) -> None:
        (folder / "mark").write_text("decided")


MARK = Mark()


def test_what_a_method_decides_is_saved_and_handed_on_by_who_cannot_read_it(tmp_path: Path) -> None:
    log = Log()
    fit(Told(), tmp_path, log, epochs=1)
    assert (tmp_path / "mark").read_text() == "decided"
    assert log.calls[:2] == ["A training begins.", MARK]


@pytest.mark.parametrize("folder", [False, True])
def test_a_record_has_the_line_of_the_epoch_and_all_looks_so_far(folder: bool, tmp_path: Path) -> None:
    log = Log()
    outcome = fit(Told(log), tmp_path if folder else None, epochs=3)
    assert outcome.looks is not None
    for number, record in enumerate(log.records, start=1):
        assert record.done == number
        assert record.entry["loss"] == outcome.history[number - 1]["loss"]
        assert record.looks is not None
        for ours, theirs in zip(record.looks, outcome.looks, strict=True):
            assert torch.equal(ours.nan_to_num(), theirs[: 2 * number].nan_to_num())


def test_looks_are_read_only_if_somebody_asks_and_once() -> None:
    read: list[Pass] = []

    def reader() -> Pass:
        read.append(Pass(*(torch.zeros(1, 1) for _ in range(4))))
        return read[-1]

    record = EpochRecord({"epoch": 0}, reader)
    assert not read
    assert record.looks is record.looks is read[0]
    assert len(read) == 1
    assert EpochRecord({"epoch": 0}).looks is None


def test_one_that_says_stop_ends_the_stage_and_the_others_have_heard() -> None:
    early, late, silent = Log(2), Log(4), Log()
    outcome = trainer(None, silent, epochs=6).fit(Told(late, early), train_set())
    assert [entry["epoch"] for entry in outcome.history] == [0, 1]
    assert [entry["stop"] for entry in outcome.history] == [False, True]
    for log in (early, late, silent):
        assert [record.done for record in log.records] == [1, 2]


def test_who_has_no_opinion_leaves_no_trace_in_the_history() -> None:
    watched, alone = fit(CE(), callback=Log()), fit(CE())
    assert not any("stop" in entry for entry in watched.history)
    assert_same_bits(results(watched), results(alone))


@pytest.mark.parametrize("broken", [1, 3])
def test_a_stage_that_was_told_to_end_is_not_gone_on_with_after_a_resume(broken: int, tmp_path: Path) -> None:
    """The answer is saved with its epoch: nobody need ask again."""
    whole = fit(Told(Log(3)))
    with pytest.raises(BrokenOffError):
        fit(Told(Log(3)), tmp_path, StopAfter(broken))
    log = Log(3)
    assert_same_bits(results(fit(Told(log), tmp_path)), results(whole))
    assert [record.done for record in log.records] == list(range(broken + 1, 4))


def test_in_selc_fit_a_callback_hears_of_each_epoch_and_may_end_the_training() -> None:
    x, y = blobs()
    log = Log(2)
    outcome = selc.fit(x, y, method="ce", epochs=5, batch_size=16, device="cpu", callbacks=[log])
    assert len(outcome.history) == 2


def test_a_notice_is_a_warning_where_nobody_sees_to_it() -> None:
    log, deaf = Log(), Callback()
    with pytest.warns(UserWarning, match="a small thing"):
        Callbacks([deaf]).notice("a small thing")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Callbacks([Silent(), log, deaf]).notice("a small thing")
        Callbacks([Callbacks([log]), deaf]).notice("another")
    assert log.calls == [("notice", "a small thing"), ("notice", "another")]  # each hears, whoever has seen to it


def test_a_callback_that_overrides_nothing_changes_nothing() -> None:
    record = EpochRecord({"epoch": 0})
    for callback in (Callback(), Callbacks([]), Callbacks([Callback(), Callbacks([Callback()])])):
        assert callback.on_epoch_end(record) is None
        assert not callback.on_notice("")
