from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from selc.errors import ConfigError, InputError, RunFolderError
from selc.memory import Store
from selc.memory.forms import FormName, first_largest, largest_of
from selc.memory.topk import largest
from tests.helpers import close, one_hot64, random_labels, random_logits, random_targets, rng, softmax64

FORMS: tuple[FormName, ...] = get_args(FormName)
N, C = 12, 20


def spread(rows: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    """What top-k keeps: all but the k largest entries of a row become their mean."""
    result = rows.copy()
    for row in result:
        others = np.argsort(row)[: max(len(row) - k, 0)]
        if len(others):
            row[others] = row[others].mean()
    return result


def followed(rows: np.ndarray[Any, Any], p: np.ndarray[Any, Any], k: int, momentum: float) -> np.ndarray[Any, Any]:
    """An update of top-k by its definition: the others are spread as ``p`` is, none above the least one kept."""
    result = rows.copy()
    for row, now in zip(result, p, strict=True):
        order = np.argsort(row)
        others, kept = order[: max(len(row) - k, 0)], order[max(len(row) - k, 0) :]
        if len(others):
            rest = row[others].sum()
            likely = np.minimum(rest * now[others] / now[others].sum(), row[kept].min())
            row[others] = likely + (rest - likely.sum()) / len(others)
        row[:] = momentum * row + (1 - momentum) * now
    return spread(result, k)


def filled(form: FormName, rows: Tensor, **options: Any) -> Store:
    store = Store(*rows.shape, form=form, **options)
    store.write(torch.arange(len(rows)), rows)
    return store


updates = st.tuples(
    st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    st.integers(2, 40),  # columns
    st.integers(1, 12),  # kept
    st.integers(1, 25),  # updates
    st.integers(0, 10_000),  # seed
)


@given(updates)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_each_form_follows_the_equation(case: tuple[float, int, int, int, int]) -> None:
    momentum, columns, k, count, seed = case
    labels = random_labels(N, columns, seed)
    stores = {form: Store.from_labels(labels, columns, form=form) for form in FORMS[:3]}
    stores["top-k"] = Store.from_labels(labels, columns, form="top-k", k=k)
    exact = one_hot64(labels, columns).numpy()
    kept = exact.copy()
    for step in range(count):
        index = torch.randperm(N, generator=rng(seed + step))[: N // 2]
        p = softmax64(random_logits(len(index), columns, seed=seed + step, scale=3.0))
        exact[index] = momentum * exact[index] + (1 - momentum) * p.numpy()
        kept[index] = followed(kept[index], p.numpy(), k, momentum)
        for store in stores.values():
            store.ema(index, p.float(), momentum)
    close(stores["dense"].full(), torch.from_numpy(exact))
    assert torch.equal(stores["disk"].full(), stores["dense"].full())
    # Half: a rounding of 2^-12 at most in each update, of which the share ``momentum`` is left at the next one.
    bound = 2**-12 / (1 - momentum) + 1e-6
    assert float((stores["half"].full().double() - torch.from_numpy(exact)).abs().max()) <= bound
    close(stores["top-k"].full(), torch.from_numpy(kept), atol=1e-5)
    for store in stores.values():
        close(store.full().sum(dim=1), torch.ones(N), atol=columns * bound if store.form == "half" else 1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_entry_of_random_rows_is_that_of_the_dense_table(form: FormName) -> None:
    rows = random_targets(50, 30, seed=1)
    store = filled(form, rows)
    values, columns = store.top()
    assert columns.tolist() == rows.argmax(dim=1).tolist() == store.argmax().tolist()
    close(values, rows.amax(dim=1), atol=2**-12)
    close(store.at(columns), rows.amax(dim=1), atol=2**-12)


@pytest.mark.parametrize("form", FORMS)
def test_one_entry_of_each_row_is_what_reading_the_row_gives(form: FormName) -> None:
    rows = random_targets(40, 30, seed=2)
    store, column = filled(form, rows), random_labels(40, 30, seed=3)
    close(store.at(column), store.full().gather(1, column[:, None]).flatten(), atol=1e-7)


@pytest.mark.parametrize("columns", [3, 300, 70_000])
@pytest.mark.parametrize("form", FORMS)
def test_labels_are_kept_exactly_for_any_number_of_classes(form: FormName, columns: int) -> None:
    labels = torch.cat([random_labels(20, columns, seed=0), torch.tensor([0, 1, columns - 1])])
    store = Store.from_labels(labels, columns, form=form)
    assert store.argmax().tolist() == labels.tolist()
    rows = store.read(torch.tensor([22, 0]))
    assert torch.equal(rows.double(), one_hot(labels[[22, 0]], columns))


def one_hot(labels: Tensor, columns: int) -> Tensor:
    rows = torch.zeros(len(labels), columns, dtype=torch.float64)
    rows[range(len(labels)), labels] = 1
    return rows


@pytest.mark.parametrize("form", FORMS)
def test_the_given_label_fades_as_the_equation_says_and_never_at_once(form: FormName) -> None:
    labels, index = random_labels(4, C, seed=0), torch.arange(4)
    store = Store.from_labels(labels, C, form=form)
    for update in range(1, 30):
        p = softmax64(random_logits(4, C, seed=update, scale=1.0)).float()
        p.scatter_(1, labels[:, None], 0.0)  # nothing speaks for the given label any more
        p /= p.sum(dim=1, keepdim=True)
        store.ema(index, p, 0.9)
        left = store.at(labels)
        if 0.9**update > 1 / 8:  # so large that it is among the eight largest whatever the others are
            close(left, torch.full((4,), 0.9**update), atol=3e-3)
    close(store.full().sum(dim=1), torch.ones(4), atol=1e-2)


@pytest.mark.parametrize("form", FORMS)
def test_momentum_zero_keeps_the_last_prediction_alone(form: FormName) -> None:
    store, p = Store.from_labels(random_labels(5, 6, seed=0), 6, form=form), random_targets(5, 6, seed=1)
    store.ema(torch.arange(5), p, 0.0)
    close(store.full(), p, atol=2**-12)


@pytest.mark.parametrize("form", FORMS)
def test_ema_returns_the_updated_rows_in_full(form: FormName) -> None:
    rows, p = random_targets(6, 30, seed=0), random_targets(3, 30, seed=1)
    store, index = filled(form, rows), torch.tensor([5, 0, 3])
    before = store.read(index).double()
    returned, expected = store.ema(index, p, 0.7), 0.7 * before + 0.3 * p.double()
    if form == "top-k":  # the sum of those that were not kept is theirs as well, but spread in another way
        largest_before = before.topk(8, dim=1).indices
        close(returned.sum(dim=1), expected.sum(dim=1))
        returned, expected = returned.gather(1, largest_before), expected.gather(1, largest_before)
    close(returned, expected)
    others = torch.tensor([1, 2, 4])
    assert torch.equal(store.read(others), filled(form, rows).read(others))


@pytest.mark.parametrize("changing", [0, 1, 5, 12])
def test_top_k_keeps_the_largest_entries_of_rows_that_change_and_of_rows_that_do_not(changing: int) -> None:
    """Against the definition: in so many of the rows the prediction is of a class that was not among those kept."""
    k, rows = 3, softmax64(random_logits(N, C, seed=3, scale=3.0))
    store = filled("top-k", rows.float(), k=k)
    kept = spread(rows.numpy(), k)
    p = torch.from_numpy(kept.copy())
    p[:changing] = one_hot64(rows[:changing].argmin(dim=1), C) if changing else p[:0]
    expected = followed(kept, p.numpy(), k, 0.5)
    store.ema(torch.arange(N), p.float(), 0.5)
    close(store.full(), torch.from_numpy(expected))


@pytest.mark.parametrize("form", FORMS)
def test_ties_keep_the_sum_and_the_first_of_the_largest(form: FormName) -> None:
    even = torch.full((2, 11), 1 / 11)
    two = torch.zeros(2, 11)
    two[0, [3, 9]] = 0.5
    two[1, [10, 2, 7]] = 1 / 3
    store = filled(form, torch.cat([even, two]), k=8 if form == "top-k" else None)
    assert store.argmax().tolist() == [0, 0, 3, 2]
    store.ema(torch.arange(4), torch.cat([even, two]), 0.9)
    close(store.full(), torch.cat([even, two]), atol=1e-3)
    close(store.full().sum(dim=1), torch.ones(4), atol=2e-3)


@pytest.mark.parametrize("form", FORMS)
def test_a_table_that_was_never_written_is_zero_and_its_argmax_the_first_class(form: FormName) -> None:
    store = Store(3, 30, form=form)
    assert not store.full().any()
    assert store.argmax().tolist() == [0, 0, 0]


@pytest.mark.parametrize("columns", [1, 5, 8])
def test_with_as_many_kept_as_there_are_classes_top_k_has_the_bits_of_dense(columns: int) -> None:
    labels, index = random_labels(7, columns, seed=0), torch.arange(7)
    dense, kept = Store.from_labels(labels, columns), Store.from_labels(labels, columns, form="top-k", k=columns)
    for step in range(50):
        p = random_logits(7, columns, seed=step).softmax(dim=1)
        assert torch.equal(dense.ema(index, p, 0.9), kept.ema(index, p, 0.9))
    assert torch.equal(dense.full(), kept.full())


@given(st.integers(1, 12), st.integers(2, 5000), st.integers(0, 1000))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_largest_entries_are_found_among_any_number_of_columns(k: int, columns: int, seed: int) -> None:
    rows = torch.rand(3, columns, generator=rng(seed))
    k = min(k, columns)
    expected = np.sort(rows.numpy(), axis=1)[:, ::-1][:, :k]
    best = rows.argsort(dim=1, descending=True)[:, :k]
    anywhere = torch.rand(3, columns, generator=rng(seed)).argsort(dim=1)[:, :k]
    for likely in (None, best, best.roll(1, dims=0), anywhere):  # wherever the search begins
        values, places = largest(rows, k, likely)
        assert torch.equal(rows.gather(1, places), values)
        assert np.array_equal(np.sort(values.numpy(), axis=1)[:, ::-1], expected)


@pytest.mark.parametrize(
    ("columns", "size"), [(10, 40), (16, 64), (17, 44), (256, 44), (257, 52), (1000, 52), (65_536, 52), (100_000, 60)]
)
def test_top_k_takes_at_most_64_bytes_per_sample(columns: int, size: int) -> None:
    store = Store(5, columns, form="top-k")
    tensors = store.tensors()
    assert sum(t.numel() * t.element_size() for t in tensors.values()) == 5 * size <= 5 * 64
    assert store.bytes_per_row == size
    assert columns <= 16 or tensors["values"].shape == (5, 8)


def test_top_k_takes_at_most_64_bytes_also_of_more_than_16_million_classes() -> None:
    assert Store(1, 2**24 + 1, form="top-k").bytes_per_row <= 64


def test_rows_of_at_most_16_classes_are_kept_whole_by_top_k() -> None:
    labels, index = random_labels(7, 16, seed=0), torch.arange(7)
    dense, kept = Store.from_labels(labels, 16), Store.from_labels(labels, 16, form="top-k")
    for step in range(20):
        p = random_logits(7, 16, seed=step).softmax(dim=1)
        assert torch.equal(dense.ema(index, p, 0.9), kept.ema(index, p, 0.9))
    assert kept.form == kept.like().form == copy.deepcopy(kept).form == "top-k"
    assert torch.equal(dense.full(), kept.full())


def test_bytes_per_sample_of_the_other_forms() -> None:
    assert [Store(3, 100, form=form).bytes_per_row for form in FORMS[:3]] == [400, 200, 400]


@pytest.mark.parametrize("form", FORMS)
def test_a_process_holds_its_own_rows_only(form: FormName) -> None:
    owned, rows = torch.tensor([1, 4, 5, 9]), random_targets(10, 30, seed=0)
    store, whole = Store(10, 30, form=form, owned=owned), filled(form, rows)
    assert {len(t) for t in store.tensors().values()} == {4}
    store.write(torch.tensor([9, 1]), rows[[9, 1]])
    store.ema(torch.tensor([5, 4]), rows[[5, 4]], 0.0)
    assert torch.equal(store.read(torch.tensor([4, 9])), whole.read(torch.tensor([4, 9])))
    assert torch.cat([index for index, _ in store.blocks(3)]).tolist() == owned.tolist()
    assert store.argmax().shape == (10,)
    assert torch.equal(store.argmax()[owned], whole.argmax()[owned])
    assert torch.equal(store.full()[owned], whole.full()[owned])
    assert torch.equal(store.at(torch.arange(10))[owned], whole.at(torch.arange(10))[owned])
    assert store.among_held(torch.tensor([0, 9, 4, 3])).tolist() == [9, 4]
    with pytest.raises(InputError, match="got row 3, which another one holds"):
        store.read(torch.tensor([4, 3]))


@pytest.mark.parametrize("form", FORMS)
def test_a_process_with_one_row_refuses_those_behind_it_too(form: FormName) -> None:
    store = Store(10, 30, form=form, owned=torch.tensor([3]))
    assert store.read(torch.tensor([3])).shape == (1, 30)
    with pytest.raises(InputError, match="got row 7, which another one holds"):
        store.read(torch.tensor([7]))


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_all_rows_give_the_rows_of_one_process(form: FormName) -> None:
    labels = random_labels(8, 30, seed=0)
    store = Store.from_labels(labels, 30, form=form, owned=torch.tensor([0, 2, 7]))
    assert store.read(torch.tensor([7, 2])).argmax(dim=1).tolist() == labels[[7, 2]].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_saved_tensors_bring_the_rows_back_whoever_holds_them(form: FormName) -> None:
    store = filled(form, random_targets(9, 30, seed=0))
    saved = {name: t.clone() for name, t in store.tensors().items()}
    half = Store(9, 30, form=form, owned=torch.tensor([0, 3, 4, 8]))
    wanted = torch.tensor([4, 0, 8, 3])
    half.load(wanted, {name: t[wanted] for name, t in saved.items()})
    assert torch.equal(half.read(wanted), store.read(wanted))
    again = store.like()
    again.load(torch.arange(9), saved)
    assert torch.equal(again.full(), store.full())
    assert torch.equal(Store.of(saved, 30).full(), store.full())


@pytest.mark.parametrize("to", FORMS)
@pytest.mark.parametrize("form", FORMS)
def test_saved_tensors_of_another_form_are_taken_over(form: FormName, to: FormName) -> None:
    rows = torch.from_numpy(spread(random_targets(6, 30, seed=0).numpy(), 8))
    store, other = filled(form, rows), Store(6, 30, form=to)
    other.load(torch.arange(6), store.tensors())
    close(other.full(), rows, atol=2e-4)


@pytest.mark.parametrize("form", FORMS)
def test_saved_tensors_of_other_data_are_refused_with_a_sentence(form: FormName) -> None:
    store = Store(6, 300, form=form)
    for strange in (Store(6, 2), Store(5, 300, form=form), Store(6, 3, form="top-k")):
        with pytest.raises(InputError, match=r"\[6, 300\]; got .* belongs to other data"):
            store.load(torch.arange(6), strange.tensors())
    with pytest.raises(InputError, match="must belong to 300 columns"):
        Store.of(Store(6, 2).tensors(), 300)


@pytest.mark.parametrize("form", FORMS)
def test_state_dict_copy_and_move_keep_every_row(form: FormName) -> None:
    store = filled(form, random_targets(6, 30, seed=0))
    model, twin = nn.ModuleDict({"memory": store}), copy.deepcopy(store)
    other = nn.ModuleDict({"memory": store.like()})
    other.load_state_dict(model.state_dict())
    assert torch.equal(other["memory"].full(), store.full())  # type: ignore[operator]
    twin.write(torch.tensor([0]), torch.ones(1, 30))
    assert not torch.equal(twin.full(), store.full())
    assert torch.equal(twin.full()[1:], store.full()[1:])
    assert (twin.form, len(twin), twin.columns) == (form, 6, 30)
    moved = copy.deepcopy(store).to("meta")
    assert moved.device.type == "meta"
    assert moved.tensors().popitem()[1].device.type == ("cpu" if form == "disk" else "meta")


def test_a_table_on_disk_leaves_no_file_behind(tmp_path: Path) -> None:
    store = Store(1000, 50, form="disk", folder=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []
    store.write(torch.tensor([999]), torch.ones(1, 50))
    assert float(store.full().sum()) == 50
    assert store.like().form == "disk"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_table_on_disk_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[int] = []
    make = tempfile.mkstemp

    def noted(**options: Any) -> tuple[int, str]:
        handle, name = make(**options)
        handles.append(handle)
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", noted)
    store = Store(10, 5, form="disk", folder=tmp_path)
    assert float(store.full().sum()) == 0
    (handle,) = handles
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_a_table_for_which_there_is_no_space_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"needs 4000000000\.0 GB in .*; got .* GB free"):
        Store(10**12, 10**6, form="disk", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="needs"):
        Store(10, 10, form="disk", folder=tmp_path / "file")


def test_blocks_of_wide_rows_are_few_rows() -> None:
    store = Store(1000, 100_000, form="top-k")
    index, rows = next(iter(store.blocks()))
    assert rows.numel() * 4 <= 2**26
    assert len(index) >= 100


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"form": "sparse"}, "form must be one of dense, half, disk, top-k; got 'sparse'"),
        ({"form": "half", "dtype": torch.int64}, "must have the form dense; got 'half'"),
        ({"form": "top-k", "k": 0}, "k must be at least 1"),
        ({"form": "dense", "k": 8}, "goes with the form top-k"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Store(3, 4, **options)


def test_a_table_on_disk_takes_four_bytes_a_number_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def reserve(handle: int, size: int) -> None:
        taken.append(size)
        os.ftruncate(handle, size)

    monkeypatch.setattr("selc.memory.disk._reserve", reserve)
    Store(30, 7, form="disk", folder=tmp_path / "a" / "folder")
    Store(30, 7, form="disk", folder=tmp_path / "a" / "folder")  # which is there by now
    assert taken == [4 * 30 * 7] * 2


def test_a_name_that_the_system_keeps_goes_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise PermissionError(name)

    later: list[tuple[Any, ...]] = []
    monkeypatch.setattr("atexit.register", lambda *what: later.append(what))
    with monkeypatch.context() as patch:
        patch.setattr("os.unlink", refuse)
        store = Store(3, 2, form="disk", folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    ((what, *arguments),) = later
    what(*arguments)
    assert list(tmp_path.iterdir()) == []
    assert float(store.full().sum()) == 0


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_a_process_are_where_their_numbers_are(form: FormName) -> None:
    assert Store(9, 30, form=form, owned=torch.tensor([1, 4], device="meta")).device.type == "meta"


def test_a_table_like_another_has_its_type() -> None:
    whole = Store(3, 2, torch.int64)
    assert whole.like().full().dtype == whole.full().dtype == torch.int64
    assert [Store(3, 30, form=form).like().full().dtype for form in FORMS] == [torch.float32] * 4


@pytest.mark.parametrize("columns", [2, 255, 256, 257, 300, 319, 320, 1000])
def test_the_largest_column_is_that_of_argmax_also_among_equals(columns: int) -> None:
    """By NumPy, whose argmax is the first of several by its documentation."""
    rows = torch.randn(500, columns, generator=torch.Generator().manual_seed(columns))
    rows[0] = 0.0  # a row without an update
    rows[1:columns:2, -1] = 9.0  # the last column, which need not fill a line
    rows[3:columns:4, columns // 2] = 9.0  # and another one before it
    values, found = first_largest(rows)
    assert found.tolist() == np.argmax(rows.numpy(), axis=1).tolist()
    assert values.tolist() == rows.numpy().max(axis=1).tolist()
    largest, any_of_them = largest_of(rows)
    assert torch.equal(largest, values)
    assert torch.equal(rows.gather(1, any_of_them[:, None])[:, 0], values)
