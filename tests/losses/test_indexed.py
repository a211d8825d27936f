from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from selc.errors import InputError
from selc.losses import IndexedDataset
from tests.helpers import rng


def test_a_tuple_gets_the_index_as_its_last_element() -> None:
    assert IndexedDataset([("a", 5), ("b", 6)])[1] == ("b", 6, 1)


def test_a_list_becomes_a_tuple_with_the_index_last() -> None:
    assert IndexedDataset([["a", 5], ["b", 6]])[0] == ("a", 5, 0)


def test_a_mapping_gets_the_key_index_and_the_original_is_left_alone() -> None:
    items = [{"x": 1}, {"x": 2}]
    assert IndexedDataset(items)[1] == {"x": 2, "index": 1}
    assert items[1] == {"x": 2}


def test_a_bare_item_becomes_a_pair() -> None:
    item, index = IndexedDataset(torch.tensor([[1.0], [2.0]]))[1]
    assert (item.tolist(), index) == ([2.0], 1)


def test_length_is_that_of_the_dataset() -> None:
    assert len(IndexedDataset(range(7))) == 7


def test_shuffling_and_subsets_keep_the_index_of_the_dataset() -> None:
    x = 100 + torch.arange(20)
    subset = Subset(IndexedDataset(TensorDataset(x, x)), [3, 19, 7, 0, 11])
    loader: DataLoader[Any] = DataLoader(subset, batch_size=2, shuffle=True, generator=rng(0))
    seen = []
    for value, _, index in loader:
        assert torch.equal(value, x[index])
        seen += index.tolist()
    assert sorted(seen) == [0, 3, 7, 11, 19]


def test_a_mapping_is_collated_with_its_indices() -> None:
    dataset = IndexedDataset([{"x": float(i)} for i in range(4)])
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=4)
    (batch,) = loader
    assert batch["index"].tolist() == [0, 1, 2, 3]
    assert batch["index"].dtype == torch.int64


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class SizedStream(Stream):
    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize("dataset", [Stream(), iter([1, 2]), (i for i in range(3)), {1, 2}])
def test_an_iterable_dataset_is_refused(dataset: Any) -> None:
    with pytest.raises(InputError, match="map-style"):
        IndexedDataset(dataset)


def test_an_iterable_dataset_with_a_length_is_refused() -> None:
    with pytest.raises(InputError, match="map-style"):
        IndexedDataset(SizedStream())
