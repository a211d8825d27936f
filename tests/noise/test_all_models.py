"""What holds for every model, and how models get what they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.noise import NOISES, Noise, draw_noise, hybrid, pair, symmetric
from selc.noise.base import needs
from selc.runs import Config
from tests.helpers import random_labels, rng
from tests.noise.bounds import classes_of, example_options, labels_for, suppliers

N, C = 2000, 10
DETERMINISTIC = {"none", "seal", "file"}


def draw(name: str, seed: int, tmp_path: Path) -> Noise:
    labels, classes = labels_for(name), classes_of(name)
    options = example_options(name, classes)
    if name == "file":
        np.save(tmp_path / "labels.npy", random_labels(len(labels), classes, seed=9).numpy())
        options = {"path": str(tmp_path / "labels.npy")}
    return draw_noise(name, labels, classes, seed, options, suppliers(labels, classes))


@pytest.mark.parametrize("name", NOISES)
def test_rate_and_matrix_say_what_happened_and_the_labels_handed_in_stay(name: str, tmp_path: Path) -> None:
    labels, classes = labels_for(name), classes_of(name)
    noise = draw(name, 0, tmp_path)
    assert torch.equal(labels, labels_for(name))
    assert noise.labels.dtype == torch.int64
    assert noise.rate == float((noise.labels != labels).double().mean())
    expected = confusion_matrix(labels, noise.labels, labels=range(classes), normalize="true")
    torch.testing.assert_close(noise.matrix, torch.from_numpy(expected))


@pytest.mark.parametrize("name", NOISES)
def test_the_seed_decides_and_nothing_else(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    first = draw(name, 0, tmp_path)
    torch.manual_seed(1)
    assert draw(name, 0, tmp_path).digest == first.digest
    assert (draw(name, 1, tmp_path).digest == first.digest) == (name in DETERMINISTIC)


@pytest.mark.parametrize("name", [name for name in NOISES if "rate" in NOISES.defaults(name) and name != "pmd"])
def test_rate_zero_changes_nothing(name: str) -> None:
    labels, classes = labels_for(name), classes_of(name)
    options = example_options(name, classes) | {"rate": 0.0}
    noise = draw_noise(name, labels, classes, 0, options, suppliers(labels, classes))
    assert torch.equal(noise.labels, labels)


@pytest.mark.parametrize("name", NOISES)
def test_options_survive_a_configuration_file(name: str, tmp_path: Path) -> None:
    config = Config.resolve({"data": "digits", "noise": {"name": name, **example_options(name, 10)}})
    config.save(tmp_path / "config.toml")
    again = Config.load(tmp_path / "config.toml")
    assert again.fingerprint("") == config.fingerprint("")
    assert NOISES.checked(name, again.noise.options) == NOISES.checked(name, config.noise.options)


@pytest.mark.parametrize(
    ("name", "wanted"), [("symmetric", []), ("seal", ["mean_probs"]), ("pmd", ["last_probs"]), ("part", ["x"])]
)
def test_only_what_a_model_needs_is_made(name: str, wanted: list[str]) -> None:
    made = []

    def maker(key: str, table: Callable[[], Tensor]) -> Callable[[], Tensor]:
        def make() -> Tensor:
            made.append(key)
            return table()

        return make

    labels = random_labels(N, C, seed=0)
    supply = {key: maker(key, table) for key, table in suppliers(labels, C).items()}
    draw_noise(name, labels, C, 0, {}, supply)
    assert made == wanted == needs(name)


@pytest.mark.parametrize(("name", "need"), [("seal", "mean_probs"), ("pmd", "last_probs"), ("part", "x")])
def test_without_a_supplier_there_is_one_clear_sentence(name: str, need: str) -> None:
    with pytest.raises(ConfigError, match=f"noise '{name}' needs {need} beside the labels; got nothing that makes it"):
        draw_noise(name, random_labels(N, C, seed=0), C, 0, {})


def never() -> Tensor:
    raise AssertionError("a teacher must not be trained for settings that are wrong")


@pytest.mark.parametrize("options", [{"rate": 1.5}, {"rate": "x"}, {"rats": 0.2}])
def test_wrong_settings_are_found_before_anything_is_made(options: dict[str, Any]) -> None:
    labels = random_labels(N, C, seed=0)
    with pytest.raises(ConfigError):
        draw_noise("seal", labels, C, 0, options, {"mean_probs": never})
    steps = [{"name": "seal"}, {"name": "pair", **options}]
    with pytest.raises(ConfigError):
        draw_noise("hybrid", labels, C, 0, {"steps": steps}, {"mean_probs": never})


@pytest.mark.parametrize("labels", [torch.tensor([0, 1, 10]), torch.tensor([-1, 0]), torch.tensor([0.5, 1.0])])
def test_labels_that_are_none_get_a_sentence(labels: Tensor) -> None:
    with pytest.raises(InputError, match="labels must be"):
        draw_noise("symmetric", labels, C, 0, {})


def test_each_step_of_a_hybrid_acts_on_what_the_one_before_left() -> None:
    labels = random_labels(N, C, seed=0)
    twice = hybrid(labels, C, rng(0), {}, steps=({"name": "pair", "rate": 1.0}, {"name": "pair", "rate": 1.0}))
    assert torch.equal(twice.labels, (labels + 2) % C)
    g = rng(3)
    by_hand = pair(symmetric(labels, C, g, rate=0.3).labels, C, g, rate=0.2)
    steps = ({"name": "symmetric", "rate": 0.3}, {"name": "pair", "rate": 0.2})
    drawn = hybrid(labels, C, rng(3), {}, steps=steps)
    assert torch.equal(drawn.labels, by_hand.labels)
    assert drawn.rate == float((by_hand.labels != labels).double().mean()), "against the labels before the first step"


def test_steps_that_undo_each_other_leave_a_rate_of_zero() -> None:
    labels = random_labels(N, 2, seed=0)
    noise = hybrid(labels, 2, rng(0), {}, steps=({"name": "pair", "rate": 1.0},) * 2)
    assert noise.rate == 0
    assert noise.facts["step1.rate"] == noise.facts["step2.rate"] == 1


def test_a_hybrid_passes_suppliers_on_and_keeps_what_its_steps_found() -> None:
    labels = random_labels(N, C, seed=0)
    steps = [{"name": "pmd", "factor": 1.4}, {"name": "hybrid", "steps": [{"name": "seal", "rate": 0.1}]}]
    noise = draw_noise("hybrid", labels, C, 0, {"steps": steps}, suppliers(labels, C))
    assert noise.facts["step1.factor"] == 1.4
    with pytest.raises(ConfigError, match="noise 'pmd' needs last_probs"):
        draw_noise("hybrid", labels, C, 0, {"steps": steps})


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([], "hybrid noise needs steps"),
        ([{"rate": 0.2}], "must be a table with the name of a noise; got {'rate': 0.2}"),
        ([{"name": "symetric"}], "Did you mean 'symmetric'"),
        (["pair"], "steps of noise 'hybrid' is not valid"),
    ],
)
def test_steps_that_are_none_get_a_sentence(steps: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw_noise("hybrid", random_labels(N, C, seed=0), C, 0, {"steps": steps})
