"""What every registered noise model and dataset promises; networks have theirs in tests/nets/test_networks.py."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from selc.data import DATASETS, RECIPES, Bundle
from selc.errors import SelcError
from selc.methods import METHODS
from selc.nets import NETS
from selc.noise import NOISES, Noise, draw_noise
from selc.registry import Registry
from selc.review.exchange import TOOLS
from selc.runs import Config
from selc.training.metrics import METRICS
from tests.data.miniatures import MAKERS
from tests.noise.bounds import classes_of, example_options, labels_for, suppliers
from tests.own_data.miniature import options_for

SEEDLESS = {"none", "seal", "file"}  # they draw nothing


@pytest.mark.parametrize("name", NOISES)
def test_noise_is_a_function_of_its_seed_and_reports_what_it_did(name: str, tmp_path: Path) -> None:
    labels, C = labels_for(name), classes_of(name)
    before = labels.clone()
    options = example_options(name, C)
    if name == "file":
        np.save(tmp_path / "labels.npy", labels.roll(1).numpy())
        options = {"path": str(tmp_path / "labels.npy")}

    def draw(seed: int) -> Noise:
        return draw_noise(name, labels, C, seed, options, supply=suppliers(labels, C))

    noise = draw(0)
    assert torch.equal(noise.labels, draw(0).labels)
    assert noise.labels.shape == labels.shape
    assert 0 <= int(noise.labels.min()) <= int(noise.labels.max()) < C
    assert noise.rate == (noise.labels != labels).double().mean().item()
    counts = torch.zeros(C, C, dtype=torch.float64)
    counts.index_put_((labels, noise.labels), torch.ones(len(labels), dtype=torch.float64), accumulate=True)
    torch.testing.assert_close(noise.matrix, counts / counts.sum(1, keepdim=True))
    assert torch.equal(labels, before), "the labels handed in must not change"
    if name not in SEEDLESS:
        assert not torch.equal(noise.labels, draw(1).labels)


def load_small(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """A dataset from a miniature in its official layout, or from a small one of the user's own."""
    monkeypatch.setenv("SELC_DATA", str(folder))
    monkeypatch.setenv("SELC_CACHE", str(folder / "cache"))
    if name in MAKERS:
        MAKERS[name](folder)
    return DATASETS[name](**options_for(name, folder))


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_brings_finite_inputs_labels_for_all_classes_and_a_test_set(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hub" and find_spec("datasets") is None:
        with pytest.raises(SelcError, match="pip install"):
            DATASETS[name](path=str(tmp_path))
        return
    bundle = load_small(name, tmp_path, monkeypatch)
    for seed in (None, 1):
        x = next(iter(bundle.inputs.stream([torch.arange(4)], seed)))
        assert x.shape == (4, *bundle.shape)
        assert x.dtype == torch.float32
        assert bool(torch.isfinite(x).all())
    assert len(bundle.inputs) == len(bundle.labels)
    assert bundle.labels.unique().tolist() == list(range(len(bundle.classes)))
    assert bundle.tests
    for test in bundle.tests.values():
        assert len(test.inputs) == len(test.labels)
    assert bundle.ids is None or len(bundle.ids) == len(bundle.labels)
    assert bundle.true is None or len(bundle.true) == len(bundle.labels)


@pytest.mark.parametrize("name", DATASETS)
def test_the_settings_that_suit_a_dataset_are_valid(name: str) -> None:
    assert name in RECIPES
    config = Config.resolve({"data": name})
    assert config.net.name == RECIPES[name].net
    assert {k: getattr(config.train, k) for k in RECIPES[name].plan} == RECIPES[name].plan


@pytest.mark.parametrize(
    "registry", [METHODS, NETS, NOISES, DATASETS, METRICS, TOOLS], ids=lambda registry: registry.what
)
def test_each_entry_says_in_one_sentence_of_its_own_what_it_is(registry: Registry[Callable[..., object]]) -> None:
    said = {name: registry.describe(name) for name in registry}
    for name, sentence in said.items():
        assert registry[name].__doc__, f"{name} has none of its own"  # else it would say that of what it extends
        assert sentence.endswith("."), f"{name} does not end in its first line: {sentence}"
        assert name != sentence.lower().rstrip("."), f"{name} says no more than its name"
    assert len(set(said.values())) == len(said) > 0
