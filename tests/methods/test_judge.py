"""Which rows are held out to decide by, in how many trainings, and what is made of them. The trainings are made up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from selc.callbacks import EpochRecord
from selc.data import ArrayInputs
from selc.errors import ConfigError
from selc.methods import CE
from selc.methods import judge as judging
from selc.methods.judge import Judged, Learnt, check_rate, judge, known_rate
from selc.turning import Reason
from selc.types import EvalSet, Labels, Pass, TrainSet
from tests.helpers import random_labels, random_targets, rng, train_set
from tests.methods.common import Asked, Stages, contradicted, many, outcome

ROWS, C = 240, 4


def stages(rows: int = ROWS, *, wrong: float = 0.2, **how: object) -> Stages:
    return Stages(lambda number, _: outcome(random_targets(rows, C, seed=number)), wrong=wrong, **how)  # type: ignore[arg-type]


def held_in(asked: Asked) -> Tensor:
    assert asked.looks is not None
    assert asked.looks.rows is not None
    return asked.looks.rows


def after(epochs: int, looks: Pass) -> EpochRecord:
    """What is known after so many epochs with a look in each."""
    return EpochRecord({"epoch": epochs - 1}, lambda: Pass(*(field[:epochs] for field in looks)))


def judged(data: TrainSet, **how: object) -> tuple[Judged, list[Asked]]:
    train = stages(len(data), **how)  # type: ignore[arg-type]
    return judge(data, train), train.asked


# Several splits


def test_every_row_is_held_out_once_and_trained_on_the_other_times() -> None:
    data = many()
    found, asked = judged(data)
    assert [type(a.method) for a in asked] == [CE] * 5
    assert torch.cat([held_in(a) for a in asked]).sort().values.tolist() == list(range(ROWS))
    for number, a in enumerate(asked, start=1):
        assert a.data.rows is not None
        assert torch.cat([held_in(a), a.data.rows]).sort().values.tolist() == list(range(ROWS))
        assert a.looks is not None
        assert torch.equal(a.looks.labels, data.labels.hard[held_in(a)])
        assert a.aside == f"split {number} of 5"
        assert (a.callbacks, a.start_from, a.model, a.changes) == ((), None, None, {})
    assert found.data is data
    assert (found.watched, found.looks) == (None, None)


def test_the_evidence_has_the_rows_in_their_order_with_what_was_predicted_of_each() -> None:
    """The predictions are made up by the number of the row, so that each must be where it belongs."""
    data = many()
    evidence = judged(data, wrong=0.3)[0].evidence
    assert evidence is not None
    rows, labels = torch.arange(ROWS), data.labels.hard
    off = contradicted(rows, 0.3)
    assert evidence.rows is not None
    assert torch.equal(evidence.rows, rows)
    assert torch.equal(evidence.labels, labels)
    sure = torch.tensor([0.3, 0.9, 0.99, 0.999])[rows % 4]
    for look in range(12):
        assert torch.equal(evidence.predictions[look], torch.where(off, (labels + 1) % C, labels))
        assert torch.equal(evidence.confidences[look], sure)
        torch.testing.assert_close(evidence.given[look], torch.where(off, (1 - sure) / C, sure))
    assert (evidence.looks, evidence.splits, evidence.num_classes) == (12, 5, C)


def test_what_was_learnt_of_a_label_is_a_mean_over_the_networks_that_were_trained_on_it() -> None:
    learnt, nan = Learnt(), torch.nan
    learnt.add(-torch.tensor([[0.5, 0.2, nan], [0.9, 0.4, nan]]).log())
    learnt.add(-torch.tensor([[0.7, nan, 0.3], [0.5, nan, 0.1]]).log())
    torch.testing.assert_close(learnt.mean(), torch.tensor([[0.6, 0.2, 0.3], [0.7, 0.4, 0.1]]))


def test_the_evidence_has_what_was_learnt_of_each_row() -> None:
    data = many()
    found, asked = judged(data)
    assert found.evidence is not None
    assert found.evidence.learnt is not None
    passes = [outcome(random_targets(ROWS, C, seed=number)).losses for number in range(5)]
    expected = torch.stack(passes).neg().exp().nanmean(dim=0)
    torch.testing.assert_close(found.evidence.learnt, expected, equal_nan=True)
    assert len(asked) == 5


def test_only_rows_that_are_trained_on_are_held_out() -> None:
    rows = torch.arange(0, ROWS, 2)
    asked = judged(replace(many(), rows=rows))[1]
    assert torch.cat([held_in(a) for a in asked]).sort().values.tolist() == rows.tolist()
    for a in asked:
        assert a.data.rows is not None
        assert torch.cat([held_in(a), a.data.rows]).sort().values.tolist() == rows.tolist()


def test_verified_rows_are_always_trained_on_and_never_held_out() -> None:
    verified = torch.rand(ROWS, generator=rng(3)) < 0.2
    found, asked = judged(replace(many(), verified=verified))
    assert torch.cat([held_in(a) for a in asked]).sort().values.tolist() == (~verified).nonzero().flatten().tolist()
    for a in asked:
        assert a.data.rows is not None
        assert set(verified.nonzero().flatten().tolist()) <= set(a.data.rows.tolist())
        assert a.data.verified is verified
    assert found.evidence is not None


@pytest.mark.parametrize(("count", "out"), [(9, False), (10, True)])
def test_a_class_with_fewer_than_ten_rows_is_never_held_out(count: int, out: bool) -> None:
    labels = torch.tensor([3] * count + [0, 1, 2] * 50)
    data = TrainSet(ArrayInputs(torch.arange(len(labels)).float()[:, None]), Labels(labels, C))
    asked = judged(data)[1]
    held = torch.cat([held_in(a) for a in asked])
    assert bool((labels[held] == 3).any()) == out
    for a in asked:
        assert a.data.rows is not None
        assert int((labels[a.data.rows] == 3).sum()) == count - (count // 5 if out else 0)


def test_groups_and_identical_inputs_are_never_split() -> None:
    """Also where rows hang together by both: a group has a row that is identical to one of another group."""
    x = torch.arange(ROWS).float()[:, None]
    x[200:] = x[:40]
    groups = torch.randint(90, (ROWS,), generator=rng(1))
    data = replace(TrainSet(ArrayInputs(x), many().labels), groups=groups)
    asked = judged(data)[1]
    part = torch.full((ROWS,), -1)
    for number, a in enumerate(asked):
        part[held_in(a)] = number
    assert bool((part >= 0).all())
    assert torch.equal(part[200:], part[:40])
    for group in groups.unique():
        assert len(part[groups == group].unique()) == 1


def test_with_few_groups_there_are_fewer_splits_and_with_one_nothing_is_held_out() -> None:
    data = many()
    three = replace(data, groups=torch.arange(ROWS) % 3)
    found, asked = judged(three)
    assert sorted(int(held_in(a)[0]) % 3 for a in asked) == [0, 1, 2]
    assert [a.aside for a in asked] == ["split 1 of 3", "split 2 of 3", "split 3 of 3"]
    assert found.evidence is not None
    assert found.evidence.splits == 3
    found, asked = judged(replace(data, groups=torch.zeros(ROWS, dtype=torch.int64)))
    assert (found.evidence, found.decision.reason, asked) == (None, Reason.TOO_FEW, [])


def test_two_groups_are_two_splits() -> None:
    found, asked = judged(replace(many(), groups=torch.arange(ROWS) % 2))
    assert len(asked) == 2
    assert found.evidence is not None
    assert found.evidence.splits == 2


def test_by_time_stretches_are_held_out() -> None:
    time = torch.rand(ROWS, generator=rng(0)).double()
    asked = judged(replace(many(), time=time))[1]
    ends = sorted((float(time[held_in(a)].min()), float(time[held_in(a)].max())) for a in asked)
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_where_nothing_can_be_held_out_nothing_is_decided_and_nothing_trained() -> None:
    data = train_set(random_labels(12, C, seed=0), C)
    found, asked = judged(data)
    assert asked == []
    assert found.evidence is None
    assert (found.decision.start, found.decision.reason) == (None, Reason.TOO_FEW)
    assert found.data is data


def test_the_seed_deals_the_parts() -> None:
    first, again, other = (judged(many(), seed=seed)[1] for seed in (1, 1, 2))
    assert all(torch.equal(held_in(a), held_in(b)) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(held_in(a), held_in(b)) for a, b in zip(first, other, strict=True))


def test_inputs_decide_who_is_dealt_together_and_nothing_else() -> None:
    """Otherwise the last digit of an input, which another machine may read otherwise, would deal anew."""
    data = many()
    x = next(iter(data.inputs.stream([torch.arange(ROWS)], None)))
    moved = replace(data, inputs=ArrayInputs(-3 * x - 1))
    for ours, theirs in zip(judged(data)[1], judged(moved)[1], strict=True):
        assert torch.equal(held_in(ours), held_in(theirs))


# One part that stays out, or a validation set


@pytest.mark.parametrize(
    ("seconds", "rows", "trainings"), [(15.0, 999, 5), (15.1, 999, 1), (0.0, 999, 5), (0.0, 1000, 1)]
)
def test_there_is_one_training_where_five_are_too_many(
    seconds: float, rows: int, trainings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four more trainings of 15 seconds are a minute; and from so many rows on, one part is enough."""
    monkeypatch.setattr(judging, "LARGE", 1000)
    assert len(judged(many(rows), seconds=seconds)[1]) == trainings


def test_one_part_in_33_stays_out_of_everything_that_follows() -> None:
    data = many(990)
    found, (only,) = judged(data, seconds=100.0)
    held = held_in(only)
    assert len(held) == 990 / 33
    assert sorted(data.labels.hard[held].unique().tolist()) == list(range(C))
    assert found.evidence is not None
    assert found.evidence.rows is not None
    assert torch.equal(found.evidence.rows, held)
    assert found.evidence.splits == 1
    assert found.data is only.data
    assert only.data.rows is not None
    assert torch.cat([held, only.data.rows]).sort().values.tolist() == list(range(990))
    assert found.looks is only.looks
    assert found.watched is not None
    assert found.watched.looks is not None


def test_by_time_it_is_the_latest_part_that_stays_out() -> None:
    time = torch.rand(990, generator=rng(0)).double()
    held = held_in(judged(replace(many(990), time=time), seconds=100.0)[1][0])
    assert held.tolist() == time.argsort()[-len(held) :].sort().values.tolist()


def test_a_validation_set_of_the_user_is_looked_at_and_nothing_is_held_out() -> None:
    data = many()
    labels = random_labels(100, C, seed=7)
    val = EvalSet(ArrayInputs(torch.zeros(100, 1)), labels)
    found, (only,) = judged(data, val=val)
    assert only.looks is val
    assert only.data is data
    assert found.data is data
    assert found.evidence is not None
    assert found.evidence.rows is None
    assert torch.equal(found.evidence.labels, labels)
    assert found.looks is val


@pytest.mark.parametrize(("epochs", "last"), [(10, 3), (20, 5), (100, 21), (12, 4)])
def test_a_watched_training_goes_on_for_a_fifth_of_the_epochs_after_the_start(epochs: int, last: int) -> None:
    """By hand: what is made up is as good in the first epoch as ever, so it is over 0.2 x epochs after that."""
    found, (only,) = judged(many(990), seconds=100.0, epochs=epochs)
    assert found.watched is not None
    looks = found.watched.looks
    assert looks is not None
    (switch,) = only.callbacks
    assert not switch.on_epoch_end(after(last - 1, looks))
    assert switch.on_epoch_end(after(last, looks))
    assert only.back == last - 1
    assert found.decision.start == epochs - (last - 1)  # it was not stopped: farther back there is no state


@pytest.mark.parametrize(("epochs", "rows", "seconds", "often"), [(4, 600, 1, 3), (4, 990, 100, 1), (4, 70_000, 1, 2)])
def test_where_there_are_few_epochs_several_looks_are_taken_in_each(
    epochs: int, rows: int, seconds: float, often: int
) -> None:
    """Ten looks at least; of one part no more than leave it a thousand rows, as a look is paid for by fewer rows."""
    found, asked = judged(many(rows), seconds=seconds, epochs=epochs)
    assert {a.per_epoch for a in asked} == {often}
    assert found.evidence is not None
    assert found.evidence.looks == epochs * often
    assert found.evidence.clock(often - 1) == 1
    if found.evidence.splits == 1:
        assert often * len(found.evidence.labels) <= rows / 33 + often


def test_where_looks_are_taken_more_often_a_start_is_still_told_in_epochs() -> None:
    """By hand: of four epochs one can be stepped back, so the start is after three, with three looks in each."""
    val = EvalSet(ArrayInputs(torch.zeros(20, 1)), random_labels(20, C, seed=7))
    found, (only,) = judged(many(33 * 60), epochs=4, val=val)
    assert (only.per_epoch, only.back) == (3, 1)
    assert found.decision.start == 3


def test_it_says_what_it_does_and_how_long_that_takes() -> None:
    train = stages(ROWS, seconds=2.0)
    judge(many(), train)
    assert train.told == [
        "Training 5 times, each time without another part of the rows, to see when wrong labels begin to be learnt by "
        "heart, then once on all of them: about 10 seconds."
    ]
    train = stages(990, seconds=600.0)
    judge(many(990), train)
    (told,) = train.told
    assert "Holding out" in told
    assert "about 13 minutes" in told
    train = stages(val=EvalSet(ArrayInputs(torch.zeros(40, 1)), random_labels(40, C, seed=0)))
    judge(many(), train)
    assert "validation set" in train.told[0]


# The share of wrong labels


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.3, 0.5])
def test_the_share_of_wrong_labels_is_that_which_sure_networks_contradict(wrong: float) -> None:
    assert known_rate("auto", many(), stages(wrong=wrong)) == pytest.approx(wrong, abs=0.01)


def test_it_can_be_told_from_a_validation_set_and_from_one_part() -> None:
    val = EvalSet(ArrayInputs(torch.zeros(ROWS, 1)), many().labels.hard)
    assert known_rate("auto", many(), stages(val=val, wrong=0.3)) == pytest.approx(0.3, abs=0.01)
    assert known_rate("auto", many(6600), stages(6600, seconds=100.0, wrong=0.3)) == pytest.approx(0.3, abs=0.1)


def test_of_too_few_rows_to_hold_any_out_no_label_is_taken_for_wrong() -> None:
    train = stages()
    assert known_rate("auto", train_set(random_labels(12, C, seed=0), C), train) == 0.0
    assert train.asked == []


def test_a_share_that_is_given_is_taken_and_nothing_is_trained() -> None:
    train = stages()
    assert known_rate(0.25, many(), train) == 0.25
    assert train.asked == []


@pytest.mark.parametrize("rate", [1.0, -0.1, "some"])
def test_a_share_out_of_range_is_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match=r"forget_rate must be in \[0, 1\) or 'auto'"):
        check_rate(rate, "forget_rate")
