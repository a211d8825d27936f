"""What every registered network, noise model and dataset promises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from selc.data import DATASETS, RECIPES
from selc.nets import NETS, create
from selc.noise import NOISES, draw_noise
from selc.run import Config

SHAPE = (3, 16, 16)


@pytest.mark.parametrize("name", NETS)
def test_a_network_maps_a_batch_to_outputs_and_keeps_features_and_head_apart(name: str) -> None:
    net = create(name, 7, SHAPE)
    x = torch.randn(2, *SHAPE)
    assert net(x).shape == (2, 7)
    assert net.eval()(x[:1]).shape == (1, 7)
    features, head = net.get_submodule("features"), net.get_submodule("head")
    assert isinstance(head, nn.Linear)
    torch.testing.assert_close(head(features(x)), net(x))


@pytest.mark.parametrize("name", NETS)
def test_every_parameter_of_a_network_gets_a_gradient(name: str) -> None:
    net = create(name, 7, SHAPE)
    net(torch.randn(4, *SHAPE)).square().sum().backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in net.parameters())


@pytest.mark.parametrize("name", NOISES)
def test_noise_is_a_function_of_its_seed_and_reports_what_it_did(name: str) -> None:
    labels = torch.arange(400) % 5
    noise = draw_noise(name, labels, 5, 0, {})
    assert torch.equal(noise.labels, draw_noise(name, labels, 5, 0, {}).labels)
    assert noise.labels.shape == labels.shape
    assert 0 <= int(noise.labels.min()) <= int(noise.labels.max()) < 5
    assert noise.rate == (noise.labels != labels).double().mean().item()
    torch.testing.assert_close(noise.matrix.sum(1), torch.ones(5, dtype=torch.float64))
    for true in range(5):
        for given in range(5):
            share = ((labels == true) & (noise.labels == given)).sum() / (labels == true).sum()
            assert noise.matrix[true, given].item() == pytest.approx(share.item())
    assert torch.equal(labels, torch.arange(400) % 5), "the labels handed in must not change"
    if name != "none":
        assert not torch.equal(noise.labels, draw_noise(name, labels, 5, 1, {}).labels)


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_brings_finite_inputs_labels_for_all_classes_and_a_test_set(name: str) -> None:
    bundle = DATASETS[name]()
    x = next(iter(bundle.inputs.stream([torch.arange(8)], None)))
    assert x.shape == (8, *bundle.shape)
    assert bool(torch.isfinite(x).all())
    assert len(bundle.inputs) == len(bundle.labels)
    assert bundle.labels.unique().tolist() == list(range(len(bundle.classes)))
    assert bundle.tests
    for test in bundle.tests.values():
        assert len(test.inputs) == len(test.labels)


@pytest.mark.parametrize("name", DATASETS)
def test_the_settings_that_suit_a_dataset_are_valid(name: str) -> None:
    assert name in RECIPES
    config = Config.resolve({"data": name})
    assert config.net.name == RECIPES[name].net
    assert {k: getattr(config.train, k) for k in RECIPES[name].plan} == RECIPES[name].plan


@pytest.mark.parametrize("registry", [NETS, NOISES, DATASETS])
def test_each_entry_says_in_one_line_what_it_is(registry: object) -> None:
    assert isinstance(registry, type(NETS))
    for name in registry:
        assert len(registry.describe(name)) > 10, name
