"""SELCLoss that starts by itself in a loop that is not ours."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from selc.data import digits, moons
from selc.errors import InputError
from selc.losses import SELCLoss, Watcher
from selc.losses.watcher import Turn, first_minimum, waited
from selc.noise import symmetric
from tests.helpers import close, random_labels, random_logits, rng, softmax64
from tests.tiers import exhaustive


def noisy_moons(rate: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    bundle = moons()
    x = next(iter(bundle.inputs.stream([torch.arange(2000)], None)))
    return x, symmetric(bundle.labels, 2, torch.Generator().manual_seed(0), rate=rate).labels, bundle.labels


def noisy_digits(rate: float = 0.4) -> tuple[Tensor, Tensor, Tensor]:
    bundle = digits()
    x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
    return x, symmetric(bundle.labels, 10, torch.Generator().manual_seed(0), rate=rate).labels, bundle.labels


class Loop:
    """A training loop as anybody would write it, with a state that can be saved."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, **options: Any) -> None:
        torch.manual_seed(0)
        self.x, self.y = x.flatten(1), y
        self.model = nn.Sequential(nn.Linear(self.x.shape[1], 64), nn.ReLU(), nn.Linear(64, classes))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)  # no momentum: no state of its own
        self.criterion = SELCLoss(y, classes, **options)

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, *, watcher: Watcher | None = None) -> None:
        self.criterion.set_epoch(epoch)
        order = torch.randperm(len(self.y), generator=torch.Generator().manual_seed(epoch)).split(100)
        for index in order[first:last]:
            self.optimizer.zero_grad()
            outputs = self.model(self.x[index])
            if watcher is not None:
                watcher.feed(index, outputs)
            self.criterion(outputs, self.y[index], index).backward()
            self.optimizer.step()


def test_it_starts_by_itself_says_so_and_corrects(caplog: pytest.LogCaptureFixture) -> None:
    x, given, true = noisy_digits()
    loop = Loop(x, given, 10, epochs=40)
    assert loop.criterion.start == float("inf")
    with caplog.at_level(logging.WARNING, "selc"):
        for epoch in range(40):
            loop.epoch(epoch)
    turn = loop.criterion.turn
    assert turn is not None
    assert turn.peak <= turn.known == loop.criterion.start
    assert 5 <= loop.criterion.start <= 30
    (said,) = caplog.messages
    assert said.startswith(f"SELCLoss, epoch {turn.known}: predictions changed least at epoch {turn.peak:g}; ")
    assert "correction starts with alpha 0.90" in said
    assert "no label can change" not in said
    right = [(labels == true).float().mean().item() for labels in (given, loop.criterion.corrected_labels)]
    assert right[1] > right[0] + 0.1


def test_it_starts_where_its_watcher_says_and_then_does_what_a_given_start_does() -> None:
    x, given, _ = noisy_digits()
    auto = Loop(x, given, 10, epochs=25)
    for epoch in range(25):
        auto.epoch(epoch)
    assert auto.criterion.start < 25
    fixed = Loop(x, given, 10, start=auto.criterion.start)
    for epoch in range(25):
        fixed.epoch(epoch)
    assert torch.equal(auto.criterion.targets, fixed.criterion.targets)
    for name, value in fixed.model.state_dict().items():
        assert torch.equal(value, auto.model.state_dict()[name])
    watcher, predictions = Watcher(len(given), epochs=25), Loop(x, given, 10, start=25)
    for epoch in range(25):
        predictions.epoch(epoch, watcher=watcher)
        if turn := watcher.ask():
            break
    assert turn == auto.criterion.turn


def test_clean_labels_that_can_be_learnt_stay(caplog: pytest.LogCaptureFixture) -> None:
    bundle = digits()
    x = next(iter(bundle.inputs.stream([torch.arange(len(bundle.labels))], None)))
    loop = Loop(x, bundle.labels, 10, epochs=40)
    for epoch in range(40):
        loop.epoch(epoch)
    assert (loop.criterion.corrected_labels != bundle.labels).float().mean() < 0.005


def test_a_training_of_five_epochs_changes_no_label_and_says_so_before_it_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x, given, _ = noisy_digits()
    with caplog.at_level(logging.WARNING, "selc"):
        loop = Loop(x, given, 10, epochs=5)
        assert "in 5 epochs no label can change" in caplog.text
        for epoch in range(5):
            loop.epoch(epoch)
    assert torch.equal(loop.criterion.corrected_labels, given)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("epochs", "alpha", "said"),
    [
        (12, None, True),  # it starts after 2 + 3 + 1 epochs at the earliest, and 0.9 ** 6 > 1 / 2
        (13, None, False),  # 0.9 ** 7 < 1 / 2
        (6, 0.0, True),
        (7, 0.0, False),
        (100, None, False),
        (None, None, False),  # nobody knows how many are left
    ],
)
def test_what_can_change_no_label_says_so_and_nothing_else_does(
    epochs: int | None, alpha: float | None, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    SELCLoss(torch.tensor([0, 1]), 2, alpha, epochs=epochs)
    assert ("no label can change" in caplog.text) == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": 2, "epochs": 8}, "correction starts after 2 and takes some epochs"),  # 0.9 ** 6 > 1 / 2
        ({"start": 2, "epochs": 9}, ""),
        ({"start": 9, "epochs": 9}, "correction starts after 9"),
        ({"start": 2, "epochs": 5, "alpha": 0.5}, ""),
        ({"start": 2}, ""),
        ({"start": 2, "epochs": 8, "option": "I"}, ""),  # the given label is left out
    ],
)
def test_a_given_start_that_leaves_too_few_epochs_says_so(
    options: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With alpha 0.5 three updates suffice, which is tried; after those of alpha 0.9 the given label is the largest."""
    criterion = SELCLoss(torch.tensor([0, 1]), 2, **options)
    assert len(caplog.messages) == bool(said)
    assert said in caplog.text
    for epoch in range(options.get("epochs", 5)):
        criterion.set_epoch(epoch)
        criterion(torch.tensor([[-50.0, 50.0]] * 2, requires_grad=True), torch.tensor([0, 1]), torch.arange(2))
    if "epochs" in options:
        assert (criterion.corrected_labels.tolist() == [0, 1]) == bool(said)


def test_a_turning_point_that_comes_too_late_is_said_and_changes_no_label(caplog: pytest.LogCaptureFixture) -> None:
    """By hand: it is known after ten epochs, so four are left, and 0.9 ** 4 > 1 / 2."""
    shares = [0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    criterion = SELCLoss(torch.zeros(20, dtype=torch.int64), 2, epochs=14)
    for epoch, outputs in enumerate(flipping(20, shares)):
        criterion.set_epoch(epoch)
        criterion(10 * outputs, torch.zeros(20, dtype=torch.int64), torch.arange(20))
    assert criterion.turn == Turn(7.0, 10)
    assert criterion.start == 10
    assert "epoch 10: predictions changed least at epoch 7; " in caplog.text
    assert "So few epochs are left that no label can change: train longer, or lower alpha." in caplog.text
    assert bool((criterion.targets[:, 1] > 0.1).any())  # it did correct
    assert not bool(criterion.corrected_labels.any())


@pytest.fixture(scope="module")
def whole() -> Loop:
    """Twenty epochs that nothing interrupts."""
    x, given, _ = noisy_moons()
    loop = Loop(x, given, 2, epochs=20)
    for epoch in range(20):
        loop.epoch(epoch)
    return loop


@pytest.mark.parametrize("saved", [3, 12, *exhaustive(0, 9)])  # watching for the first time, later, and correcting
def test_saved_in_the_middle_of_an_epoch_it_goes_on_to_the_same_bits(saved: int, whole: Loop) -> None:
    x, given, _ = noisy_moons()
    first, second = (Loop(x, given, 2, epochs=20) for _ in range(2))
    for epoch in range(saved):
        first.epoch(epoch)
    first.epoch(saved, last=7)
    second.model.load_state_dict(load(save(first.model.state_dict())))
    second.criterion.load_state_dict(load(save(first.criterion.state_dict())))
    second.epoch(saved, first=7)
    for epoch in range(saved + 1, 20):
        second.epoch(epoch)
    assert second.criterion.start == whole.criterion.start < 20
    assert second.criterion.turn == whole.criterion.turn
    assert torch.equal(second.criterion.targets, whole.criterion.targets)
    assert torch.equal(second.criterion.label_quality, whole.criterion.label_quality)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])


def test_alpha_is_that_of_the_paper_unless_it_is_given() -> None:
    labels = torch.tensor([0, 1])
    assert SELCLoss(labels, 2, start=3).alpha == 0.9
    assert SELCLoss(labels, 2, "auto", start=3).alpha == 0.9
    x, given, _ = noisy_digits()
    fixed, free = Loop(x, given, 10, epochs=20, alpha=0.8), Loop(x, given, 10, epochs=20)
    for epoch in range(20):
        fixed.epoch(epoch)
        free.epoch(epoch)
    assert fixed.criterion.start == free.criterion.start < 20
    assert (fixed.criterion.alpha, free.criterion.alpha) == (0.8, 0.9)


# What it says of the labels


def test_label_quality_is_the_geometric_mean_of_the_probability_of_the_given_label() -> None:
    """Over all epochs, also those before the start; a row that never came has none."""
    N, C = 12, 4
    labels = random_labels(N, C, seed=0)
    criterion = SELCLoss(labels, C, start=2)
    sums, times = torch.zeros(N, dtype=torch.float64), torch.zeros(N)
    for epoch in range(5):
        criterion.set_epoch(epoch)
        for index in torch.randperm(N - 1, generator=rng(epoch)).split(4)[: 2 if epoch == 4 else 3]:
            outputs = random_logits(len(index), C, seed=10 * epoch + int(index[0])).requires_grad_()
            criterion(outputs, labels[index], index)
            p = softmax64(outputs.detach())
            for place, row in enumerate(index.tolist()):
                sums[row] += p[place, labels[row]].log()
                times[row] += 1
    assert len(times[:-1].unique()) == 2  # some came less often
    close(criterion.label_quality[:-1], torch.exp(sums / times)[:-1])
    assert bool(criterion.label_quality[-1].isnan())


def test_quality_is_noted_in_training_alone_and_of_a_repeated_row_once() -> None:
    labels = torch.tensor([0, 1])
    criterion = SELCLoss(labels, 2, start=0, repeats="once")
    outputs = torch.tensor([[1.0, 0.0], [0.0, 3.0], [-9.0, 9.0]])
    criterion(outputs, labels[[0, 1, 0]], torch.tensor([0, 1, 0]))
    expected = softmax64(outputs[:2])[[0, 1], [0, 1]]
    close(criterion.label_quality, expected)
    with torch.no_grad():
        criterion(outputs[1:], labels, torch.tensor([0, 1]))
    criterion.eval()(outputs[1:], labels, torch.tensor([0, 1]))
    close(criterion.label_quality, expected)


def test_issues_are_the_labels_that_it_would_change() -> None:
    """By hand: with alpha 0.5 two updates leave a quarter of the given label, and the prediction is 1 of rows 1, 2."""
    labels = torch.tensor([0, 0, 1, 1])
    criterion = SELCLoss(labels, 2, 0.5, start=0)
    outputs = torch.tensor([[9.0, 0.0], [0.0, 9.0], [0.0, 9.0], [9.0, 0.0]])
    for epoch in range(2):
        criterion.set_epoch(epoch)
        criterion(outputs[:3], labels[:3], torch.arange(3))
    found = criterion.issues()
    assert found["is_label_issue"].tolist() == [False, True, False, False]
    assert found["given_label"].tolist() == [0, 0, 1, 1]
    assert found["suggested_label"].tolist() == [0, 1, 1, 1]
    sure = 1 / (1 + math.exp(-9))
    assert found["label_quality"].tolist() == pytest.approx([sure, 1 - sure, sure, math.nan], rel=1e-4, nan_ok=True)
    found["given_label"].zero_()
    assert criterion.labels.tolist() == [0, 0, 1, 1]  # it was a copy


def test_wrong_labels_have_the_lowest_quality() -> None:
    x, given, true = noisy_digits()
    loop = Loop(x, given, 10, epochs=30)
    for epoch in range(30):
        loop.epoch(epoch)
    wrong = given != true
    worst = loop.criterion.label_quality.argsort()[: int(wrong.sum())]
    assert wrong[worst].float().mean() > 0.8


# The watcher


def flipping(rows: int, shares: list[float]) -> Iterator[Tensor]:
    """Outputs of two classes: in each epoch after the first the given share of the rows changes its prediction."""
    said, turn = torch.zeros(rows, dtype=torch.int64), 0
    yield torch.eye(2)[said].requires_grad_()
    for share in shares:
        for _ in range(round(share * rows)):
            said[turn % rows] = 1 - said[turn % rows]
            turn += 1
        yield torch.eye(2)[said].requires_grad_()


@pytest.mark.parametrize(
    ("changes", "patience", "turn"),
    [
        # Means over three: 0.3, 0.2, 0.3, 0.4. The second is the smallest, and two later it has not been undercut. It
        # is that of the changes between the second and the fifth epoch, so its middle is the fourth one.
        ([0.6, 0.2, 0.1, 0.3, 0.5, 0.4], 2, Turn(4.0, 7)),
        ([0.6, 0.2, 0.1, 0.3, 0.5, 0.4], 3, None),
        ([0.6, 0.2, 0.1, 0.3, 0.5], 2, None),
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], 1, None),  # it still falls
        ([0.3, 0.3, 0.3, 0.3, 0.3], 2, Turn(3.0, 6)),  # equal ones are not smaller
        ([0.1, 0.2], 0, None),
        ([], 1, None),
        # The first minimum counts, though a deeper one comes later.
        ([0.6, 0.3, 0.3, 0.6, 0.6, 0.6, 0.0, 0.0, 0.0], 2, Turn(3.0, 6)),
    ],
)
def test_the_turning_point_is_the_first_minimum_of_the_mean_of_three(
    changes: list[float], patience: float, turn: Turn | None
) -> None:
    assert first_minimum(changes, patience) == turn


def test_a_turning_point_stays_what_it_was_when_more_epochs_come() -> None:
    for seed in range(20):
        changes = torch.rand(40, generator=rng(seed)).tolist()
        found = [first_minimum(changes[:end], 4) for end in range(len(changes) + 1)]
        known = [turn for turn in found if turn is not None]
        assert len(set(known)) == 1
        assert found.index(known[0]) == known[0].known - 1  # there are changes from the second epoch on


@pytest.mark.parametrize(("epochs", "patience"), [(5, 2), (20, 2), (100, 10), (math.inf, 5)])
def test_a_watcher_waits_for_a_tenth_of_the_epochs(epochs: float, patience: float) -> None:
    assert waited(epochs) == pytest.approx(patience)
    watcher = Watcher(20, epochs)
    for outputs in flipping(20, [0.5, *[0.5] * (watcher.earliest - 3)]):
        watcher.feed(torch.arange(20), outputs)
        assert watcher.ask() is None
    watcher.feed(torch.arange(20), torch.eye(2)[torch.arange(20) % 2])
    turn = watcher.ask()
    assert turn is not None
    assert turn.known == watcher.earliest


def test_a_watcher_counts_the_predictions_that_change_of_the_rows_it_has_seen_before() -> None:
    """By hand: rows 2 and 3 come first in the second epoch, and of rows 0, 1 and 4 one changes; then 2 of 5."""
    watcher = Watcher(6)
    epochs = [{0: 0, 1: 1, 4: 2}, {0: 0, 1: 2, 2: 0, 3: 1, 4: 2}, {0: 1, 1: 2, 2: 0, 3: 0, 4: 2}]
    for epoch in epochs:
        for index in torch.tensor(list(epoch)).split(2):
            watcher.feed(index, torch.eye(3)[torch.tensor([epoch[int(row)] for row in index])])
        assert watcher.ask() is None
    assert watcher.changes == [1 / 3, 2 / 5]
    with pytest.raises(InputError, match="must be fed"):
        watcher.ask()


def test_an_epoch_in_which_some_rows_do_not_come_counts() -> None:
    """By hand: of 20 rows the last four never come; of the others first four change their class, then eight."""
    labels = random_labels(20, 2, seed=0)
    criterion, index = SELCLoss(labels, 2, epochs=20), torch.arange(16)
    for epoch, ones in enumerate([0, 4, 12]):
        criterion.set_epoch(epoch)
        criterion(torch.eye(2)[(index < ones).long()], labels[:16], index)
    criterion.set_epoch(3)
    assert isinstance(criterion.watcher, Watcher)
    assert criterion.watcher.changes == [4 / 16, 8 / 16]


def test_a_watcher_goes_on_from_a_saved_state_in_the_middle_of_an_epoch() -> None:
    shares = [0.5, 0.1, 0.3, 0.3, 0.3, 0.3]
    whole, first, second = (Watcher(20, epochs=9) for _ in range(3))
    for epoch, outputs in enumerate(flipping(20, shares)):
        whole.feed(torch.arange(20), outputs)
        turn = whole.ask()
        used = first if epoch < 4 else second
        used.feed(torch.arange(7), outputs[:7])
        if epoch == 3:
            second.load_state_dict(load(save(first.state_dict())))
            used = second
        used.feed(torch.arange(7, 20), outputs[7:])
        assert used.ask() == turn
    assert turn == Turn(4.0, 7)
    assert second.changes == whole.changes == shares
    assert torch.equal(second.said, whole.said)
