"""SELC that finds its own start by rows that are held out: five splits, or one training and a step back; the pilot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from selc._io.files import read_json, read_tensors
from selc.analysis import analyse
from selc.callbacks import Callback
from selc.data import ArrayInputs, digits, moons
from selc.methods import CE, SELC, Method, SELCPlus
from selc.methods import judge as judging
from selc.methods import selc as selc_method
from selc.methods.base import Train
from selc.nets import create
from selc.noise import draw_noise
from selc.training import Plan, Trainer
from selc.training.checkpoints.snapshots import Snapshots
from selc.turning import Decision, Evidence, Reason, TurningPoint
from selc.turning.paper import turning_point
from selc.types import Decided, EvalSet, Labels, Outcome, StagePlan, TrainSet
from tests.methods.common import Over, Stages
from tests.methods.common import outcome as made_up
from tests.tiers import but_for, exhaustive
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, results

EPOCHS, ROWS = 12, 400
LONG = 20  # epochs of the trainings on digits


def data_with(rate: float = 0.4) -> TrainSet:
    bundle = moons()
    x = next(iter(bundle.inputs.stream([torch.arange(ROWS)], None)))
    given = draw_noise("symmetric", bundle.labels[:ROWS], 2, 0, {"rate": rate}).labels
    return TrainSet(ArrayInputs(x), Labels(given, 2))


def heard_by(callback: Callback | None) -> list[Callback]:
    return [] if callback is None else [callback]


def a_trainer(folder: Path | None = None, callback: Callback | None = None, **plan: Any) -> Trainer:
    settings = {"epochs": EPOCHS, "lr": 0.1, "batch_size": 32, "schedule": "step", "milestones": [8], **plan}
    made = lambda k: create("mlp", k, (2,), {"hidden": [16]})  # noqa: E731
    return Trainer(
        Plan(weight_decay=0.0, threads=1, **settings), made, folder=folder, callbacks=[callback] if callback else []
    )


def fit(method: Method, folder: Path | None = None, callback: Callback | None = None, **plan: Any) -> Outcome:
    return a_trainer(folder, callback, **plan).fit(method, data_with())


class Digits:
    """Some digits of which four in ten labels are wrong, and others to validate by."""

    def __init__(self, rate: float = 0.4, rows: int = 600) -> None:
        bundle = digits()
        x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
        given = draw_noise("symmetric", bundle.labels, 10, 0, {"rate": rate}).labels
        self.shape, self.true = bundle.shape, bundle.labels[:rows]
        self.data = TrainSet(ArrayInputs(x[:rows]), Labels(given[:rows], 10))
        self.val = EvalSet(ArrayInputs(x[rows : rows + 300]), given[rows : rows + 300])

    def trainer(
        self,
        folder: Path | None = None,
        callback: Callback | None = None,
        *,
        val: bool = False,
        epochs: int = LONG,
        **plan: Any,
    ) -> Trainer:
        settings = {"lr": 0.01, "batch_size": 32, "schedule": "constant", "weight_decay": 0.0, "threads": 1, **plan}
        made = lambda k: create("mlp", k, self.shape, {"hidden": [128]})  # noqa: E731
        used = self.val if val else None
        return Trainer(
            Plan(epochs=epochs, **settings), made, val=used, folder=folder, callbacks=[callback] if callback else []
        )


@pytest.fixture(scope="module")
def noisy() -> Digits:
    return Digits()


def turning_of(outcome: Outcome) -> TurningPoint:
    assert isinstance(outcome.decided, TurningPoint)
    return outcome.decided


def decision_of(outcome: Outcome) -> Decision:
    return turning_of(outcome).decision


def evidence_of(outcome: Outcome) -> Evidence:
    evidence = turning_of(outcome).evidence
    assert evidence is not None
    return evidence


def same_network(ours: Outcome, theirs: Outcome) -> None:
    for name, value in theirs.model.state_dict().items():
        assert torch.equal(value, ours.model.state_dict()[name]), name


def same_evidence(ours: Outcome, theirs: Outcome) -> None:
    """To the last bit, and so what was decided by it."""
    mine, other = evidence_of(ours).tensors(), evidence_of(theirs).tensors()
    assert mine.keys() == other.keys()
    for name in mine:
        assert torch.equal(mine[name], other[name]), name
    assert decision_of(ours) == decision_of(theirs)


class Noting(Over):
    """Hands trainings on to a real trainer, and notes them."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer)
        self.seen: list[tuple[Method, TrainSet, dict[str, Any], Outcome]] = []
        self.decisions: list[Decided] = []

    def decided(self, decided: Decided) -> None:
        self.decisions.append(decided)

    def __call__(self, method: Method, data: TrainSet, **how: Any) -> Outcome:
        outcome = super().__call__(method, data, **how)
        self.seen.append((method, data, how, outcome))
        return outcome


class After(Method):
    """Another method, in a stage after so many others: for what a stage draws its number counts."""

    def __init__(self, method: Method, others: int) -> None:
        super().__init__()
        self.method, self.others = method, others

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        for _ in range(self.others):
            train(CE(), data, epochs=1)
        return train(self.method, data)


# Five splits


@cache
def undisturbed() -> Outcome:
    """What comes out of one uninterrupted training; many tests look at it, and none changes it."""
    return fit(SELC())


def test_every_row_is_judged_by_a_network_that_was_not_trained_on_it() -> None:
    train, data = Noting(a_trainer()), data_with()
    outcome = SELC().fit(data, train)
    *splits, last = train.seen
    assert [type(method) for method, *_ in splits] == [CE] * 5
    times = torch.zeros(ROWS)
    for _, _, how, split in splits:
        held = how["looks"].rows
        times[held] += 1
        trained = ~split.losses.isnan()
        assert not bool(trained[:, held].any())
        rest = torch.ones(ROWS, dtype=torch.bool).index_fill_(0, held, False)
        assert bool(trained[:, rest].all())
        assert split.looks is not None
        found = evidence_of(outcome)
        assert torch.equal(found.predictions[:, held], split.looks.predictions)
        assert torch.equal(found.confidences[:, held], split.looks.confidences)
        torch.testing.assert_close(found.given[:, held], torch.exp(-split.looks.losses))
    assert bool((times == 1).all())
    method, used, how, _ = last
    assert isinstance(method, SELC)
    assert used is data
    assert how == {}
    assert train.decisions == [outcome.decided]


def test_what_is_looked_at_is_what_the_network_predicts_after_each_epoch() -> None:
    """Against the network itself: a split's last look is what its finished network says."""
    train = Noting(a_trainer())
    data = data_with()
    SELC().fit(data, train)
    for _, _, how, split in train.seen[:-1]:
        held = how["looks"].rows
        p = split.probs.full()[held]
        assert split.looks is not None
        torch.testing.assert_close(split.looks.confidences[-1], p.amax(dim=1))
        assert torch.equal(split.looks.predictions[-1].long(), p.argmax(dim=1))
        given = p.gather(1, data.labels.hard[held][:, None]).squeeze(1)
        torch.testing.assert_close(torch.exp(-split.looks.losses[-1]), given)
        hits = [float((look == data.labels.hard[held]).double().mean()) for look in split.looks.predictions]
        assert [entry["held_out"] for entry in split.history] == hits
        assert {entry["aside"] for entry in split.history} == {how["aside"]}


class Heard(Callback):
    """Notes what is said."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.decisions: list[dict[str, Any]] = []
        self.stages: list[str] = []

    def on_stage_begin(self, stage: int, epochs: int, first_epoch: int, rows: int, aside: str) -> None:
        self.stages.append(aside)

    def on_message(self, text: str) -> None:
        self.told.append(text)

    def on_decision(self, decided: Decided) -> None:
        assert isinstance(decided, TurningPoint)
        self.decisions.append(decided.decision.as_dict())


def test_whoever_watches_hears_what_is_done_and_what_was_decided() -> None:
    heard = Heard()
    outcome = fit(SELC(), callback=heard)
    assert len(heard.told) == 1
    assert heard.decisions == [decision_of(outcome).as_dict()]
    assert heard.stages == [*(f"split {number} of 5" for number in range(1, 6)), ""]


def test_the_training_that_counts_has_the_bits_of_a_start_that_was_given() -> None:
    auto = undisturbed()
    found = decision_of(auto)
    assert found.start is not None
    given = fit(After(SELC(start=found.start, alpha=found.alpha), 5))
    assert_same_bits(results(auto), results(given))
    assert {entry["stage"] for entry in auto.history} == {5}


def test_an_alpha_that_is_given_is_kept() -> None:
    auto = fit(SELC(alpha=0.5, option="I", weighted=True))
    start = decision_of(auto).start
    assert start is not None
    given = fit(After(SELC(start=start, alpha=0.5, option="I", weighted=True), 5))
    assert_same_bits(results(auto), results(given))


def test_wrong_labels_that_are_learnt_by_heart_show_and_are_put_right(noisy: Digits) -> None:
    outcome = noisy.trainer().fit(SELC(), noisy.data)
    found = decision_of(outcome)
    assert found.start is not None
    assert found.start <= found.best < LONG / 2
    given = noisy.data.labels.hard
    right = [
        float((labels == noisy.true).double().mean())
        for labels in (given, outcome.believed_labels, analyse(outcome, given, 10).corrected)
    ]
    assert right[0] < 0.65
    assert min(right[1:]) > right[0] + 0.1
    assert not any(entry["would_relabel"] > 0 for entry in outcome.history[: int(found.start)])


def test_clean_labels_are_left_alone() -> None:
    """On digits, which a network can learn: next to nothing is contradicted where it is sure of itself."""
    clean = Digits(rate=0.0)
    outcome = clean.trainer().fit(SELC(), clean.data)
    assert decision_of(outcome).reason is Reason.NO_FALL
    found = analyse(outcome, clean.true, 10)
    assert int((found.corrected != clean.true).sum()) <= 0.005 * len(clean.true)
    assert found.noise_rate is not None
    assert found.noise_rate.low < 0.005


def test_where_nothing_can_be_learnt_no_label_is_changed_and_the_network_is_that_of_ce() -> None:
    """Labels that have nothing to do with the inputs."""
    data = data_with()
    chance = torch.randint(2, (ROWS,), generator=torch.Generator().manual_seed(5))
    data = TrainSet(data.inputs, Labels(chance, 2))
    outcome = a_trainer().fit(SELC(), data)
    found = decision_of(outcome)
    assert (found.start, found.reason) == (None, Reason.NOT_LEARNT)
    assert torch.equal(outcome.target.full(), torch.eye(2)[chance])
    assert torch.equal(analyse(outcome, chance, 2).corrected, chance)
    same_network(outcome, a_trainer().fit(After(CE(), 5), data))


def test_where_nothing_can_be_held_out_no_label_is_changed_and_the_network_is_that_of_ce() -> None:
    whole = data_with()
    few = torch.cat([(whole.labels.hard == k).nonzero().flatten()[:9] for k in range(2)])
    x = next(iter(whole.inputs.stream([few], None)))
    data = TrainSet(ArrayInputs(x), Labels(whole.labels.hard[few], 2))
    with pytest.warns(UserWarning, match="one batch holds all"):
        outcome = a_trainer().fit(SELC(), data)
    with pytest.warns(UserWarning, match="one batch holds all"):
        same_network(outcome, a_trainer().fit(CE(), data))
    assert (turning_of(outcome).evidence, decision_of(outcome).reason) == (None, Reason.TOO_FEW)
    assert torch.equal(outcome.target.full(), torch.eye(2)[data.labels.hard])
    assert torch.equal(outcome.corrected_labels, data.labels.hard)
    assert torch.equal(analyse(outcome, data.labels.hard, 2).corrected, data.labels.hard)
    assert {entry["stage"] for entry in outcome.history} == {0}


@pytest.mark.filterwarnings("ignore:no label can change")
@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_very_short_trainings_end_with_a_decision(epochs: int) -> None:
    outcome = fit(SELC(), epochs=epochs, schedule="constant")
    found = decision_of(outcome)
    assert found.start is None or 0 < found.start <= epochs
    assert found == Decision.from_dict(found.as_dict())
    assert outcome.losses.shape == (epochs, ROWS)
    assert evidence_of(outcome).looks == epochs * math.ceil(10 / epochs)
    if found.start is None or found.start > epochs - 1:  # not every label would be visited once more
        assert torch.equal(outcome.target.argmax(), data_with().labels.hard)


@pytest.mark.exhaustive
@pytest.mark.parametrize("schedule", [{"schedule": "constant"}, {"schedule": "cosine"}, {"milestones": [15, 22]}])
def test_with_any_schedule_the_start_is_near_the_best_epoch_by_true_labels(schedule: dict[str, Any]) -> None:
    """Which the run does not know: of the held-out rows it is told the given labels, of which one in five is wrong."""
    noisy = Digits(rate=0.2)
    settings: dict[str, Any] = {"schedule": "step", "lr": 0.02, "epochs": 30, **schedule}
    outcome = noisy.trainer(**settings).fit(SELC(), noisy.data)
    evidence = evidence_of(outcome)
    assert evidence.rows is not None
    truly = (evidence.predictions == noisy.true[evidence.rows]).double().mean(dim=1)
    around = torch.stack([truly[max(look - 1, 0) : look + 2].mean() for look in range(30)])
    assert float(around[decision_of(outcome).first]) > float(around.max()) - 0.06
    given = noisy.data.labels.hard
    corrected = analyse(outcome, given, 10).corrected
    assert float((corrected == noisy.true).double().mean()) >= float((given == noisy.true).double().mean())


# Looking


def test_looking_has_no_effect_on_the_training() -> None:
    data = data_with()
    held, rest = torch.arange(0, ROWS, 5), (torch.arange(ROWS) % 5).nonzero().flatten()
    data = replace(data, rows=rest)
    looks = EvalSet(data.inputs, data.labels.hard[held], held)
    made: Callable[[int], Any] = lambda k: torch.nn.Sequential(  # noqa: E731
        torch.nn.Linear(2, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(16, k)
    )
    plan = Plan(epochs=4, lr=0.1, batch_size=32, schedule="constant", threads=1)
    blind, looking = Trainer(plan, made)(CE(), data), Trainer(plan, made)(CE(), data, looks=looks)
    often = Trainer(plan, made)(CE(), data, looks=looks, per_epoch=3)
    assert often.looks is not None
    assert looking.looks is not None
    assert often.looks.losses.shape == (12, len(held))
    assert torch.equal(often.looks.losses[2::3], looking.looks.losses)
    assert not torch.equal(often.looks.losses[1::3], looking.looks.losses)
    assert blind.looks is None
    for outcome in (looking, often):
        for entry in outcome.history:
            del entry["held_out"]
        assert_same_bits(results(outcome), results(blind))


# One training that is watched, and the step back


@pytest.fixture(scope="module")
def watched(noisy: Digits) -> Outcome:
    return noisy.trainer(val=True).fit(SELC(), noisy.data)


def test_with_a_validation_set_one_training_is_watched_and_stopped_in_time(noisy: Digits, watched: Outcome) -> None:
    found = decision_of(watched)
    assert found.start is not None
    first = [entry for entry in watched.history if entry["stage"] == 0]
    assert first[-1]["stop"]
    assert not any(entry["stop"] for entry in first[:-1])
    assert 0 <= len(first) - found.start - 0.2 * LONG < 1
    assert len(watched.history) <= 1.3 * LONG
    assert evidence_of(watched).looks == len(first)
    assert evidence_of(watched).rows is None
    assert torch.equal(evidence_of(watched).labels, noisy.val.labels)
    assert not bool(watched.losses.isnan().any())  # nothing was held out


def test_the_history_shows_what_was_undone_and_what_it_cost(watched: Outcome) -> None:
    found = decision_of(watched)
    assert found.start is not None
    first = [entry for entry in watched.history if entry["stage"] == 0]
    then = [entry for entry in watched.history if entry["stage"] == 1]
    again = then[0]["epoch"]
    assert again <= found.start
    assert [entry["epoch"] for entry in then] == list(range(again, LONG))
    assert [entry["epoch"] for entry in first if entry.get("undone")] == list(range(again, len(first)))
    assert watched.losses.shape == (LONG, 600)


def test_stepping_back_gives_the_same_bits_as_never_having_gone_on(noisy: Digits, watched: Outcome) -> None:
    found = decision_of(watched)
    assert found.start is not None
    direct = noisy.trainer().fit(SELC(start=found.start, alpha=found.alpha), noisy.data)
    same_network(watched, direct)
    assert torch.equal(direct.target.full(), watched.target.full())
    assert torch.equal(direct.losses, watched.losses)
    assert torch.equal(direct.predictions, watched.predictions)
    assert torch.equal(direct.beliefs[int(found.start) :], watched.beliefs[int(found.start) :])


def test_what_is_held_out_of_large_data_stays_out_and_keeps_its_labels(
    noisy: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "LARGE", 600)
    monkeypatch.setattr(judging, "ONE_IN", 5)
    outcome = noisy.trainer().fit(SELC(), noisy.data)
    found, held = decision_of(outcome), evidence_of(outcome).rows
    assert found.start is not None
    assert held is not None
    assert len(held) == pytest.approx(600 / 5, abs=10)
    assert bool(outcome.losses[:, held].isnan().all())
    rest = torch.ones(600, dtype=torch.bool).index_fill_(0, held, False)
    assert not bool(outcome.losses[:, rest].isnan().any())
    given = noisy.data.labels.hard
    assert torch.equal(outcome.believed_labels[held], given[held])
    assert not torch.equal(outcome.believed_labels[rest], given[rest])
    assert len(outcome.history) <= 1.3 * LONG + 1
    direct = noisy.trainer().fit(
        SELC(start=found.start, alpha=found.alpha), replace(noisy.data, rows=rest.nonzero().flatten())
    )
    same_network(outcome, direct)


def test_if_selc_predicts_worse_the_network_is_that_of_the_best_epoch(
    noisy: Digits, watched: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trained once more up to there; what SELC believes of the labels stays."""
    asked: list[Tensor] = []

    def always(evidence: Evidence, later: Tensor) -> bool:
        asked.append(later)
        return True

    monkeypatch.setattr(selc_method, "worse", always)
    outcome = noisy.trainer(val=True).fit(SELC(), noisy.data)
    same_evidence(outcome, watched)
    assert torch.equal(outcome.target.full(), watched.target.full())
    assert watched.looks is not None
    assert torch.equal(asked[0], watched.looks.predictions)
    best = int(decision_of(outcome).best)
    same_network(outcome, noisy.trainer(epochs=best).fit(CE(), noisy.data))


@pytest.mark.filterwarnings("ignore:no label can change")
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_validation_set_of_few_rows_shows_nothing_and_that_can_be_written_down(rows: int, tmp_path: Path) -> None:
    """A fall is measured on one half of the rows, and of one row there is no telling; it says so in numbers that a
    file can hold."""
    data = data_with()
    trainer = a_trainer(tmp_path)
    x = next(iter(data.inputs.stream([torch.arange(rows)], None)))
    trainer.val = EvalSet(ArrayInputs(x), data.labels.hard[:rows])
    outcome = trainer.fit(SELC(), data)
    assert Decision.from_dict(read_json(tmp_path / "decision.json")) == decision_of(outcome)
    assert not decision_of(outcome).can_see


# Broken off


@pytest.mark.parametrize("epochs", but_for([1, 12, 13, 40, 59, 60, 68, 71], [1, 12, 13, 40, 59, 60, 61, 68, 71]))
def test_broken_off_in_a_split_or_after_it_goes_on_to_the_same_bits(epochs: int, tmp_path: Path) -> None:
    """Five splits of twelve epochs, then the training that counts."""
    whole = undisturbed()
    with pytest.raises(BrokenOffError):
        fit(SELC(), tmp_path, StopAfter(epochs))
    resumed = fit(SELC(), tmp_path)
    assert_same_bits(results(resumed), results(whole))
    same_evidence(resumed, whole)
    assert torch.equal(resumed.corrected_labels, whole.corrected_labels)
    assert Decision.from_dict(read_json(tmp_path / "decision.json")) == decision_of(whole)
    saved = Evidence.from_tensors(read_tensors(tmp_path / "evidence.safetensors"), 2)
    assert torch.equal(saved.predictions, evidence_of(whole).predictions)
    assert torch.equal(saved.given, evidence_of(whole).given)


@pytest.mark.parametrize("part", ["stop", "after the step back", *exhaustive("first", "before the stop", "last")])
def test_broken_off_while_watched_or_after_the_step_back_it_goes_on_to_the_same_bits(
    part: str, noisy: Digits, watched: Outcome, tmp_path: Path
) -> None:
    stopped = len([entry for entry in watched.history if entry["stage"] == 0])
    total = len(watched.history)
    epochs = {"first": 1, "before the stop": stopped - 1, "stop": stopped, "last": total - 1}.get(part, stopped + 1)
    with pytest.raises(BrokenOffError):
        noisy.trainer(tmp_path, StopAfter(epochs), val=True).fit(SELC(), noisy.data)
    resumed = noisy.trainer(tmp_path, val=True).fit(SELC(), noisy.data)
    assert_same_bits(results(resumed), results(watched))
    same_evidence(resumed, watched)


@pytest.mark.parametrize("more", but_for([1, 3], [1, 2, 3]))
@pytest.mark.exhaustive
def test_broken_off_when_selc_was_worse_it_goes_on_to_the_same_bits(
    more: int, noisy: Digits, watched: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selc_method, "worse", lambda *_: True)
    best, total = int(decision_of(watched).best), len(watched.history)
    whole = noisy.trainer(val=True).fit(SELC(), noisy.data)
    again = len([entry for entry in whole.history if entry["stage"] == 2])
    assert 1 <= again <= best
    # In the last epoch of SELC, in the first one that is trained once more, and when all is done.
    epochs = {1: total, 2: total + 1, 3: total + again}[more]
    with pytest.raises(BrokenOffError):
        noisy.trainer(tmp_path, StopAfter(epochs), val=True).fit(SELC(), noisy.data)
    assert_same_bits(results(noisy.trainer(tmp_path, val=True).fit(SELC(), noisy.data)), results(whole))


# Rows that are set aside, and what a person has verified


def test_rows_that_are_held_out_keep_their_labels() -> None:
    data = data_with()
    trainer = a_trainer(schedule="constant", val_fraction=0.2)
    outcome = trainer.fit(SELC(), data)
    assert trainer.val is not None
    held = trainer.val.rows
    assert held is not None
    assert torch.equal(outcome.believed_labels[held], data.labels.hard[held])
    assert torch.equal(evidence_of(outcome).labels, data.labels.hard[held])


def test_verified_labels_stay_and_are_trained_on_but_are_no_evidence() -> None:
    verified = torch.arange(ROWS) % 4 == 0
    train = Noting(a_trainer())
    data = replace(data_with(), verified=verified)
    outcome = SELC().fit(data, train)
    rows = evidence_of(outcome).rows
    assert rows is not None
    assert torch.equal(rows, (~verified).nonzero().flatten())
    for *_, trained in train.seen:
        assert not bool(trained.losses[:, verified].isnan().any())
    assert torch.equal(outcome.believed_labels[verified], data.labels.hard[verified])


# The paper's pilot, SELC+, and the rest


@pytest.mark.parametrize(("margin", "start"), [(1, 3), (10, 0)])
def test_after_a_pilot_the_start_and_the_momentum_are_the_paper_s(margin: int, start: int) -> None:
    """Losses lie farthest apart in the fifth epoch, after four."""
    losses = torch.linspace(0, 1, ROWS).repeat(8, 1)
    losses[4] = (torch.arange(ROWS) % 2).float()
    train = Stages(lambda number, _: made_up(torch.full((ROWS, 2), 0.5), losses=losses), epochs=8)
    SELC(start="pilot", margin=margin).fit(data_with(), train)
    pilot, run = train.asked
    assert isinstance(pilot.method, CE)
    assert isinstance(run.method, SELC)
    assert (run.method.start, run.method.alpha) == (start, 0.9)


@pytest.mark.exhaustive
def test_the_pilot_of_the_paper_starts_a_fresh_run_before_the_largest_m1() -> None:
    outcome = fit(SELC(start="pilot", alpha=0.9, margin=1))
    pilot = fit(CE())
    start = max(turning_point(pilot.losses, "M1") - 1, 0)
    direct_loss = [e for e in outcome.history if e["stage"] == 1]
    assert len(direct_loss) == EPOCHS
    changed = [e["epoch"] for e in direct_loss if e["would_relabel"] > 0]
    assert not changed or changed[0] >= start
    assert_same_bits(results(outcome), results(fit(After(SELC(start=start, alpha=0.9), 1))))
    assert outcome.decided is None


def test_selc_plus_starts_from_what_automatic_selc_believes_and_keeps_what_it_decided_by() -> None:
    first = undisturbed()
    plus = fit(SELCPlus())
    assert torch.equal(plus.target.full(), first.target.full())
    assert torch.equal(plus.corrected_labels, first.corrected_labels)
    same_evidence(plus, first)
    assert {e["stage"] for e in plus.history} == {5, 16}  # SELC, and after ten trials of mixup the second network


@pytest.mark.parametrize("back", [1, 4, 20, 37])
def test_few_snapshots_are_kept_and_there_is_always_one_near(tmp_path: Path, back: int) -> None:
    for folder in (None, tmp_path / "snapshots"):
        snapshots = Snapshots(folder, back)
        for epoch in range(90):
            snapshots.save(epoch, {"w": torch.tensor([float(epoch)])}, {"epoch": epoch})
            assert len(snapshots.epochs()) <= 7
            for clock in range(max(0, epoch - back), epoch + 1):
                before = snapshots.before(clock)
                assert clock - math.ceil(back / 5) < before <= clock
        assert snapshots.before(0) == min(snapshots.epochs())  # too long ago
        tensors, values = snapshots.load(snapshots.before(89))
        assert float(tensors["w"]) == values["epoch"] > 89 - math.ceil(back / 5)


@pytest.mark.exhaustive
def test_only_a_training_that_may_be_stopped_keeps_snapshots(noisy: Digits, tmp_path: Path) -> None:
    fit(SELC(), tmp_path / "splits")
    assert list((tmp_path / "splits").rglob("snapshots")) == []
    noisy.trainer(tmp_path / "watched", val=True).fit(SELC(), noisy.data)
    kept = list((tmp_path / "watched").rglob("snapshots/*"))
    assert {path.parent.parent.name for path in kept} == {"stage-0"}
    assert 0 < len(kept) <= 8


def test_wrong_words_get_their_sentence() -> None:
    with pytest.raises(ValueError, match="start must be a number of epochs, 'auto' or 'pilot'"):
        SELC(start="soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"alpha must be a number in \[0, 1\) or 'auto'"):
        SELC(alpha="high")  # type: ignore[arg-type]


def test_an_alpha_too_high_for_the_epochs_that_are_left_is_said_before_training() -> None:
    with pytest.warns(UserWarning, match=r"no label can change: with alpha 0.9 that takes 7 epochs .* 4 are left"):
        fit(SELC(start=8, alpha=0.9))
    assert SELC(start=5, alpha=0.9).check(data_with(0.4), StagePlan(EPOCHS, 16)) is None  # 0.9^7 < 0.5
    assert SELC(start=0, alpha=0.0).check(data_with(0.4), StagePlan(1, 16)) is None
