"""Held-out rows for a loop of one's own."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from selc import HeldOut, SELCLoss
from selc.errors import ConfigError, InputError
from selc.losses.watcher import Turn, waited
from selc.turning import decide

M, C = 400, 4
LABELS = torch.arange(M) % C


def outputs_of(right: int) -> Tensor:
    """Logits that name the label of the first rows, so many of them, and the next class of the others."""
    said = torch.where(torch.arange(M) < right, LABELS, (LABELS + 1) % C)
    return 3 * F.one_hot(said, C).float()


def asked(rights: list[int], epochs: float) -> tuple[HeldOut, list[Turn | None]]:
    shown = iter(rights)
    held_out = HeldOut(lambda: (outputs_of(next(shown)), LABELS), epochs)
    return held_out, [held_out.ask() for _ in rights]


def test_it_waits_for_the_rule_of_the_judge_and_a_tenth_of_the_training() -> None:
    rights = [100, 200, 300, *[360] * 4, *range(350, 200, -10)]
    held_out, turns = asked(rights, epochs=50)
    known = next(number for number, turn in enumerate(turns, 1) if turn is not None)
    start = decide(held_out.evidence, 50).start
    assert start is not None
    assert 3 <= start <= 8
    first = turns[known - 1]
    assert first is not None
    assert first.known == known
    assert known - first.peak >= waited(50) == 5
    assert all(turn is None for turn in turns[: known - 1])


def test_what_is_still_learnt_better_is_waited_for() -> None:
    _, turns = asked(list(range(100, 400, 15)), epochs=20)
    assert turns == [None] * 20


def test_rows_that_are_predicted_by_chance_never_start_it() -> None:
    held_out = HeldOut(lambda: (torch.zeros(M, C), LABELS), 20)
    assert [held_out.ask() for _ in range(20)] == [None] * 20


def test_its_state_goes_on_where_it_was() -> None:
    rights = [100, 200, 300, 360, 360, *range(350, 200, -10)]
    held_out, turns = asked(rights, epochs=40)
    shown = iter(rights[6:])
    other = HeldOut(lambda: (outputs_of(next(shown)), LABELS), 40)
    before, _ = asked(rights[:6], epochs=40)
    other.load_state_dict(before.state_dict())
    assert [other.ask() for _ in rights[6:]] == turns[6:]
    assert all(torch.equal(a, b) for a, b in zip(other.looks[-1], held_out.looks[-1], strict=True))


def test_every_look_comes_back_from_a_state() -> None:
    before, _ = asked([100, 200, 300], epochs=40)
    after = HeldOut(lambda: (torch.zeros(M, C), LABELS), 40)
    after.load_state_dict(before.state_dict())
    assert len(after.looks) == 3
    for ours, theirs in zip(after.looks, before.looks, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert (after.num_classes, after.decision) == (C, before.decision)


def test_a_loader_is_read_in_eval_mode_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, C)).train()
    model[2].eval()  # somebody has frozen it
    x = torch.randn(M, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    held_out = HeldOut.by(model, DataLoader(TensorDataset(x, LABELS), batch_size=64), epochs=10)
    held_out.ask()
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model] == [True, True, False, True]
    model.eval()
    assert torch.equal(held_out.looks[0][0], model(x).argmax(dim=1))


def test_rows_in_another_order_are_refused() -> None:
    orders = iter([LABELS, LABELS.flip(0)])
    held_out = HeldOut(lambda: (torch.zeros(M, C), next(orders)), 10)
    held_out.ask()
    with pytest.raises(InputError, match="the same ones in the same order"):
        held_out.ask()


@pytest.mark.parametrize("shapes", [((M,), (M,)), ((M, C), (M - 1,)), ((0, C), (0,))])
def test_what_is_no_prediction_is_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    outputs, labels = torch.zeros(shapes[0]), torch.zeros(shapes[1])
    with pytest.raises(InputError, match=r"outputs \[M, C\] and labels \[M\]"):
        HeldOut(lambda: (outputs, labels), 10).ask()


def test_a_bare_loader_is_told_how_to_be_wrapped() -> None:
    loader = DataLoader(TensorDataset(torch.zeros(4, 2), LABELS[:4]))
    with pytest.raises(ConfigError, match=r"selc\.HeldOut\.by\(model, loader"):
        SELCLoss(LABELS, C, validation=loader)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="goes with start='auto'"):
        SELCLoss(LABELS, C, start=3, validation=HeldOut(lambda: (torch.zeros(M, C), LABELS), 10))


def test_a_loop_with_held_out_noisy_rows_starts_by_them_and_repairs_labels(caplog: pytest.LogCaptureFixture) -> None:
    generator = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(C, 20, generator=generator)
    true = torch.arange(1600) % C
    x = centres[true] + 2 * torch.randn(1600, 20, generator=generator)
    flip = torch.rand(1600, generator=generator) < 0.3
    given = torch.where(flip, (true + torch.randint(1, C, (1600,), generator=generator)) % C, true)
    train, held = slice(0, 1280), slice(1280, None)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, C))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    held_out = HeldOut(lambda: (model(x[held]), given[held]), epochs=60)
    criterion = SELCLoss(given[train], C, validation=held_out)
    with caplog.at_level(logging.WARNING):
        for epoch in range(60):
            criterion.set_epoch(epoch)
            for index in torch.randperm(1280, generator=generator).split(64):
                optimizer.zero_grad()
                criterion(model(x[train][index]), given[train][index], index).backward()
                optimizer.step()
    assert criterion.turn is not None
    assert "held-out rows tell of epoch" in caplog.text
    right = [float((labels == true[train]).double().mean()) for labels in (given[train], criterion.corrected_labels)]
    assert right[1] > right[0] + 0.15  # of 0.3 that are wrong
