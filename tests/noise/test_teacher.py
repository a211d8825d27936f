"""What a network trained on the labels supplies, against plain trainings by the same plan."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from selc.data import ArrayInputs, Bundle, Recipe
from selc.data.inputs.augment import View
from selc.data.inputs.images import ArrayPixels, ImageInputs
from selc.methods import create as create_method
from selc.nets import create as create_net
from selc.noise import draw_noise
from selc.runs.config import resolve_plan
from selc.runs.teacher import last_probs, mean_probs, supply_for
from selc.training import Plan, Trainer
from selc.types import Labels, TrainSet
from tests.helpers import random_labels, rng

N, C, D = 120, 3, 4
LABELS = random_labels(N, C, seed=0)
X = torch.randn(N, D, generator=rng(1)) + 2 * torch.eye(C, D)[LABELS]
DATA = TrainSet(ArrayInputs(X), Labels(LABELS, C))
BUNDLE = Bundle(inputs=ArrayInputs(X), labels=LABELS, classes=("a", "b", "c"), shape=(D,))


def net(outputs: int) -> nn.Module:
    return create_net("mlp", outputs, (D,), {"hidden": [16]})


def plan(epochs: int, batch_size: int = 32, **more: object) -> Plan:
    settings = {"epochs": epochs, "batch_size": batch_size, "lr": 0.05, "schedule": "constant", "threads": 1}
    return resolve_plan(settings | more, Recipe())


def probs_after(plan: Plan) -> Tensor:
    """The network's probabilities at the end of a plain training with cross entropy."""
    return Trainer(plan, net).fit(create_method("ce"), DATA).probs.full()


def test_mean_probs_is_the_mean_over_the_ends_of_all_epochs() -> None:
    expected = torch.stack([probs_after(plan(epochs)) for epochs in (1, 2, 3)]).mean(0)
    torch.testing.assert_close(mean_probs(DATA, net, plan(3)), expected)


def test_last_probs_is_the_running_output_of_the_last_epoch() -> None:
    """With one batch per epoch that output is the network's at the end of the epoch before."""
    expected = probs_after(plan(3, batch_size=N))
    torch.testing.assert_close(last_probs(DATA, net, plan(4, batch_size=N)), expected)


@pytest.mark.parametrize("teach", [mean_probs, last_probs])
def test_every_sample_gets_a_row_even_if_the_plan_holds_some_out(teach: Callable[..., Tensor]) -> None:
    probs = teach(DATA, net, plan(1, val_fraction=0.5, pick="best-val"))
    torch.testing.assert_close(probs.sum(1), torch.ones(N))


def test_a_teacher_is_trained_when_it_is_needed_and_only_once() -> None:
    made = []

    def counted_net(outputs: int) -> nn.Module:
        made.append(outputs)
        return net(outputs)

    supply = supply_for(BUNDLE, counted_net, plan(1))
    draw_noise("symmetric", LABELS, C, 0, {}, supply)
    draw_noise("part", LABELS, C, 0, {}, supply)
    assert not made
    steps = [{"name": "pmd", "factor": 1.5}, {"name": "pmd", "factor": 2.0, "type": 2}]
    draw_noise("hybrid", LABELS, C, 0, {"steps": steps}, supply)
    assert made == [C]


def test_the_noise_of_a_teacher_is_the_same_again() -> None:
    digests = {
        draw_noise("pmd", LABELS, C, 0, {"rate": 0.35}, supply_for(BUNDLE, net, plan(5))).digest for _ in range(2)
    }
    assert len(digests) == 1


def test_the_teacher_learns_the_labels_on_which_noise_is_drawn() -> None:
    """Classes that lie apart: it hardly ever takes a sample for another class, and SEAL's score is small."""
    far = Bundle(inputs=ArrayInputs(10 * torch.eye(C, D)[LABELS]), labels=LABELS, classes=("a", "b", "c"), shape=(D,))
    probs = supply_for(far, net, plan(10))["mean_probs"]()
    assert torch.equal(probs.argmax(1), LABELS)


def test_raw_inputs_are_flat_rows_and_of_images_the_pixels() -> None:
    assert torch.equal(supply_for(BUNDLE, net, plan(1))["x"](), X)
    pixels = torch.randint(256, (N, 3, 8, 8), generator=rng(2), dtype=torch.uint8)
    view = View(size=(8, 8), mean=(0.5,) * 3, std=(0.25,) * 3, padding=1, flip=True)
    images = Bundle(
        inputs=ImageInputs(ArrayPixels(pixels), view), labels=LABELS, classes=("a", "b", "c"), shape=(3, 8, 8)
    )
    assert torch.equal(supply_for(images, net, plan(1))["x"](), pixels.flatten(1))
