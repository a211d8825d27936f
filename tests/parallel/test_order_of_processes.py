"""Which rows a process takes of each batch, without any process."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from selc.training.order import Order, deal, own_part

CPU = torch.device("cpu")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    num_rows=st.integers(1, 80),
    batch_size=st.integers(1, 20),
    size=st.integers(1, 8),
    per_process=st.integers(1, 3),
    seed=st.integers(0, 2**62),
    epoch=st.integers(0, 300),
    samples=st.integers(0, 80),
)
def test_no_row_is_seen_twice_or_dropped_and_each_stays_with_one_process(
    num_rows: int, batch_size: int, size: int, per_process: int, seed: int, epoch: int, samples: int
) -> None:
    shard = deal(num_rows, seed, size * per_process)
    order = Order(shard, None, seed, torch.arange(num_rows) % 3, samples)
    batches = order.batches(epoch, batch_size, CPU)
    parts = [own_part(batches, shard, rank, size) for rank in range(size)]
    for number, batch in enumerate(batches):
        of_all = [row for rank in range(size) for row in parts[rank][number].tolist()]
        assert sorted(of_all) == sorted(batch.tolist())
        for rank in range(size):
            mine = parts[rank][number].tolist()
            assert mine == [row for row in batch.tolist() if int(shard[row]) % size == rank]  # in the same order
    whole = sorted(row for of_rank in parts for part in of_rank for row in part.tolist())
    assert len(whole) == len(set(whole)) == (min(samples, num_rows) or num_rows)


def test_one_process_takes_the_batches_as_they_are() -> None:
    shard = deal(50, 0, 8)
    batches = Order(shard, None, 0).batches(0, 7, CPU)
    assert all(mine is batch for mine, batch in zip(own_part(batches, shard, 0, 1), batches, strict=True))
