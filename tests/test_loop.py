"""The loop: what it records, how it evaluates, which network it keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc.callbacks import Callback, EpochRecord
from selc.data import ArrayInputs, crop_and_flip
from selc.methods import CE, GCE, Method, SELCPlus
from selc.nets import create
from selc.training import Plan, Trainer
from selc.types import Batch, EvalSet, Labels, Step, TrainSet
from tests.float64 import in_float64
from tests.toy import assert_same_bits, blobs, fit, results, train_set, trainer


@in_float64()
def test_training_by_the_loop_equals_a_loop_written_out() -> None:
    """The same batches through plain torch give the same weights, up to roundings, which float64 keeps small."""
    seen: list[Batch] = []

    class Watched(CE):
        def step(self, model: nn.Module, batch: Batch) -> Step:
            seen.append(batch)
            return super().step(model, batch)

    def net(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs))

    plan = Plan(epochs=3, lr=0.1, batch_size=20, schedule="step", milestones=[2], momentum=0.9, weight_decay=0.01)
    initial: dict[str, Tensor] = {}

    def remembered(outputs: int) -> nn.Module:
        made = net(outputs)
        initial.update({k: v.clone() for k, v in made.state_dict().items()})
        return made

    outcome = Trainer(plan, remembered).fit(Watched(), train_set())

    model = net(3)
    model.load_state_dict(initial)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2], gamma=0.1)
    x, _ = blobs()
    given = train_set().labels.hard
    for epoch in range(3):
        for batch in seen[epoch * 5 : (epoch + 1) * 5]:
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch.index]), F.one_hot(given[batch.index], 3).float()).backward()
            optimizer.step()
        scheduler.step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(outcome.model.state_dict()[name], value, rtol=1e-9, atol=1e-9)


def test_recorded_losses_are_those_of_the_training_pass_on_the_given_labels() -> None:
    expected = torch.full((3, 90), torch.nan)
    predicted = torch.full((3, 90), -1)

    class Watched(GCE):  # another loss than the recorded one
        def step(self, model: nn.Module, batch: Batch) -> Step:
            step = super().step(model, batch)
            assert step.outputs is not None
            given = batch.target.argmax(1)
            expected[int(batch.clock), batch.index] = F.cross_entropy(step.outputs, given, reduction="none").detach()
            predicted[int(batch.clock), batch.index] = step.outputs.argmax(1)
            return step

    outcome = fit(Watched(), epochs=3)
    torch.testing.assert_close(outcome.losses, expected)
    assert torch.equal(outcome.predictions.long(), predicted)
    torch.testing.assert_close(outcome.history[2]["given_loss"], expected[2].mean().item(), rtol=1e-5, atol=0)


def test_a_sweep_records_the_losses_of_the_network_after_the_epoch_in_eval_mode_even_where_a_step_mixes() -> None:
    def net(outputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, outputs))

    plan = Plan(epochs=2, lr=0.1, batch_size=20, losses="sweep")
    for method in (CE(), SELCPlus(start=1, alpha=0.5)):
        outcome = Trainer(plan, net).fit(method, train_set())
        given = train_set().labels.hard
        with torch.no_grad():
            logits = outcome.model.eval()(blobs()[0])
        expected = F.cross_entropy(logits, given, reduction="none")
        if isinstance(method, CE):
            torch.testing.assert_close(outcome.losses[-1], expected, rtol=1e-5, atol=1e-6)
        else:  # its second stage is trained on the corrected labels, and its losses are those on them
            assert bool(torch.isfinite(outcome.losses).all())


def test_a_step_that_mixes_inputs_has_no_recorded_losses() -> None:
    outcome = fit(SELCPlus(start=1))
    assert bool(torch.isnan(outcome.losses).all())
    assert "given_loss" not in outcome.history[0]


def test_the_clock_counts_epochs_with_a_fraction() -> None:
    clocks: list[float] = []

    class Watched(CE):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            clocks.append(batch.clock)
            return super().loss(outputs, batch)

    fit(Watched(), epochs=2, batch_size=30)
    assert clocks == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3])


def test_accuracy_is_reported_for_every_named_set_and_top5_beyond_five_classes() -> None:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 8
    model = nn.Linear(8, 8)
    tests = {name: EvalSet(ArrayInputs(x[k:]), y[k:]) for name, k in (("all", 0), ("some", 10))}
    data = TrainSet(ArrayInputs(x), Labels(y, 8))
    outcome = Trainer(Plan(epochs=1, lr=0.1, batch_size=32), lambda _: model, tests=tests).fit(CE(), data)
    with torch.no_grad():
        ranked = model(x).argsort(1, descending=True)
    for name, k in (("all", 0), ("some", 10)):
        hit = ranked[k:] == y[k:, None]
        assert outcome.history[0][name]["top1"] == pytest.approx(hit[:, :1].any(1).float().mean().item())
        assert outcome.history[0][name]["top5"] == pytest.approx(hit[:, :5].any(1).float().mean().item())


def test_rows_held_out_are_not_trained_on_and_keep_their_numbers() -> None:
    seen: set[int] = set()

    class Watched(CE):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            seen.update(batch.index.tolist())
            return super().loss(outputs, batch)

    runner = trainer(epochs=2, val_fraction=0.2)
    outcome = runner.fit(Watched(), train_set())
    assert runner.val is not None
    assert runner.val.rows is not None
    held = set(runner.val.rows.tolist())
    assert len(held) == 18
    assert seen == set(range(90)) - held
    assert torch.equal(runner.val.labels, train_set().labels.hard[runner.val.rows])
    assert bool(torch.isnan(outcome.losses[:, runner.val.rows]).all())
    assert 0 <= outcome.history[0]["val"]["top1"] <= 1


class _Weights(Callback):
    """Remembers the weights after each epoch."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.epochs = model, list[dict[str, Tensor]]()

    def on_epoch_saved(self, record: EpochRecord) -> None:
        self.epochs.append({k: v.clone() for k, v in self.model.state_dict().items()})


@pytest.mark.parametrize("pick", ["last", "best-val"])
def test_the_network_that_is_kept_is_the_one_that_was_asked_for(pick: str) -> None:
    x, y = blobs()
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    watched = _Weights(model)
    # A validation set with shifted labels: the best epoch is the first, before anything was learnt.
    val = EvalSet(ArrayInputs(x), (y + 1) % 3)
    plan = Plan(epochs=6, lr=0.1, batch_size=16, pick=pick)  # type: ignore[arg-type]
    outcome = Trainer(plan, lambda _: model, val=val, callbacks=[watched]).fit(CE(), train_set())
    scores = [e["val"]["top1"] for e in outcome.history]
    best = scores.index(max(scores)) if pick == "best-val" else 5
    assert (best == 5) == (pick == "last"), "the test needs a best epoch that is not the last"
    for name, value in outcome.model.state_dict().items():
        assert torch.equal(value, watched.epochs[best][name])


def test_convolutional_networks_run_in_channels_last() -> None:
    x = torch.randn(32, 3, 8, 8)
    data = TrainSet(ArrayInputs(x, crop_and_flip(2)), Labels(torch.arange(32) % 2, 2))
    layouts: list[bool] = []

    class Watched(CE):
        def step(self, model: nn.Module, batch: Batch) -> Step:
            layouts.append(batch.x.is_contiguous(memory_format=torch.channels_last))
            weight = model.get_submodule("features").get_submodule("0").get_parameter("weight")
            layouts.append(weight.is_contiguous(memory_format=torch.channels_last))
            return super().step(model, batch)

    plan = Plan(epochs=1, lr=0.1, batch_size=16)
    Trainer(plan, lambda outputs: create("cnn", outputs, (3, 8, 8), {"width": 4})).fit(Watched(), data)
    assert layouts
    assert all(layouts)


def test_cosine_and_other_optimizers_train_and_resume_needs_no_more_than_their_state() -> None:
    for optimizer in ("adamw", "RMSprop"):
        outcome = fit(CE(), optimizer=optimizer, lr=0.01, schedule="cosine", epochs=8)
        assert outcome.history[-1]["test"]["top1"] > 0.7
        assert outcome.history[0]["lr"] > outcome.history[-1]["lr"]


def test_soft_labels_train_like_hard_ones_when_they_are_one_hot() -> None:
    data = train_set()
    soft = data.relabel(_store(F.one_hot(data.labels.hard, 3).float()))
    assert_same_bits(results(trainer().fit(CE(), data)), results(trainer().fit(CE(), soft)))


def _store(rows: Tensor) -> Any:
    from selc.memory import Store

    store = Store(*rows.shape)
    store.write(torch.arange(len(rows)), rows)
    return store


def test_a_method_chooses_its_rows_and_sweeps_when_it_asks() -> None:
    counts: list[int] = []

    class Half(Method):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            counts.append(len(batch.index))
            assert bool((batch.index < 45).all())
            return super().loss(outputs, batch)

        def select(self) -> Tensor:
            return torch.arange(45)

        def end_epoch(self, epoch: int, sweep: Any) -> None:
            assert sweep() is sweep(), "the plain sweep is kept for the epoch"
            margin = sweep(lambda outputs, target: (outputs * target).sum(1, keepdim=True))
            assert (len(margin), margin.columns) == (90, 1)

    fit(Half(), epochs=2)
    assert sum(counts) == 90


@pytest.mark.exhaustive
@in_float64()
def test_compiled_and_eager_training_agree() -> None:
    """Without a compiler at hand torch falls back to an error, so the backend is the one that needs none."""
    eager = fit(CE(), epochs=2)
    original = torch.compile
    try:
        torch.compile = lambda model: original(model, backend="eager")  # type: ignore[assignment]
        compiled = fit(CE(), epochs=2, compile=True)
    finally:
        torch.compile = original
    torch.testing.assert_close(compiled.losses, eager.losses, rtol=1e-9, atol=1e-9)
    assert all("_orig_mod" not in name for name in compiled.model.state_dict())
