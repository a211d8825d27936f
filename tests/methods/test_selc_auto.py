"""SELC that finds its own start: the step back, the guard, the pilot of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from selc.turning.paper import turning_point
from selc.core.turning import Turn
from selc.data import ArrayInputs, digits, moons
from selc.methods import CE, SELC, SELCPlus
from selc.methods.watch import found as maybe_found
from selc.nets import create
from selc.noise import draw_noise
from selc.train import Plan, Trainer
from selc.train.snapshots import Snapshots
from selc.types import Labels, Outcome, TrainSet
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, results

EPOCHS = 12


def found(history: list[dict[str, Any]]) -> Turn:
    turn = maybe_found(history)
    assert turn is not None
    return turn


def data_with(rate: float) -> TrainSet:
    bundle = moons()
    x = next(iter(bundle.inputs.stream([torch.arange(400)], None)))
    given = draw_noise("symmetric", bundle.labels[:400], 2, 0, {"rate": rate}).labels
    return TrainSet(ArrayInputs(x), Labels(given, 2))


def fit(method: Any, folder: Path | None = None, progress: Any = None, rate: float = 0.4) -> Outcome:
    plan = Plan(epochs=EPOCHS, lr=0.1, batch_size=32, schedule="step", milestones=[8], weight_decay=0.0)
    trainer = Trainer(plan, lambda k: create("mlp", k, (2,), {"hidden": [16]}), folder=folder, progress=progress)
    return trainer.fit(method, data_with(rate))


def test_stepping_back_gives_the_same_bits_as_never_having_gone_on() -> None:
    auto = fit(SELC())
    turn = found(auto.history)
    assert turn.start is not None
    direct = fit(SELC(start=turn.start, alpha=turn.alpha))
    for name, value in direct.model.state_dict().items():
        assert torch.equal(value, auto.model.state_dict()[name]), name
    assert torch.equal(direct.target.full(), auto.target.full())
    assert torch.equal(direct.losses, auto.losses)
    assert torch.equal(direct.predictions, auto.predictions)


def test_the_history_shows_what_was_undone_and_what_it_cost() -> None:
    auto = fit(SELC())
    watched = [e for e in auto.history if e["stage"] == 0]
    then = [e for e in auto.history if e["stage"] == 1]
    turn = found(auto.history)
    assert turn.start is not None
    assert "turning_point" in watched[-1]
    first = then[0]["epoch"]
    assert first <= turn.start
    assert [e["epoch"] for e in then] == list(range(first, EPOCHS))
    assert [e["epoch"] for e in watched if e.get("undone")] == list(range(first, len(watched)))
    assert auto.losses.shape == (EPOCHS, 400)


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5, 6, 8])
def test_broken_off_anywhere_it_goes_on_to_the_same_bits(epochs: int, tmp_path: Path) -> None:
    whole = fit(SELC())
    with pytest.raises(BrokenOffError):
        fit(SELC(), tmp_path, StopAfter(epochs))
    resumed = fit(SELC(), tmp_path)
    assert_same_bits(results(resumed), results(whole))
    assert torch.equal(resumed.corrected_labels, whole.corrected_labels)


def test_clean_labels_are_left_alone_and_the_network_is_that_of_ce() -> None:
    """On digits, which a network can learn: nothing is in dispute where it is sure of itself."""
    bundle = digits()
    data = TrainSet(bundle.inputs, Labels(bundle.labels, 10))
    plan = Plan(epochs=8, lr=0.02, schedule="constant", weight_decay=0.0, threads=1)
    make = lambda k: create("mlp", k, bundle.shape, {"hidden": [64]})  # noqa: E731
    auto = Trainer(plan, make).fit(SELC(), data)
    assert found(auto.history).start is None
    assert torch.equal(auto.corrected_labels, bundle.labels)
    ce = Trainer(plan, make).fit(CE(), data)
    for name, value in ce.model.state_dict().items():
        assert torch.equal(value, auto.model.state_dict()[name]), name


def test_rows_that_are_held_out_keep_their_labels() -> None:
    data = data_with(0.4)
    plan = Plan(epochs=EPOCHS, lr=0.1, batch_size=32, schedule="constant", weight_decay=0.0, val_fraction=0.2)
    trainer = Trainer(plan, lambda k: create("mlp", k, (2,), {"hidden": [16]}))
    outcome = trainer.fit(SELC(), data)
    assert trainer.val is not None
    held = trainer.val.rows
    assert held is not None
    assert torch.equal(outcome.corrected_labels[held], data.labels.hard[held])


@pytest.mark.filterwarnings("ignore:no label can change")
@pytest.mark.parametrize("epochs", [1, 2, 3, 4])
def test_very_short_trainings_end_with_a_word_about_the_turning_point(epochs: int) -> None:
    plan = Plan(epochs=epochs, lr=0.1, batch_size=32, schedule="constant", weight_decay=0.0)
    outcome = Trainer(plan, lambda k: create("mlp", k, (2,), {"hidden": [16]})).fit(SELC(), data_with(0.4))
    assert found(outcome.history).reason
    assert outcome.losses.shape == (epochs, 400)


def test_the_pilot_of_the_paper_starts_a_fresh_run_before_the_largest_m1() -> None:
    outcome = fit(SELC(start="pilot", alpha=0.9, margin=1))
    pilot = fit(CE())
    start = max(turning_point(pilot.losses, "M1") - 1, 0)
    direct_loss = [e for e in outcome.history if e["stage"] == 1]
    assert len(direct_loss) == EPOCHS
    changed = [e["epoch"] for e in direct_loss if e["changed"] > 0]
    assert not changed or changed[0] >= start


def test_selc_plus_starts_from_what_automatic_selc_is_sure_of() -> None:
    first = fit(SELC())
    plus = fit(SELCPlus())
    assert torch.equal(plus.target.full(), first.target.full())
    assert torch.equal(plus.corrected_labels, first.corrected_labels)
    assert {e["stage"] for e in plus.history} == {2}


def test_at_most_eight_snapshots_are_kept_and_there_is_always_one_near(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "snapshots"):
        snapshots = Snapshots(folder)
        for epoch in range(200):
            snapshots.save(epoch, {"w": torch.tensor([float(epoch)])}, {"epoch": epoch})
            assert len(snapshots.epochs()) <= 8
            for clock in (0.8 * epoch, 0.9 * epoch, epoch):
                before = snapshots.before(clock)
                assert before <= clock
                assert before >= clock / 2 - 1
        tensors, values = snapshots.load(128)
        assert float(tensors["w"]) == values["epoch"] == 128


def test_wrong_words_get_their_sentence() -> None:
    with pytest.raises(ValueError, match="start must be a number of epochs, 'auto' or 'pilot'"):
        SELC(start="soon")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"alpha must be a number in \[0, 1\) or 'auto'"):
        SELC(alpha="high")  # type: ignore[arg-type]


def test_an_alpha_too_high_for_the_epochs_that_are_left_is_said_before_training() -> None:
    with pytest.warns(UserWarning, match=r"no label can change: with alpha 0.9 that takes 7 epochs .* 4 are left"):
        fit(SELC(start=8, alpha=0.9))
    assert SELC(start=5, alpha=0.9).check(data_with(0.4), EPOCHS, 16) is None  # 0.9^7 < 0.5
    assert SELC(start=0, alpha=0.0).check(data_with(0.4), 1, 16) is None
