from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from selc.errors import InputError
from selc.memory import Store
from tests.helpers import close, one_hot64, random_labels, random_logits, rng, softmax64


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 0.99])
def test_recursion_is_the_closed_form_of_eq_5_after_200_updates(alpha: float) -> None:
    labels, index = random_labels(6, 4, seed=0), torch.arange(6)
    store = Store.from_labels(labels, 4)
    p = [softmax64(random_logits(6, 4, seed=j)) for j in range(200)]
    for rows in p:
        store.ema(index, rows.float(), alpha)
    closed = alpha**200 * one_hot64(labels, 4)
    for j, rows in enumerate(p, start=1):
        closed += (1 - alpha) * alpha ** (200 - j) * rows
    close(store.full(), closed)


def test_rows_sum_to_one_after_1000_updates() -> None:
    store, index = Store.from_labels(random_labels(32, 10, seed=0), 10), torch.arange(32)
    for step in range(1000):
        store.ema(index, random_logits(32, 10, seed=step).softmax(dim=1), 0.9)
    assert float((store.full().double().sum(dim=1) - 1).abs().max()) < 1e-5


def test_ema_returns_the_new_rows_and_touches_no_others() -> None:
    before = torch.rand(8, 3, generator=rng(0))
    store = Store(8, 3)
    store.write(torch.arange(8), before)
    index = torch.tensor([6, 1, 4])
    p = torch.rand(3, 3, generator=rng(1))
    returned = store.ema(index, p, 0.7)
    close(returned, 0.7 * before[index].double() + 0.3 * p.double())
    assert torch.equal(store.read(index), returned)
    others = torch.tensor([0, 2, 3, 5, 7])
    assert torch.equal(store.read(others), before[others])


def test_write_replaces_only_the_rows_at_index() -> None:
    store = Store(5, 2)
    store.write(torch.tensor([3, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert store.full().tolist() == [[3, 4], [0, 0], [0, 0], [1, 2], [0, 0]]


def test_what_was_read_is_a_copy() -> None:
    store = Store(2, 2)
    store.read(torch.tensor([0])).fill_(5)
    next(iter(store.blocks()))[1].fill_(5)
    assert not store.full().any()


def test_no_gradient_flows_through_what_is_stored() -> None:
    store, index = Store(4, 3), torch.arange(4)
    rows = random_logits(4, 3, seed=0).requires_grad_()
    assert not store.ema(index, rows.softmax(dim=1), 0.9).requires_grad
    store.write(index, rows)
    assert not store.table.requires_grad
    assert not store.read(index).requires_grad


def test_from_labels_is_one_hot_and_argmax_is_the_label() -> None:
    labels = torch.tensor([2, 0, 1, 2])
    store = Store.from_labels(labels, 3)
    assert store.full().tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert store.argmax().tolist() == labels.tolist()
    assert (len(store), store.columns) == (4, 3)


def test_from_labels_lives_where_the_labels_live() -> None:
    labels = torch.zeros(4, dtype=torch.int64, device="meta")
    assert Store.from_labels(labels, 3).table.device.type == "meta"


@pytest.mark.parametrize("size", [1, 3, 7, 10, 11, 1000])
def test_blocks_cover_all_rows_once_in_order(size: int) -> None:
    store = Store(10, 2)
    store.write(torch.arange(10), torch.rand(10, 2, generator=rng(0)))
    blocks = list(store.blocks(size))
    assert torch.cat([index for index, _ in blocks]).tolist() == list(range(10))
    assert torch.equal(torch.cat([rows for _, rows in blocks]), store.table)
    assert max(len(index) for index, _ in blocks) <= size


def test_integers_stay_integers() -> None:
    store = Store(3, 1, dtype=torch.int64)
    store.write(torch.tensor([1]), torch.tensor([[2**40]]))
    assert store.full().tolist() == [[0], [2**40], [0]]


def test_single_entries_of_a_table_have_its_type() -> None:
    """Neither a third in double precision nor this whole number could be told in 32 bits."""
    for value, dtype in ((2**40 + 1, torch.int64), (1 / 3, torch.float64)):
        store = Store(2, 3, dtype=dtype)
        store.write(torch.tensor([1]), torch.tensor([[0, value, 0]], dtype=dtype))
        assert store.top()[0].tolist() == [0, value]
        assert store.at(torch.tensor([2, 1])).tolist() == [0, value]


def test_state_dict_brings_every_row_back() -> None:
    store, other = Store(5, 3), Store(5, 3)
    store.write(torch.arange(5), torch.rand(5, 3, generator=rng(0)))
    other.load_state_dict(store.state_dict())
    assert torch.equal(other.full(), store.full())


@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (6, 3)])
def test_a_saved_table_of_another_size_is_refused_with_a_sentence(shape: tuple[int, int]) -> None:
    model = nn.ModuleDict({"memory": Store(5, 3)})
    saved = nn.ModuleDict({"memory": Store(*shape)}).state_dict()
    with pytest.raises(InputError, match=rf"\[5, 3\]; got \[{shape[0]}, {shape[1]}\]"):
        model.load_state_dict(saved)


def test_it_moves_with_the_model_that_holds_it_and_keeps_its_type() -> None:
    model = nn.ModuleDict({"memory": Store(5, 3), "labels": Store(5, 1, dtype=torch.int64)})
    moved = copy.deepcopy(model).to("meta")
    assert {name: (t.device.type, t.dtype) for name, t in moved.state_dict().items()} == {
        "memory.table": ("meta", torch.float32),
        "labels.table": ("meta", torch.int64),
    }
    assert next(model.buffers()).device.type == "cpu"


def test_a_deep_copy_has_a_memory_of_its_own() -> None:
    store = Store(2, 2)
    copy.deepcopy(store).write(torch.tensor([0]), torch.ones(1, 2))
    assert not store.full().any()
