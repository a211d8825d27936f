"""SELCLoss that starts by itself in a loop that is not ours."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from selc.core import SELCLoss, Watcher
from selc.core.window import gap
from selc.data import digits, moons
from selc.errors import InputError
from selc.noise import symmetric


def noisy_moons(rate: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    bundle = moons()
    x = next(iter(bundle.inputs.stream([torch.arange(2000)], None)))
    return x, symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=rate).labels, bundle.labels


class Loop:
    """A training loop as anybody would write it, with a state that can be saved."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, **options: Any) -> None:
        torch.manual_seed(0)
        self.x, self.y = x.flatten(1), y
        self.model = nn.Sequential(nn.Linear(self.x.shape[1], 64), nn.ReLU(), nn.Linear(64, classes))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)  # no momentum: no state of its own
        self.criterion = SELCLoss(y, classes, **options)

    def epoch(self, epoch: int, first: int = 0, last: int | None = None) -> None:
        self.criterion.set_epoch(epoch)
        order = torch.randperm(len(self.y), generator=torch.Generator().manual_seed(epoch)).split(100)
        for index in order[first:last]:
            self.optimizer.zero_grad()
            self.criterion(self.model(self.x[index]), self.y[index], index).backward()
            self.optimizer.step()


def test_it_starts_by_itself_says_so_and_corrects(caplog: pytest.LogCaptureFixture) -> None:
    x, given, true = noisy_moons()
    loop = Loop(x, given, 2, epochs=40)
    assert loop.criterion.start == float("inf")
    with caplog.at_level(logging.WARNING, "selc"):
        for epoch in range(40):
            loop.epoch(epoch)
    turn = loop.criterion.turn
    assert turn is not None
    assert turn.start is not None
    assert 2 <= loop.criterion.start <= 30
    assert len(caplog.records) == 1
    assert "correction starts" in caplog.text
    right = [(labels == true).float().mean().item() for labels in (given, loop.criterion.corrected_labels)]
    assert right[1] > right[0] + 0.1


def test_on_clean_labels_it_never_starts(caplog: pytest.LogCaptureFixture) -> None:
    bundle = digits()
    x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
    loop = Loop(x, bundle.labels, 10, epochs=12)
    with caplog.at_level(logging.WARNING, "selc"):
        for epoch in range(12):
            loop.epoch(epoch)
    assert loop.criterion.turn is not None
    assert loop.criterion.turn.start is None
    assert "no label is corrected" in caplog.text
    assert torch.equal(loop.criterion.corrected_labels, bundle.labels)


def test_saved_in_the_middle_of_an_epoch_it_goes_on_to_the_same_bits() -> None:
    x, given, _ = noisy_moons()
    whole, first, second = (Loop(x, given, 2, epochs=20) for _ in range(3))
    for epoch in range(20):
        whole.epoch(epoch)
    for epoch in range(3):
        first.epoch(epoch)
    first.epoch(3, last=7)
    second.model.load_state_dict(load(save(first.model.state_dict())))
    second.criterion.load_state_dict(load(save(first.criterion.state_dict())))
    second.epoch(3, first=7)
    for epoch in range(4, 20):
        second.epoch(epoch)
    assert second.criterion.start == whole.criterion.start
    assert torch.equal(second.criterion.targets, whole.criterion.targets)


def test_alpha_follows_from_the_start_unless_it_is_given() -> None:
    labels = torch.tensor([0, 1])
    assert SELCLoss(labels, 2, start=3).alpha == 0.9
    x, given, _ = noisy_moons()
    fixed, free = Loop(x, given, 2, epochs=12, alpha=0.8), Loop(x, given, 2, epochs=12)
    for epoch in range(12):
        fixed.epoch(epoch)
        free.epoch(epoch)
    assert fixed.criterion.start == free.criterion.start < 12
    assert fixed.criterion.alpha == 0.8
    assert 0 < free.criterion.alpha <= 0.125 ** (1 / (12 - free.criterion.start))  # an eighth of a label stays


def test_a_watcher_sees_what_was_fed_and_complains_about_nothing() -> None:
    watcher = Watcher(6)
    outputs = torch.tensor([[3.0, 0.0], [0.0, 3.0], [0.5, 0.0], [0.0, 2.0], [0.0, 0.1], [4.0, 0.0]])
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    watcher.feed(torch.arange(6), outputs, labels)
    assert watcher.ask() is None
    window = watcher.windows[0]
    assert window.dispute == pytest.approx(2 / 6)
    losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
    assert window.gap == pytest.approx(gap(losses))
    with pytest.raises(InputError, match="must be fed"):
        watcher.ask()


def test_a_watcher_remembers_by_which_class_a_label_was_contradicted() -> None:
    """Two epochs; the first sample is contradicted by 1 and by 2, the second by 1 twice, others once or never."""
    watcher, labels = Watcher(8), torch.zeros(8, dtype=torch.long)
    for classes in ([1, 1, 1, 0], [2, 1, 0, 1]):
        outputs = 5.0 * torch.eye(3)[torch.tensor(classes + [0] * 4)]
        outputs[:4] *= 2  # the first four are the surer half
        watcher.feed(torch.arange(8), outputs, labels)
        watcher.ask()
    first, second = watcher.windows
    assert (first.lasting, second.lasting) == (0, 2)
    assert second.fickle == pytest.approx(1 / 2)
    again = Watcher(8)
    again.load_state_dict(watcher.state_dict())
    assert again.windows == watcher.windows
    assert torch.equal(again.said, torch.tensor([2, 1, 0, 1, 0, 0, 0, 0]))
