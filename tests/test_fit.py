"""One call: ``selc.fit`` on arrays, and what it says about input that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import selc
from selc.errors import ConfigError, InputError, RunFolderError, TrainingError
from selc.methods import GCE, SELC
from tests.toy import BrokenOffError, StopAfter, assert_same_bits, blobs, results

PLAN: dict[str, Any] = {"epochs": 4, "lr": 0.05, "batch_size": 16, "schedule": "constant"}


def quick(x: Any, y: Any, **more: Any) -> selc.Outcome:
    settings: dict[str, Any] = {**PLAN, "options": {"start": 1}, "net_options": {"hidden": [16]}}
    return selc.fit(x, y, **(settings | more))


def test_numpy_tensors_and_datasets_give_the_same_result() -> None:
    x, y = blobs()
    by_tensor = results(quick(x, y))
    assert_same_bits(by_tensor, results(quick(x.numpy(), y.numpy())))
    assert_same_bits(by_tensor, results(quick(TensorDataset(x, y), y)))


def test_it_returns_the_model_targets_labels_and_history() -> None:
    x, y = blobs()
    outcome = quick(x, y, tests={"mine": (x, y)})
    assert outcome.model(x).shape == (90, 3)
    assert outcome.target.full().shape == (90, 3)
    assert outcome.corrected_labels.shape == (90,)
    assert outcome.losses.shape == outcome.predictions.shape == (4, 90)
    assert [e["epoch"] for e in outcome.history] == [0, 1, 2, 3]
    assert set(outcome.history[0]["mine"]) == {"top1"}


def test_a_method_object_and_a_network_of_ones_own_are_taken_as_they_are() -> None:
    x, y = blobs()
    torch.manual_seed(0)
    net = nn.Linear(4, 3)
    before = net.weight.detach().clone()
    outcome = selc.fit(x, y, method=GCE(q=0.5), net=net, **PLAN)
    assert torch.equal(net.weight, before), "the module handed in must not change"
    assert not torch.equal(outcome.model.get_parameter("weight"), before)
    by_function = selc.fit(x, y, method=GCE(q=0.5), net=lambda outputs: nn.Linear(4, outputs), **PLAN)
    assert by_function.model(x).shape == (90, 3)


def test_the_callers_random_numbers_and_threads_are_left_alone() -> None:
    x, y = blobs()
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    quick(x, y, threads=2)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 1


def test_a_run_from_arrays_can_be_saved_and_resumed(tmp_path: Path) -> None:
    x, y = blobs()
    method = SELC(start=1)
    settings: dict[str, Any] = {**PLAN, "net_options": {"hidden": [16]}, "out": tmp_path / "run"}
    whole = quick(x, y)
    with pytest.raises(BrokenOffError):
        selc.fit(x, y, method=method, progress=StopAfter(2), **settings)
    with pytest.raises(RunFolderError, match="new or an empty folder"):
        selc.fit(x, y, method=method, **settings)
    with pytest.raises(RunFolderError, match="resume=True"):
        selc.resume(tmp_path / "run")
    with pytest.raises(RunFolderError, match="must belong to this configuration"):
        selc.fit(x, y, method=SELC(start=2), resume=True, **settings)
    resumed = selc.fit(x, y, method=SELC(start=1), resume=True, **settings)
    assert torch.equal(resumed.target.full(), whole.target.full())
    assert (tmp_path / "run" / "corrected_labels.csv").exists()


def test_a_method_and_a_network_that_only_the_caller_has_are_saved_and_resumed(tmp_path: Path) -> None:
    class Mine(GCE):
        """Not registered anywhere."""

    x, y = blobs()
    settings: dict[str, Any] = {**PLAN, "net": nn.Linear(4, 3), "out": tmp_path / "run"}
    with pytest.raises(BrokenOffError):
        selc.fit(x, y, method=Mine(q=0.5), progress=StopAfter(2), **settings)
    selc.fit(x, y, method=Mine(q=0.5), resume=True, **settings)
    run = selc.RunFolder.open(tmp_path / "run")
    assert run.finished
    assert run.config.method.name.endswith("Mine")
    assert run.config.method.options == {"q": 0.5}
    assert run.config.net.name == "torch.nn.modules.linear.Linear"


def test_options_of_an_object_are_refused() -> None:
    with pytest.raises(ConfigError, match="options go with a method's name"):
        selc.fit(X, Y, method=GCE(), options={"q": 0.5}, **PLAN)
    with pytest.raises(ConfigError, match="net_options go with a network's name"):
        selc.fit(X, Y, net=nn.Linear(4, 3), net_options={"hidden": [1]}, **PLAN)


def test_fewer_samples_than_a_batch_shrink_it_with_a_notice() -> None:
    x, y = blobs(12)
    with pytest.warns(UserWarning, match="batch_size 128 is more than the 12 samples"):
        outcome = quick(x, y, batch_size=128)
    assert bool(torch.isfinite(outcome.losses).all())


def test_a_last_batch_of_one_does_not_break_batch_norm() -> None:
    x, y = blobs(33)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    outcome = quick(x, y, net=net, net_options=None, batch_size=16)  # 16 + 16 + 1
    assert bool(torch.isfinite(outcome.losses).all())


X, Y = blobs()


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (X, Y.float(), "labels must be integers; got torch.float32"),
        (X, Y - 1, r"labels must be in 0..\d for \d classes; got values from -1"),
        (X, Y[:50], "inputs and labels must have the same length; got 90 and 50"),
        (X, torch.zeros(90, dtype=torch.long), "at least two classes; got only class 0"),
        (X, Y[:, None], r"labels must be a non-empty vector \[N\]; got shape \(90, 1\)"),
        (X[:0], Y[:0], "inputs must be a non-empty array"),
        (X[:, 0], Y, r"inputs must be a non-empty array \[N, ...\]; got shape \(90,\)"),
        (torch.where(X > 4, torch.nan, X), Y, r"inputs must be finite numbers; got NaN or infinity in \d+ of 90 rows"),
        (X, ["a"] * 90, "labels must be integers, one per sample; got list"),
        (np.array([["a"]] * 90), Y, "x must be an array of numbers or a torch dataset; got ndarray"),
    ],
)
def test_input_that_cannot_be_used_gets_its_sentence(x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        quick(x, y)


def test_labels_beyond_the_number_of_classes_are_refused() -> None:
    with pytest.raises(InputError, match=r"labels must be in 0..1 for 2 classes; got values from 0 to 2"):
        quick(X, Y, num_classes=2)


def test_settings_that_cannot_be_used_get_their_sentence() -> None:
    with pytest.raises(ConfigError, match="epochs must be greater than or equal to 1; got 0"):
        quick(X, Y, epochs=0)
    with pytest.raises(ConfigError, match="Did you mean 'epochs'"):
        quick(X, Y, epoch=3)


def test_a_loss_that_is_not_finite_stops_the_training_with_advice() -> None:
    with pytest.raises(TrainingError, match=r"must stay finite; got nan in epoch .* Lower the learning rate"):
        quick(1e20 * X, Y, lr=1e6)
