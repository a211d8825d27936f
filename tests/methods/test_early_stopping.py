"""Cross entropy that is stopped: by held-out noisy rows, and by changes of mind about the training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.callbacks import EpochRecord
from selc.losses.watcher import first_minimum, waited
from selc.methods import CE, Method
from selc.methods import judge as judging
from selc.methods.early_stopping import EarlyStopping
from selc.methods.label_wave import LabelWave, Minimum
from selc.types import Outcome, Pass, StagePlan, TrainSet
from tests.helpers import batch_of, no_sweep, one_hot64, softmax64
from tests.methods.common import LABELS, Asked, C, N, NoTrain, Stages, many, outcome, ready

EPOCHS = 12


def rising_and_falling(best: int, epochs: int, labels: Tensor, num_classes: int) -> Pass:
    """Looks of which ever more are right until ``best``, and ever fewer after."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    predictions = []
    for look in range(1, epochs + 1):
        right = len(labels) * (10 - abs(look - best)) // 12
        said = (labels + 1) % num_classes
        said[order[:right]] = labels[order[:right]]
        predictions.append(said)
    seen = torch.stack(predictions)
    sure = torch.full(seen.shape, 0.9)
    losses = -torch.where(seen == labels, sure, torch.tensor(0.03)).log()
    return Pass(losses, seen, sure, torch.full_like(seen, -1))


class Shown(Stages):
    """Trainings that are none, whose looks are best after a known epoch."""

    def __init__(self, best: int, **options: Any) -> None:
        self.best = best
        super().__init__(lambda number, asked: outcome(softmax64(torch.zeros(len(asked.data), C))), **options)

    def __call__(self, method: Method, data: TrainSet, **how: Any) -> Outcome:
        found = super().__call__(method, data, **how)
        if how.get("looks") is None:
            return found
        return replace(found, looks=rising_and_falling(self.best, self.epochs, how["looks"].labels, data.num_classes))


def ends_after(asked: Asked) -> int:
    """The epoch in which the callbacks of a training end it."""
    for epoch in range(100):
        record = EpochRecord({"stage": 0, "epoch": epoch, "loss": 1.0})
        if any(callback.on_epoch_end(record) for callback in asked.callbacks):
            return epoch + 1
    raise AssertionError("nothing ends it")


@pytest.mark.parametrize("best", [3, 6, 9])
def test_a_training_on_all_rows_ends_where_the_splits_predicted_most_given_labels(best: int) -> None:
    train, data = Shown(best, epochs=EPOCHS), many()
    EarlyStopping().fit(data, train)
    *splits, last = train.asked
    assert len(splits) == 5
    assert all(asked.looks is not None and isinstance(asked.method, CE) for asked in splits)
    held = torch.cat([asked.looks.rows for asked in splits if asked.looks is not None and asked.looks.rows is not None])
    assert held.sort().values.tolist() == list(range(len(data)))  # each row is judged once, by who never saw it
    assert last.data.rows is None
    assert last.looks is None
    assert ends_after(last) == best
    assert f"after {best} of {EPOCHS} epochs" in train.told[-1]


def test_of_large_data_one_part_stays_out_and_the_training_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "LARGE", 100)
    train = Shown(9, epochs=EPOCHS)
    EarlyStopping().fit(many(3400), train)
    watched, last = train.asked
    assert watched.looks is not None
    assert watched.data.rows is not None
    assert len(watched.data.rows) + len(watched.looks.labels) == 3400
    assert last.start_from is not None
    assert last.start_from[1] == 8.0
    assert ends_after(last) == 9


def test_of_too_few_rows_none_is_held_out_and_it_is_cross_entropy() -> None:
    train = Stages(lambda number, asked: outcome(torch.full((4, 2), 0.5)), epochs=EPOCHS)
    EarlyStopping().fit(many(4, 2), train)
    (asked,) = train.asked
    assert isinstance(asked.method, CE)
    assert not asked.callbacks


# Label Wave


def fed(method: LabelWave, data: TrainSet, classes: list[Tensor]) -> list[bool]:
    """A training whose predictions of epoch after epoch are given: whether it has ended after each."""
    ended, callback = [], Minimum(method)
    for epoch, said in enumerate(classes):
        for index in torch.arange(N).split(5):
            method.loss((5 * one_hot64(said[index], C)).float(), batch_of(data, index, epoch))
        method.end_epoch(epoch, no_sweep)
        ended.append(callback.on_epoch_end(EpochRecord({"stage": 0, "epoch": epoch, "loss": 1.0})))
    return ended


def changing(counts: list[int]) -> list[Tensor]:
    """Predictions of which so many change from one epoch to the next."""
    said = [LABELS]
    for count in counts:
        following = said[-1].clone()
        following[:count] = (following[:count] + 1) % C
        said.append(following)
    return said


def test_it_ends_once_the_smoothed_changes_of_mind_have_a_minimum() -> None:
    """By hand: means over three are 9, 7, 5, 3, 3 2/3, 5 1/3, ...; that 3 is the least is known two epochs later."""
    counts = [11, 9, 7, 5, 3, 1, 7, 8, 9, 9]
    method = LabelWave()
    data = ready(method, epochs=20)
    ended = fed(method, data, changing(counts))
    assert ended.index(True) == 8
    turn = method.watcher.turn()
    assert turn is not None
    assert turn == first_minimum([count / N for count in counts], waited(20))
    assert (turn.peak, turn.known) == (6.0, 9)


def test_changes_that_only_fall_do_not_end_it() -> None:
    method = LabelWave()
    data = ready(method, epochs=20)
    assert not any(fed(method, data, changing([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])))


def test_its_loss_is_cross_entropy() -> None:
    method = LabelWave()
    data = ready(method, epochs=20)
    outputs = torch.randn(N, C, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.cross_entropy(outputs.double(), LABELS, reduction="none")
    torch.testing.assert_close(method.loss(outputs, batch_of(data, torch.arange(N))).double(), expected)


class Watched(NoTrain):
    """A training of Label Wave whose predictions are made up, and whatever it asks for next."""

    epochs = 20

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts
        self.told: list[str] = []
        self.next: list[dict[str, Any]] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    def __call__(self, method: Method, data: TrainSet, **how: Any) -> Outcome:
        if not isinstance(method, LabelWave):
            self.next.append(how)
            return outcome(torch.full((N, C), 1 / C))
        method.setup(data, StagePlan(self.epochs, 5))
        ended = fed(method, data, changing(self.counts))
        done = ended.index(True) + 1 if True in ended else len(ended)
        history = [{"stage": 0, "epoch": epoch} for epoch in range(done)]
        return outcome(torch.full((N, C), 1 / C), history=history)


def test_the_training_steps_back_to_the_minimum_and_ends_there() -> None:
    train = Watched([11, 9, 7, 5, 3, 1, 7, 8, 9, 9])
    LabelWave().fit(many(N), train)
    (how,) = train.next
    assert how["start_from"][1] == 5
    assert how["callbacks"][0].epochs == 6
    assert "after 6 of 20 epochs" in train.told[0]


def test_without_a_minimum_the_last_epoch_is_the_result() -> None:
    train = Watched([12, 11, 10, 9, 8, 7, 6, 5, 4, 3])
    LabelWave().fit(many(N), train)
    assert not train.next


def test_what_it_has_seen_is_saved() -> None:
    method = LabelWave()
    data = ready(method, epochs=20)
    fed(method, data, changing([11, 9, 7, 5, 3, 1, 7, 8]))
    other = LabelWave()
    ready(other, epochs=20)
    other.load_state_dict(method.state_dict())
    assert other.watcher.turn() == method.watcher.turn()


def test_a_training_too_short_for_a_minimum_is_warned_of() -> None:
    assert "6 epochs at least" in (LabelWave().check(many(N), StagePlan(5, 4)) or "")
    assert LabelWave().check(many(N), StagePlan(6, 4)) is None
