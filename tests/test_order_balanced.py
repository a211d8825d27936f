"""Epochs that are a part of the rows, with as many of each class as can be."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from selc.training.order import Balanced, Order, deal, evenly_by_class
from tests.helpers import rng

CPU = torch.device("cpu")
quick = settings(max_examples=100, deadline=None, derandomize=True)
sizes_ = st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any)
count_, seed_, epoch_ = st.integers(1, 60), st.integers(0, 2**62), st.integers(0, 50)


def balanced_rows(labels: Tensor, count: int, seed: int, epoch: int) -> Tensor:
    """The rows of one epoch, as if no other had been asked for."""
    return Balanced(labels, count, seed).rows(epoch)


def labels_of(sizes: list[int], seed: int = 0) -> Tensor:
    """That many rows of each class, mixed."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return labels[torch.randperm(len(labels), generator=rng(seed))]


def poured(sizes: list[int], count: int) -> list[int]:
    """How much each class gives if units are handed out one by one, always to a class that has given least so far."""
    given = [0] * len(sizes)
    for _ in range(min(count, sum(sizes))):
        k = min((k for k in range(len(sizes)) if given[k] < sizes[k]), key=lambda k: given[k])
        given[k] += 1
    return given


@quick
@given(sizes=sizes_, count=count_, seed=seed_, epoch=epoch_)
def test_an_epoch_has_as_many_rows_as_asked_and_none_twice(sizes: list[int], count: int, seed: int, epoch: int) -> None:
    rows = balanced_rows(labels_of(sizes), count, seed, epoch).tolist()
    assert len(rows) == min(count, sum(sizes))
    assert len(set(rows)) == len(rows)
    assert all(0 <= row < sum(sizes) for row in rows)


@quick
@given(sizes=sizes_, count=count_, seed=seed_, epoch=epoch_)
def test_classes_are_as_even_as_handing_out_one_by_one_makes_them(
    sizes: list[int], count: int, seed: int, epoch: int
) -> None:
    labels = labels_of(sizes)
    found = torch.bincount(labels[balanced_rows(labels, count, seed, epoch)], minlength=len(sizes)).tolist()
    assert sorted(found) == sorted(poured(sizes, count))
    level = max(found)
    assert all(n == size or n >= level - 1 for n, size in zip(found, sizes, strict=True))


@quick
@given(sizes=sizes_, count=count_, seed=seed_, epochs=st.integers(1, 30))
def test_over_any_epochs_the_rows_of_a_class_come_equally_often_give_or_take_one(
    sizes: list[int], count: int, seed: int, epochs: int
) -> None:
    labels = labels_of(sizes)
    picks = Balanced(labels, count, seed)
    often = torch.zeros(len(labels), dtype=torch.int64)
    for epoch in range(epochs):
        often += torch.bincount(picks.rows(epoch), minlength=len(labels))
    for k, size in enumerate(sizes):
        if size:
            mine = often[labels == k]
            assert int(mine.max() - mine.min()) <= 1


@quick
@given(size=st.integers(1, 12), classes=st.integers(1, 6), count=count_, seed=seed_)
def test_classes_of_the_same_size_take_turns_in_giving_the_odd_rows(
    size: int, classes: int, count: int, seed: int
) -> None:
    labels = labels_of([size] * classes)
    picks = Balanced(labels, count, seed)
    epochs = 60  # a multiple of every number of classes up to six
    total = torch.zeros(classes, dtype=torch.int64)
    for epoch in range(epochs):
        total += torch.bincount(labels[picks.rows(epoch)], minlength=classes)
    assert total.tolist() == [epochs * min(count, size * classes) // classes] * classes


@quick
@given(sizes=sizes_, count=count_, seed=seed_, epoch=epoch_)
def test_an_epoch_follows_from_its_number_and_not_from_what_came_before(
    sizes: list[int], count: int, seed: int, epoch: int
) -> None:
    labels = labels_of(sizes)
    picks = Balanced(labels, count, seed)
    picks.rows(epoch + 3)
    torch.rand(3)
    assert torch.equal(picks.rows(epoch), balanced_rows(labels, count, seed, epoch))


@quick
@given(sizes=sizes_, count=count_, seed=seed_, epoch=epoch_, share=st.floats(0.1, 1))
def test_only_the_rows_that_may_be_trained_on_are_picked_in_whatever_order_they_are_given(
    sizes: list[int], count: int, seed: int, epoch: int, share: float
) -> None:
    labels = labels_of(sizes)
    pool = torch.randperm(len(labels), generator=rng(seed))[: max(1, int(share * len(labels)))]
    found = Balanced(labels, count, seed, pool).rows(epoch)
    assert set(found.tolist()) <= set(pool.tolist())
    assert len(found) == min(count, len(pool))
    assert torch.equal(found, Balanced(labels, count, seed, pool.sort().values).rows(epoch))


def test_seeds_and_epochs_have_rows_of_their_own() -> None:
    labels = labels_of([100, 100, 100])
    picked = {tuple(sorted(balanced_rows(labels, 30, seed, epoch).tolist())) for seed in range(4) for epoch in range(4)}
    assert len(picked) == 16


# In the order of a training


@quick
@given(sizes=sizes_, count=count_, shards=st.integers(1, 5), seed=seed_, epoch=epoch_, batch_size=st.integers(1, 9))
def test_a_training_sees_the_balanced_rows_in_the_shards_that_own_them(
    sizes: list[int], count: int, shards: int, seed: int, epoch: int, batch_size: int
) -> None:
    labels = labels_of(sizes)
    shard = deal(len(labels), seed, shards)
    order = Order(shard, None, seed, labels, count)
    batches = order.batches(epoch, batch_size, CPU)
    seen = torch.cat(batches)
    if count < len(labels):
        assert sorted(seen.tolist()) == sorted(balanced_rows(labels, count, seed, epoch).tolist())
    else:
        assert sorted(seen.tolist()) == list(range(len(labels)))
        assert torch.equal(seen, torch.cat(Order(shard, None, seed).batches(epoch, batch_size, CPU)))
    assert order.samples == len(seen) == min(count, len(labels))
    for k in range(shards):  # who owns a shard finds their order without the others
        mine = seen[shard[seen] == k]
        if len(mine):
            alone = torch.cat(Order(shard, mine.sort().values, seed).batches(epoch, batch_size, CPU))
            assert torch.equal(alone, mine)
    # whatever came before
    again = Order(shard, None, seed, labels, count)
    again.batches(epoch + 1, batch_size, CPU)
    assert torch.equal(torch.cat(again.batches(epoch, batch_size, CPU)), seen)


@quick
@given(shards=st.integers(1, 8), seed=seed_, epoch=epoch_)
def test_batches_of_a_balanced_epoch_are_mixed_over_classes_and_shards(shards: int, seed: int, epoch: int) -> None:
    """240 of 2,000 rows in batches of 60: each has rows of every class and every shard."""
    labels = labels_of([1700, 200, 100])
    shard = deal(len(labels), seed, shards)
    batches = Order(shard, None, seed, labels, 240).batches(epoch, 60, CPU)
    assert len(batches) == 4
    for batch in batches:
        assert int(torch.bincount(labels[batch], minlength=3).min()) >= 3
        assert int(torch.bincount(shard[batch], minlength=shards).min()) >= 1


def test_no_number_of_samples_means_all_rows() -> None:
    labels = labels_of([5, 3])
    shard = deal(8, 0, 2)
    order = Order(shard, None, 0, labels)
    assert order.samples == 8
    assert sorted(torch.cat(order.batches(0, 4, CPU)).tolist()) == list(range(8))


# Each class at an even pace


@quick
@given(sizes=sizes_, seed=seed_)
def test_at_any_time_each_class_has_come_as_often_as_its_share_says(sizes: list[int], seed: int) -> None:
    """Off by half a row for its own rounding, and by its share of half a row for that of every other class."""
    labels = labels_of(sizes, seed)
    order = evenly_by_class(labels, 0.25)
    assert sorted(order.tolist()) == list(range(len(labels)))
    for k, size in enumerate(sizes):
        share, there = size / len(labels), len([n for n in sizes if n])
        come = (labels[order] == k).cumsum(0)
        due = share * torch.arange(1, len(labels) + 1)
        # a moment between two rows that are due together may add one of each class
        assert float((come - due).abs().max()) <= 1 + share * there
        mine = order[labels[order] == k]
        assert mine.tolist() == sorted(mine.tolist())  # what was mixed before stays in its order


@quick
@given(sizes=sizes_, shards=st.integers(1, 4), seed=seed_, epoch=epoch_, count=st.integers(0, 60))
def test_a_stratified_epoch_has_the_same_rows_as_another(
    sizes: list[int], shards: int, seed: int, epoch: int, count: int
) -> None:
    labels = labels_of(sizes)
    shard = deal(len(labels), seed, shards)
    plain = Order(shard, None, seed, labels, count).batches(epoch, 7, CPU)
    even = Order(shard, None, seed, labels, count, stratified=True).batches(epoch, 7, CPU)
    assert list(map(len, plain)) == list(map(len, even))
    assert sorted(torch.cat(plain).tolist()) == sorted(torch.cat(even).tolist())
