"""What every registered method promises. A new one inherits these tests."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from selc.memory import Store
from selc.methods import METHODS, Method, create
from selc.methods.base import Train
from selc.methods.ce import CE
from selc.runs import Config
from selc.types import Batch, Outcome, StagePlan, TrainSet
from tests.tiers import but_for, exhaustive
from tests.toy import CLASSES, BrokenOffError, StopAfter, assert_same_bits, fit, results, small_net, train_set

# Options with which something happens within the few epochs of a test. Of those that estimate the noise rate, which
# takes five trainings more, co-teaching does; the others have tests of it of their own.
QUICK: dict[str, dict[str, Any]] = {
    "selc": {"start": 2},
    "sat": {"start": 2, "alpha": 0.7},
    "selc+": {"start": 2},
    "plc": {"warm_up": 2, "window": 2},
    "co-teaching": {"ramp": 2},
    "dac": {"warm_up": 2},
    "seal": {"iterations": 1},
    "pencil": {"start": 2, "freeze": 4},
    "crust": {"start": 2},
    "truncated-gce": {"start": 2, "every": 1},
    "m-correction": {"start": 2},
    "joint-opt": {"begin": 2, "window": 2},
    "lrt": {"update": 2, "start": 1, "interval": 2, "window": 2},
    "nlnl": {"window": 2, "cut": 0.4, "negatives": 3},
    "self": {"patience": 2, "iterations": 2},
    "confident-learning": {"folds": 2},
    "co-teaching+": {"forget_rate": 0.2, "ramp": 2, "warm_up": 2},
    "nested-co-teaching": {"forget_rate": 0.1, "tune": 3.0, "lr": 0.5},
    "selfie": {"noise_rate": 0.1, "warm_up": 1, "history": 2, "restarts": 1},
    "iterative-cv": {"iterations": 2, "cv_epochs": 2, "ramp": 2},
    "dividemix": {"warm_up": 2, "ramp": 2},
}
# Those of several networks or many trainings take as long as all others together.
SEVERAL = ("co-teaching", "co-teaching+", "nested-co-teaching", "nlnl", "rsl", "self", "selfie")
every_method = pytest.mark.parametrize("name", METHODS)
# Of each kind one: no table, the table of SELC, one of others, several stages, a batch that is mixed.
FEW = ("ce", "selc", "elr", "selc+", "mixup")


PLAN = StagePlan(epochs=6, batch_size=16)


def quick(name: str) -> Method:
    return create(name, QUICK.get(name))


@cache
def whole(name: str) -> Outcome:
    """What comes out of one uninterrupted training; many tests look at it, and none changes it."""
    return fit(quick(name))


def batch_at(clock: float, rows: int = 16) -> Batch:
    data = train_set()
    index = torch.randperm(len(data), generator=torch.Generator().manual_seed(3))[:rows]
    x = next(iter(data.inputs.stream([index], None)))
    return Batch(x, data.labels.read(index), index, clock, seed=5, shard=index % 4)


@every_method
@pytest.mark.parametrize("clock", [0.0, 4.5])
def test_loss_is_finite_and_its_gradient_reaches_every_parameter(name: str, clock: float) -> None:
    torch.manual_seed(0)
    method = quick(name)
    model = method.build(small_net, CLASSES)
    method.setup(train_set(), PLAN)
    step = method.step(model, batch_at(clock))
    assert step.loss.shape in ((16,), ())
    step.loss.mean().backward()
    assert bool(torch.isfinite(step.loss).all())
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert bool(torch.isfinite(parameter.grad).all()), parameter_name
        assert bool((parameter.grad != 0).any()), parameter_name


@every_method
def test_probabilities_sum_to_one_and_agree_with_their_logarithm(name: str) -> None:
    method = quick(name)
    model = method.build(small_net, CLASSES).eval()
    outputs = model(batch_at(0).x)
    probs = method.probs(outputs)
    assert probs.shape == (16, CLASSES)
    torch.testing.assert_close(probs.sum(1), torch.ones(16))
    torch.testing.assert_close(method.log_probs(outputs).exp(), probs)


@every_method
@pytest.mark.parametrize("ready", [False, True])
def test_a_check_changes_nothing(name: str, ready: bool) -> None:
    """It is asked before a method is set up, and again of one that was: for a stage of another length."""
    method = quick(name)
    if ready:
        method.build(small_net, CLASSES)
        method.setup(train_set(), PLAN)
    own, state = dict(vars(method)), {key: value.clone() for key, value in method.state_dict().items()}
    method.check(train_set(), StagePlan(epochs=40, batch_size=30, seed=7))
    assert vars(method).keys() == own.keys()
    assert all(vars(method)[key] is value for key, value in own.items())
    torch.testing.assert_close(dict(method.state_dict()), state, rtol=0, atol=0, equal_nan=True)


@every_method
def test_rows_outside_the_batch_are_untouched(name: str) -> None:
    method = quick(name)
    model = method.build(small_net, CLASSES)
    method.setup(train_set(), PLAN)
    batch = batch_at(4.5)
    outside = torch.ones(90, dtype=torch.bool)
    outside[batch.index] = False
    stores = [module for module in method.modules() if isinstance(module, Store)]
    before = [store.full().clone() for store in stores]
    method.step(model, batch)
    for store, old in zip(stores, before, strict=True):
        assert torch.equal(store.full()[outside], old[outside])


@pytest.mark.parametrize("name", but_for(SEVERAL, METHODS))
def test_belief_has_a_row_per_sample_that_sums_to_one(name: str) -> None:
    belief = whole(name).target.full()
    assert belief.shape == (90, CLASSES)
    assert bool((belief >= 0).all())
    torch.testing.assert_close(belief.sum(1), torch.ones(90))


@every_method
def test_it_learns_better_than_chance(name: str) -> None:
    assert whole(name).history[-1]["test"]["top1"] > 0.7  # chance is 1/3


@pytest.mark.exhaustive  # going on after a break, below, shows equal bits as well
@every_method
def test_same_seed_same_bits(name: str) -> None:
    assert_same_bits(results(whole(name)), results(fit(quick(name))))


@pytest.mark.parametrize("name", but_for(set(METHODS) - set(FEW), METHODS))
def test_another_seed_other_bits(name: str) -> None:
    assert not torch.equal(whole(name).probs.full(), fit(quick(name), seed=1).probs.full())


@every_method
@pytest.mark.parametrize("epochs", [3, *exhaustive(1, 6, 8)])
def test_save_load_go_on_equals_uninterrupted_to_the_last_bit(name: str, epochs: int, tmp_path: Path) -> None:
    # Eight epochs reach into the second stage, where there is one.
    try:
        fit(quick(name), tmp_path, StopAfter(epochs))
    except BrokenOffError:
        pass
    else:
        assert epochs == 8
    assert_same_bits(results(fit(quick(name), tmp_path)), results(whole(name)))


class Corrects(Method):
    """Keeps the classes that it predicted; a second stage learns what this object kept, not what it handed out."""

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.kept = Store.from_labels(data.labels.hard, data.num_classes)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.kept.ema(batch.index, self.probs(outputs), 0.5)
        return super().loss(outputs, batch)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        train(self, data)
        return train(CE(), data.relabel(self.kept))


@pytest.mark.parametrize("epochs", [7, *exhaustive(6, 9, 11)])
def test_what_a_method_kept_in_one_stage_is_there_when_it_is_broken_off_in_the_next(
    epochs: int, tmp_path: Path
) -> None:
    uninterrupted = fit(Corrects())
    with pytest.raises(BrokenOffError):
        fit(Corrects(), tmp_path, StopAfter(epochs))
    assert_same_bits(results(fit(Corrects(), tmp_path)), results(uninterrupted))


@every_method
def test_every_default_can_be_written_to_a_configuration_file(name: str, tmp_path: Path) -> None:
    config = Config.resolve({"data": "moons", "method": {"name": name}})
    config.save(tmp_path / "config.toml")
    loaded = Config.load(tmp_path / "config.toml")
    assert loaded == config
    assert set(config.method.options) == set(METHODS.defaults(name))


@every_method
def test_the_constructor_stores_its_options_under_their_names(name: str) -> None:
    method = create(name)
    for option, default in METHODS.defaults(name).items():
        assert getattr(method, option) == default
    for parameter in inspect.signature(METHODS[name]).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{parameter.name} must be keyword-only"
        assert parameter.default is not parameter.empty, f"{parameter.name} must have a default"


@every_method
def test_its_documentation_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    method = METHODS[name]
    module_doc = inspect.getmodule(method).__doc__
    assert module_doc is not None
    if name != "ce":
        assert "20" in module_doc, "the module must name the paper with its year"
        assert "Deviations:" in (method.__doc__ or "")


@every_method
def test_a_loss_of_bf16_outputs_is_finite_and_in_full_precision(name: str) -> None:
    method = quick(name)
    model = method.build(small_net, CLASSES)
    method.setup(train_set(), PLAN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step = method.step(model, batch_at(4.5))
    assert step.loss.dtype == torch.float32
    assert bool(torch.isfinite(step.loss).all())
