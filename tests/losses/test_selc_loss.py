from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from selc.errors import ConfigError, InputError
from selc.losses import IndexedDataset, SELCLoss
from selc.world import World
from tests.helpers import close, entropy64, gradient, one_hot64, random_labels, random_logits, rng, softmax64

N, C = 12, 4
LABELS = random_labels(N, C, seed=0)
ALL = torch.arange(N)


def make(start: float = 0, **options: Any) -> SELCLoss:
    return SELCLoss(LABELS, C, start=start, **options)


def call(criterion: SELCLoss, outputs: Tensor, index: Tensor) -> Tensor:
    loss: Tensor = criterion(outputs, LABELS[index], index)
    return loss


def outputs_for(index: Tensor, seed: int) -> Tensor:
    return random_logits(len(index), C, seed=seed).requires_grad_()


def snapshot(criterion: SELCLoss) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in criterion.state_dict().items()}


def unchanged(criterion: SELCLoss, before: dict[str, Tensor]) -> bool:
    after = criterion.state_dict()
    return after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)


def some_epochs(criterion: SELCLoss, count: int) -> None:
    for epoch in range(count):
        criterion.set_epoch(epoch)
        call(criterion, outputs_for(ALL, seed=epoch), ALL)


# The mathematics


@pytest.mark.parametrize("alpha", [0.0, 0.6, 0.9])
def test_gradient_is_alpha_times_p_minus_old_target_over_batch_size(alpha: float) -> None:
    """dL/dz = p - t_new and t_new = alpha t_old + (1 - alpha) p, so p - t_new = alpha (p - t_old)."""
    criterion = make(alpha=alpha)
    some_epochs(criterion, 3)
    criterion.set_epoch(3)
    index = torch.tensor([7, 2, 11, 0, 5])
    old = criterion.store.read(index).double()
    outputs = outputs_for(index, seed=9)
    found = gradient(call(criterion, outputs, index), outputs)
    close(found, alpha * (softmax64(outputs.detach()) - old) / len(index), atol=1e-7)


@pytest.mark.parametrize("alpha", [0.5, 0.9])
def test_targets_and_losses_are_eq_4_and_6_written_out(alpha: float) -> None:
    criterion = make(alpha=alpha)
    t = one_hot64(LABELS, C)
    for epoch in range(5):
        criterion.set_epoch(epoch)
        for index in torch.split(torch.randperm(N, generator=rng(epoch)), 5):
            outputs = outputs_for(index, seed=int(index[0]) + 100 * epoch)
            loss = call(criterion, outputs, index)
            p = softmax64(outputs.detach())
            t[index] = alpha * t[index] + (1 - alpha) * p
            close(loss, entropy64(t[index], p).mean())
    close(criterion.targets, t)
    assert torch.equal(criterion.corrected_labels, t.argmax(dim=1))


def test_k_counts_the_updates_of_a_sample_so_one_that_joins_late_has_fewer() -> None:
    """Option I: a row sums to 1 - alpha^k."""
    criterion = make(alpha=0.8, option="I")
    updates = [5] * 4 + [2] * 4 + [0] * 4
    for epoch in range(5):
        criterion.set_epoch(epoch)
        index = ALL[:4] if epoch < 3 else ALL[:8]
        call(criterion, outputs_for(index, seed=epoch), index)
    close(criterion.store.full().sum(dim=1), torch.tensor([1 - 0.8**k for k in updates]))


def test_option_i_leaves_the_given_label_out_of_table_and_loss() -> None:
    criterion = make(alpha=0.7, option="I")
    index = ALL[:6]
    ensemble = torch.zeros(6, C, dtype=torch.float64)
    for epoch in range(4):
        criterion.set_epoch(epoch)
        outputs = outputs_for(index, seed=epoch)
        loss = call(criterion, outputs, index)
        p = softmax64(outputs.detach())
        ensemble = 0.7 * ensemble + 0.3 * p
        close(loss, entropy64(ensemble, p).mean())
    close(criterion.store.read(index), ensemble)


def test_option_i_hands_out_rows_that_sum_to_one_and_the_given_label_without_an_update() -> None:
    criterion = make(alpha=0.99, option="I")
    outputs = outputs_for(ALL[:6], seed=0)
    call(criterion, outputs, ALL[:6])
    close(criterion.targets[:6], softmax64(outputs.detach()))  # 0.01 p / 0.01
    assert torch.equal(criterion.targets[6:].double(), one_hot64(LABELS[6:], C))
    assert torch.equal(criterion.corrected_labels[6:], LABELS[6:])


def test_weighted_is_the_weighted_mean_of_self_adaptive_training() -> None:
    criterion = make(alpha=0.6, weighted=True)
    some_epochs(criterion, 3)
    criterion.set_epoch(3)
    index = torch.tensor([1, 4, 9, 10])
    t, outputs = criterion.store.read(index).double(), outputs_for(index, seed=50)
    loss = call(criterion, outputs, index)
    p = softmax64(outputs.detach())
    t = 0.6 * t + 0.4 * p
    w = t.max(dim=1).values
    close(loss, (w * entropy64(t, p)).sum() / w.sum())


def test_without_reduction_there_is_a_loss_for_each_sample() -> None:
    each, mean = make(reduction="none"), make()
    outputs = outputs_for(ALL, seed=0)
    losses = call(each, outputs, ALL)
    assert losses.shape == (N,)
    close(call(mean, outputs, ALL), losses.double().mean())


def test_large_logits_keep_loss_gradient_and_table_finite() -> None:
    criterion = make()
    outputs = torch.full((N, C), -1e4)
    outputs[:, 1] = 1e4
    outputs.requires_grad_()
    loss = call(criterion, outputs, ALL)
    wrong = (LABELS != 1).double().mean()
    close(loss, 0.9 * 2e4 * wrong)
    close(gradient(loss, outputs), 0.9 * (one_hot64(torch.ones_like(LABELS), C) - one_hot64(LABELS, C)) / N)
    close(criterion.store.full().sum(dim=1), torch.ones(N))


def test_bf16_outputs_are_remembered_in_fp32() -> None:
    criterion = make(alpha=0.5)
    outputs = random_logits(N, C, seed=0).bfloat16().requires_grad_()
    loss = call(criterion, outputs, ALL)
    assert loss.dtype == criterion.store.table.dtype == torch.float32
    close(criterion.store.full(), 0.5 * one_hot64(LABELS, C) + 0.5 * softmax64(outputs.detach()))


# When it starts


def test_before_start_it_is_cross_entropy_and_the_table_is_untouched() -> None:
    criterion = make(start=2, weighted=True)
    for epoch in range(2):
        criterion.set_epoch(epoch)
        outputs = outputs_for(ALL, seed=epoch)
        loss = call(criterion, outputs, ALL)
        expected = F.cross_entropy(outputs, LABELS)
        close(loss, expected)
        close(gradient(loss, outputs), gradient(expected, outputs))
    assert torch.equal(criterion.targets.double(), one_hot64(LABELS, C))


@pytest.mark.parametrize(
    ("start", "epoch", "corrects"),
    [(2, 1, False), (2, 2, True), (2, 1.99, False), (1.5, 1, False), (1.5, 1.4, False), (1.5, 1.5, True), (0, 0, True)],
)
def test_correction_begins_at_start_with_or_without_a_fraction(start: float, epoch: float, corrects: bool) -> None:
    criterion = make(start=start)
    criterion.set_epoch(epoch)
    call(criterion, outputs_for(ALL, seed=0), ALL)
    assert torch.equal(criterion.targets.double(), one_hot64(LABELS, C)) is not corrects


def test_within_an_epoch_the_fraction_starts_correction_for_the_later_batches_only() -> None:
    criterion = make(start=0.5)
    for part, index in enumerate(torch.split(ALL, 3)):
        criterion.set_epoch(part / 4)
        call(criterion, outputs_for(index, seed=part), index)
    changed = (criterion.targets.double() != one_hot64(LABELS, C)).any(dim=1)
    assert changed.tolist() == [False] * 6 + [True] * 6


# When it must not write


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("how", ["eval", "no_grad", "inference_mode"])
def test_measuring_never_writes_and_scores_against_the_table_as_it_is(how: str, option: str) -> None:
    criterion = make(option=option)
    some_epochs(criterion, 2)
    before = snapshot(criterion)
    outputs = outputs_for(ALL, seed=77)
    if how == "eval":
        loss = call(criterion.eval(), outputs, ALL)
    else:
        with torch.no_grad() if how == "no_grad" else torch.inference_mode():
            loss = call(criterion, outputs, ALL)
    close(loss, entropy64(before["store.table"], softmax64(outputs.detach())).mean())
    assert unchanged(criterion, before)


def test_nothing_remembered_carries_a_gradient() -> None:
    criterion = make()
    some_epochs(criterion, 2)
    assert not any(value.requires_grad for value in criterion.state_dict().values())
    assert not list(criterion.parameters())
    assert not criterion.targets.requires_grad


# What cannot be used


@pytest.mark.parametrize("start", [0, 5])
def test_labels_that_are_not_those_of_the_table_at_index_point_to_indexed_dataset(start: float) -> None:
    """What happens when the place in the batch is taken for the place in the dataset."""
    order = torch.arange(N - 1, -1, -1)
    differ = int((LABELS[order] != LABELS).sum())
    with pytest.raises(InputError, match=rf"{differ} of {N} that differ.*IndexedDataset"):
        make(start)(outputs_for(ALL, seed=0), LABELS[order], ALL)


@pytest.mark.parametrize(("bad", "named"), [(-1, "-1"), (N, str(N)), (N + 100, str(N + 100))])
def test_an_index_outside_the_table_is_named(bad: int, named: str) -> None:
    index = torch.tensor([0, bad])
    with pytest.raises(InputError, match=rf"index must be in 0\.\.{N - 1}.*got {named}\."):
        make()(outputs_for(index, seed=0), LABELS[:2], index)


def repeat_in_batch(criterion: SELCLoss) -> None:
    index = torch.tensor([3, 5, 3])
    call(criterion, outputs_for(index, seed=1), index)


def repeat_across_batches(criterion: SELCLoss) -> None:
    for index in (ALL[:2], ALL[1:3]):
        call(criterion, outputs_for(index, seed=1), index)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(("repeat", "row"), [(repeat_in_batch, 3), (repeat_across_batches, 1)])
def test_an_index_that_comes_twice_in_an_epoch_is_an_error(
    repeat: Callable[[SELCLoss], None], row: int, start: float
) -> None:
    with pytest.raises(InputError, match=rf"once per epoch; got {row} again in epoch 0.*set_epoch.*repeats='once'"):
        repeat(make(start))


WRONG_CALLS: dict[str, tuple[Tensor, Tensor, Tensor]] = {
    "wrong label": (random_logits(2, C, seed=0), (LABELS[:2] + 1) % C, ALL[:2]),
    "a label with a fraction": (random_logits(2, C, seed=0), LABELS[:2] + 0.5, ALL[:2]),
    "index too large": (random_logits(2, C, seed=0), LABELS[:2], torch.tensor([0, N])),
    "negative index": (random_logits(2, C, seed=0), LABELS[:2], torch.tensor([-1, 1])),
    "repeat in the batch": (random_logits(3, C, seed=0), LABELS[[1, 2, 1]], torch.tensor([1, 2, 1])),
    "repeat in the epoch": (random_logits(2, C, seed=0), LABELS[[1, 11]], torch.tensor([1, 11])),
    "too few classes": (random_logits(2, C - 1, seed=0), LABELS[:2], ALL[:2]),
    "fewer labels": (random_logits(2, C, seed=0), LABELS[:1], ALL[:2]),
    "soft labels": (random_logits(2, C, seed=0), torch.eye(C)[LABELS[:2]], ALL[:2]),
    "fewer outputs": (random_logits(1, C, seed=0), LABELS[:2], ALL[:2]),
    "empty batch": (torch.zeros(0, C), LABELS[:0], ALL[:0]),
}


@pytest.mark.parametrize("start", [0, 9])
@pytest.mark.parametrize("case", WRONG_CALLS)
def test_after_an_error_nothing_was_counted_or_written(case: str, start: float) -> None:
    criterion = make(start)
    some_epochs(criterion, 2)
    criterion.set_epoch(2)
    index = torch.tensor([11])
    call(criterion, outputs_for(index, seed=5), index)
    before = snapshot(criterion)
    outputs, labels, index = WRONG_CALLS[case]
    with pytest.raises(InputError):
        criterion(outputs.requires_grad_(), labels, index)
    assert unchanged(criterion, before)
    rest = ALL[:11]
    call(criterion, outputs_for(rest, seed=6), rest)  # the epoch goes on as if nothing had happened


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.tensor([0.0, 1.0]), r"labels must be integers; got torch\.float32\. Convert"),
        (torch.tensor([True, False]), r"labels must be integers; got torch\.bool\. Convert"),
        (torch.tensor([0, -1, 2]), r"labels must be in 0\.\.3 for 4 classes; got values from -1 to 2\. Number"),
        (torch.tensor([1, 2, 4]), r"labels must be in 0\.\.3 for 4 classes; got values from 1 to 4\. Number"),
        (torch.zeros(2, 3, dtype=torch.int64), r"labels must be a non-empty vector \[N\]; got shape \(2, 3\)\."),
        (torch.tensor([], dtype=torch.int64), r"labels must be a non-empty vector \[N\]; got shape \(0,\)\."),
        ([], r"labels must be a non-empty vector \[N\]; got shape \(0,\)\."),
        (["cat", "dog"], r"labels must be class numbers \[N\]; got list with 'cat'\. Number them: names, labels = "),
        (np.array(["cat", "dog"]), r"labels must be class numbers \[N\]; got ndarray with 'cat'\."),
        (None, r"labels must be class numbers \[N\]; got NoneType with 'None'"),
    ],
    ids=["float", "bool", "negative", "too large", "2-D", "empty", "empty list", "names", "array of names", "nothing"],
)
def test_labels_that_cannot_be_used_get_a_sentence(labels: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        SELCLoss(labels, 4, start=0)


def test_labels_of_a_frame_are_taken_by_place_whatever_its_rows_are_called() -> None:
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series([1, 0, 2], index=[7, 2, 9])
    assert SELCLoss(labels, 3, start=0).labels.tolist() == [1, 0, 2]


def test_a_forgotten_index_is_told_how_to_get_one() -> None:
    with pytest.raises(InputError, match=r"got no index.*IndexedDataset"):
        SELCLoss(torch.tensor([0, 1]), 2, start=0)(torch.zeros(2, 2), torch.tensor([0, 1]))


@pytest.mark.parametrize("softmax", [True, False])
def test_a_softmax_before_the_loss_is_told_once(softmax: bool, caplog: pytest.LogCaptureFixture) -> None:
    criterion, labels = SELCLoss(torch.tensor([0, 1, 1]), 2, start=0), torch.tensor([0, 1, 1])
    outputs = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for epoch in range(2):
        criterion.set_epoch(epoch)
        criterion(outputs.softmax(dim=1) if softmax else outputs, labels, torch.arange(3))
    assert len(caplog.messages) == softmax
    assert all("outputs must be logits; got what sums to one" in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": 1.0}, r"alpha must be in \[0, 1\); got 1\.0\."),
        ({"alpha": -0.1}, r"alpha must be in \[0, 1\); got -0\.1\."),
        ({"alpha": math.nan}, r"alpha must be in \[0, 1\); got nan\."),
        ({"start": -1}, "start must be at least 0; got -1"),
        ({"start": math.nan}, "start must be at least 0; got nan"),
        ({"option": "III"}, "option must be 'I' or 'II', as in the paper; got 'III'"),
        ({"repeats": "twice"}, "repeats must be 'error' or 'once'; got 'twice'"),
        ({"reduction": "sum"}, "reduction must be 'mean' or 'none'; got 'sum'"),
    ],
)
def test_settings_out_of_range_get_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make(**options)


@pytest.mark.parametrize("start", [0, 5])
def test_index_and_labels_may_be_int32(start: float) -> None:
    narrow, wide = make(start), make(start)
    outputs = outputs_for(ALL, seed=0)
    loss = narrow(outputs, LABELS.int(), ALL.int())
    assert torch.equal(loss, call(wide, outputs, ALL))
    assert torch.equal(narrow.targets, wide.targets)


def test_the_caller_keeps_its_labels() -> None:
    mine = LABELS.clone()
    criterion = SELCLoss(mine, C, start=0)
    mine[:] = 0
    some_epochs(criterion, 1)
    assert torch.equal(criterion.labels, LABELS)


# Samples that come twice


def test_once_counts_only_the_first_visit_within_a_batch() -> None:
    index = torch.tensor([3, 5, 3, 3, 7, 5])
    outputs = outputs_for(index, seed=0)
    padded, plain = make(repeats="once"), make()
    losses = call(padded, outputs, index)
    first = torch.tensor([0, 1, 4])
    call(plain, outputs[first], index[first])
    assert torch.equal(padded.store.full(), plain.store.full())
    close(losses, entropy64(plain.store.read(index), softmax64(outputs.detach())).mean())


def test_once_counts_only_the_first_visit_across_batches() -> None:
    padded, plain = make(repeats="once"), make()
    first, second = torch.tensor([0, 1, 2]), torch.tensor([2, 3, 0])
    for criterion in (padded, plain):
        call(criterion, outputs_for(first, seed=0), first)
    outputs = outputs_for(second, seed=1)
    call(padded, outputs, second)
    call(plain, outputs[1:2], second[1:2])
    assert torch.equal(padded.store.full(), plain.store.full())


def test_set_epoch_lets_every_sample_come_again() -> None:
    for repeats in ("error", "once"):
        criterion = make(alpha=0.9, option="I", repeats=repeats)
        some_epochs(criterion, 3)
        close(criterion.store.full().sum(dim=1), torch.full((N,), 1 - 0.9**3))


def test_the_same_epoch_said_again_does_not_let_a_sample_come_twice() -> None:
    criterion = make()
    call(criterion, outputs_for(ALL[:4], seed=0), ALL[:4])
    criterion.set_epoch(0.5)
    with pytest.raises(InputError, match="once per epoch"):
        call(criterion, outputs_for(ALL[3:6], seed=1), ALL[3:6])


class WithIdleOnes(World):
    """This process and others that have no row of the batch; real ones are in tests/parallel."""

    def __init__(self, size: int) -> None:
        self.size = size

    def gather(self, rows: Tensor) -> list[Tensor]:
        return [rows, *(rows[:0] for _ in range(self.size - 1))]


def pretend_world(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("selc.losses.selc_loss.current", lambda: WithIdleOnes(size))


def test_under_several_processes_repeats_count_once_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for repeat in (repeat_across_batches, repeat_in_batch):
        counted_once, by_default = make(repeats="once"), make()
        repeat(counted_once)
        with monkeypatch.context() as patch:
            pretend_world(patch, 2)
            repeat(by_default)
        assert unchanged(by_default, snapshot(counted_once))
        assert int(by_default.visits.max()) == 2


def test_a_world_of_one_process_still_refuses_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_world(monkeypatch, 1)
    with pytest.raises(InputError, match="once per epoch"):
        repeat_in_batch(make())


def test_a_sample_counts_the_same_in_every_process_also_where_a_batch_is_shorter() -> None:
    """The processes' gradients are averaged, so the mean of what they reduce to is the mean over all samples."""

    class Two(World):
        size = 2

        def sum(self, values: Tensor) -> Tensor:
            return torch.tensor(5)

    one, other = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([8.0, 16.0])
    reduced = [float(make()._reduce(losses, Two())) for losses in (one, other)]
    assert sum(reduced) / 2 == pytest.approx(31 / 5)


def test_what_the_user_said_about_repeats_goes_before_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_world(monkeypatch, 2)
    with pytest.raises(InputError, match="once per epoch"):
        repeat_in_batch(make(repeats="error"))


# Saved and going on


class Loop:
    """A small training; ``steps`` may be taken in any number of calls."""

    def __init__(self, option: str) -> None:
        torch.manual_seed(0)
        self.x = random_logits(N, 3, seed=1)
        self.model = nn.Linear(3, C)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5, momentum=0.9)
        self.criterion = make(start=1, option=option)

    def steps(self, first: int, last: int) -> None:
        for step in range(first, last):
            epoch, part = divmod(step, 3)
            index = torch.split(torch.randperm(N, generator=rng(epoch)), 4)[part]
            self.criterion.set_epoch(epoch)
            loss = call(self.criterion, self.model(self.x[index]), index)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("stop", [2, 7, 9])
def test_saved_in_the_middle_of_an_epoch_and_going_on_equals_uninterrupted(stop: int, option: str) -> None:
    whole, before, after = Loop(option), Loop(option), Loop(option)
    whole.steps(0, 15)
    before.steps(0, stop)
    saved = safetensors.torch.save(before.criterion.state_dict())
    after.criterion.load_state_dict(safetensors.torch.load(saved))
    after.model.load_state_dict(before.model.state_dict())
    after.optimizer.load_state_dict(before.optimizer.state_dict())
    after.steps(stop, 15)
    assert torch.equal(after.criterion.store.full(), whole.criterion.store.full())
    assert torch.equal(after.model.weight, whole.model.weight)
    assert unchanged(after.criterion, snapshot(whole.criterion))


def test_a_loaded_state_remembers_who_came_in_this_epoch() -> None:
    criterion, loaded = make(), make()
    criterion.set_epoch(4.25)
    call(criterion, outputs_for(ALL[:6], seed=0), ALL[:6])
    loaded.load_state_dict(criterion.state_dict())
    assert loaded.epoch == 4.25
    with pytest.raises(InputError, match="again in epoch 4"):
        call(loaded, outputs_for(ALL[5:], seed=1), ALL[5:])


def test_the_state_of_another_training_set_is_refused() -> None:
    other = SELCLoss(LABELS[:5], C, start=0)
    with pytest.raises(InputError, match="belongs to other data"):
        make().load_state_dict(other.state_dict())


# In a loop of one's own


def test_a_shuffled_loader_over_an_indexed_dataset_corrects_wrong_labels() -> None:
    true = torch.arange(200) % 2
    x = (4.0 * true - 2.0)[:, None] + 0.5 * torch.randn(200, 2, generator=rng(0))
    given = true.clone()
    given[:40:2] = 1  # 20 of 100 samples of class 0
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader: DataLoader[Any] = DataLoader(
        IndexedDataset(TensorDataset(x, given)), batch_size=32, shuffle=True, generator=rng(1)
    )
    criterion = SELCLoss(given, 2, start=2)
    t = one_hot64(given, 2)
    for epoch in range(20):
        criterion.set_epoch(epoch)
        for inputs, labels, index in loader:
            outputs = model(inputs)
            if epoch >= 2:
                t[index] = 0.9 * t[index] + 0.1 * softmax64(outputs.detach())
            loss = criterion(outputs, labels, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    close(criterion.targets, t)
    assert int((given != true).sum()) == 20
    assert torch.equal(criterion.corrected_labels, true)


def test_a_forgotten_set_epoch_is_noticed_even_where_repeats_count_once() -> None:
    labels = torch.tensor([0, 1])
    criterion = SELCLoss(labels, 2, start=0, repeats="once")
    outputs = torch.zeros(2, 2, requires_grad=True)
    for _ in range(100):
        criterion(outputs, labels, torch.arange(2))
    with pytest.raises(InputError, match="set_epoch must be called before each epoch"):
        criterion(outputs, labels, torch.arange(2))


def test_outputs_that_are_not_finite_never_reach_the_table() -> None:
    labels = torch.tensor([0, 1])
    criterion = SELCLoss(labels, 2, start=0)
    outputs = torch.tensor([[0.0, torch.nan], [0.0, 0.0]], requires_grad=True)
    with pytest.raises(InputError, match="outputs must be finite"):
        criterion(outputs, labels, torch.arange(2))
    assert torch.equal(criterion.targets, torch.eye(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_an_index_that_is_no_row_number_gets_its_sentence(dtype: torch.dtype) -> None:
    labels = torch.tensor([0, 1])
    criterion = SELCLoss(labels, 2, start=0)
    with pytest.raises(InputError, match="index must be of integers"):
        criterion(torch.zeros(2, 2, requires_grad=True), labels, torch.arange(2).to(dtype))


def test_option_one_weighted_in_eval_mode_has_no_loss_before_any_update() -> None:
    """The table is all zeros (Eq. 3), so there is neither a loss nor a weight to divide by."""
    criterion = make(option="I", weighted=True)
    assert call(criterion.eval(), random_logits(N, C, seed=0), ALL).item() == 0
