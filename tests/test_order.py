from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from selc.training.order import Order, deal
from tests.helpers import rng

CPU = torch.device("cpu")
quick = settings(max_examples=100, deadline=None, derandomize=True)
rows_, batch_, shards_ = st.integers(1, 70), st.integers(1, 20), st.integers(1, 9)
seed_, epoch_ = st.integers(0, 2**62), st.integers(0, 300)


def subset(num_rows: int, share: float, seed: int) -> Tensor:
    """Some of the rows, at least one, in no particular order."""
    return torch.randperm(num_rows, generator=rng(seed))[: max(1, int(share * num_rows))]


def order(shard: Tensor, rows: Tensor | None, seed: int, epoch: int, batch_size: int = 8) -> list[int]:
    result: list[int] = torch.cat(Order(shard, rows, seed).batches(epoch, batch_size, CPU)).tolist()
    return result


@quick
@given(num_rows=rows_, shards=shards_, seed=seed_)
def test_rows_are_dealt_to_shards_whose_sizes_differ_by_at_most_one(num_rows: int, shards: int, seed: int) -> None:
    sizes = torch.bincount(deal(num_rows, seed, shards), minlength=shards)
    assert len(sizes) == shards
    assert int(sizes.sum()) == num_rows
    assert int(sizes.max() - sizes.min()) <= 1


@quick
@given(num_rows=rows_, batch_size=batch_, shards=shards_, seed=seed_, epoch=epoch_)
def test_every_row_comes_exactly_once_in_an_epoch(
    num_rows: int, batch_size: int, shards: int, seed: int, epoch: int
) -> None:
    assert sorted(order(deal(num_rows, seed, shards), None, seed, epoch, batch_size)) == list(range(num_rows))


@quick
@given(num_rows=rows_, batch_size=batch_, shards=shards_, seed=seed_, epoch=epoch_, share=st.floats(0, 1))
def test_every_row_of_a_subset_comes_exactly_once_and_no_other(
    num_rows: int, batch_size: int, shards: int, seed: int, epoch: int, share: float
) -> None:
    rows = subset(num_rows, share, seed)
    assert sorted(order(deal(num_rows, seed, shards), rows, seed, epoch, batch_size)) == sorted(rows.tolist())


@quick
@given(num_rows=st.integers(2, 70), batch_size=st.integers(2, 20), shards=shards_, seed=seed_, epoch=epoch_)
def test_batches_are_full_and_none_holds_a_single_row(
    num_rows: int, batch_size: int, shards: int, seed: int, epoch: int
) -> None:
    sizes = list(map(len, Order(deal(num_rows, seed, shards), None, seed).batches(epoch, batch_size, CPU)))
    assert min(sizes) > 1
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert sizes[-1] <= batch_size + 1


@quick
@given(num_rows=rows_, batch_size=batch_, shards=shards_, seed=seed_, epoch=epoch_, share=st.floats(0, 1))
def test_the_owner_of_a_shard_finds_its_order_without_the_others(
    num_rows: int, batch_size: int, shards: int, seed: int, epoch: int, share: float
) -> None:
    shard, rows = deal(num_rows, seed, shards), subset(num_rows, share, seed)
    everyone = order(shard, rows, seed, epoch, batch_size)
    for k in range(shards):
        mine = rows[shard[rows] == k]
        if len(mine):
            assert [row for row in everyone if shard[row] == k] == order(shard, mine, seed, epoch)


@quick
@given(num_rows=st.integers(1, 70), shards=shards_, seed=seed_, epoch=epoch_, batch_size=batch_)
def test_the_size_of_a_batch_does_not_change_the_order(
    num_rows: int, shards: int, seed: int, epoch: int, batch_size: int
) -> None:
    shard = deal(num_rows, seed, shards)
    assert order(shard, None, seed, epoch, batch_size) == order(shard, None, seed, epoch, num_rows)


@quick
@given(per_shard=st.integers(1, 8), shards=shards_, times=st.integers(1, 4), seed=seed_, epoch=epoch_)
def test_a_batch_takes_from_all_shards_evenly(per_shard: int, shards: int, times: int, seed: int, epoch: int) -> None:
    shard = deal(per_shard * shards * times, seed, shards)
    assume(per_shard * shards > 1)  # a last batch of one row joins the one before it
    batches = Order(shard, None, seed).batches(epoch, per_shard * shards, CPU)
    assert len(batches) == times
    for batch in batches:
        assert torch.bincount(shard[batch], minlength=shards).tolist() == [per_shard] * shards


@quick
@given(num_rows=rows_, batch_size=batch_, shards=shards_, seed=seed_, epoch=epoch_)
def test_the_same_arguments_give_the_same_order_whatever_was_drawn_before(
    num_rows: int, batch_size: int, shards: int, seed: int, epoch: int
) -> None:
    first = order(deal(num_rows, seed, shards), None, seed, epoch, batch_size)
    torch.rand(3)
    assert order(deal(num_rows, seed, shards), None, seed, epoch, batch_size) == first


def test_shards_of_the_same_size_are_not_permuted_alike() -> None:
    shard = deal(160, 0, 8)
    everyone = torch.tensor(order(shard, None, 0, 0))
    ranks = {tuple(everyone[shard[everyone] == k].argsort().tolist()) for k in range(8)}
    assert len(ranks) == 8


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    shard = deal(200, 0, 8)
    assert len({tuple(order(shard, None, seed, epoch)) for seed in range(5) for epoch in range(20)}) == 100
    assert not torch.equal(shard, deal(200, 1, 8))


def test_every_row_is_as_likely_to_come_first_as_any_other() -> None:
    """The mean place of a row over many epochs is the middle; 5 standard errors of a uniform place."""
    count, epochs = 40, 400
    shard = deal(count, 0, 4)
    places = torch.stack([torch.tensor(order(shard, None, 0, epoch)).argsort() for epoch in range(epochs)]).double()
    assert float((places.mean(dim=0) - (count - 1) / 2).abs().max()) < 5 * count / (12 * epochs) ** 0.5


def test_stratified_batches_have_their_share_of_every_class() -> None:
    labels = torch.randint(5, (400,), generator=torch.Generator().manual_seed(0))
    shard = deal(400, 0, 4, labels)
    for label in range(5):
        sizes = torch.bincount(shard[labels == label], minlength=4)
        assert int(sizes.max() - sizes.min()) <= 1
    order = Order(shard, None, 0, labels, stratified=True)
    batches = order.batches(0, 40, CPU)
    assert torch.cat(batches).sort().values.tolist() == list(range(400))
    expected = torch.bincount(labels) / 10
    for batch in batches:
        # each of the four shards is off by at most one row per class, at either end of the batch
        assert bool(((torch.bincount(labels[batch], minlength=5) - expected).abs() <= 5).all())
        assert len(torch.unique(labels[batch])) == 5
    assert not torch.equal(batches[0], order.batches(1, 40, CPU)[0])


@pytest.mark.parametrize("batch_size", [128, 200, 256])
def test_stratified_batches_lack_far_fewer_of_a_hundred_classes_than_random_ones(batch_size: int) -> None:
    labels = torch.arange(5000) % 100
    batches = Order(deal(5000, 3, 8, labels), None, 3, labels, 0, True).batches(0, batch_size, CPU)[:-1]
    absent = [100 - len(labels[batch].unique()) for batch in batches]
    by_chance = 100 * (1 - 1 / 100) ** batch_size
    assert sum(absent) / len(absent) < 0.7 * by_chance
