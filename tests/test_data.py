from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import TensorDataset

from selc.data import DATASETS, ArrayInputs, Bundle, DatasetInputs, crop_and_flip
from selc.errors import InputError
from tests.helpers import random_labels, rng

# Random crop and flip


def slowly(image: Tensor, draws: list[float], padding: int, flip: bool) -> Tensor:
    """One image, pixel by pixel."""
    K, H, W = image.shape
    places = 2 * padding + 1
    top, left = (min(math.floor(u * places), places - 1) for u in draws[:2])
    result = torch.zeros(K, H, W)
    for row in range(H):
        for column in range(W):
            from_row = row + top - padding
            from_column = (W - 1 - column if flip and draws[2] < 0.5 else column) + left - padding
            if 0 <= from_row < H and 0 <= from_column < W:
                result[:, row, column] = image[:, from_row, from_column]
    return result


@pytest.mark.parametrize(("padding", "flip"), [(2, True), (2, False), (0, True), (1, True)])
def test_crop_and_flip_is_the_slow_loop_over_pixels(padding: int, flip: bool) -> None:
    x, draws = torch.rand(16, 3, 5, 7, generator=rng(0)), torch.rand(16, 3, generator=rng(1))
    expected = torch.stack([slowly(image, u, padding, flip) for image, u in zip(x, draws.tolist(), strict=True)])
    assert torch.equal(crop_and_flip(padding, flip)(x, draws), expected)


def test_the_middle_draw_leaves_an_image_as_it_is_and_the_extremes_stay_inside() -> None:
    x = torch.rand(1, 1, 4, 4, generator=rng(0))
    below_one = 1 - 2**-24  # the largest float32 below one
    apply = crop_and_flip(1)
    assert torch.equal(apply(x, torch.tensor([[0.5, 0.5, 0.5]])), x)
    assert torch.equal(apply(x, torch.tensor([[0.5, 0.5, 0.0]])), x.flip(3))
    corner = apply(x, torch.tensor([[0.0, 0.0, below_one]]))
    assert torch.equal(corner[..., 1:, 1:], x[..., :-1, :-1])
    assert not corner[..., 0, :].any()
    other = apply(x, torch.tensor([[below_one, below_one, below_one]]))
    assert torch.equal(other[..., :-1, :-1], x[..., 1:, 1:])
    assert not other[..., -1, :].any()


def test_every_place_and_both_sides_come_equally_often() -> None:
    """A lit pixel in the middle of 5 x 5 lands on 9 places; bounds of 5 standard deviations."""
    count = 9_000
    x = torch.zeros(count, 1, 5, 5)
    x[:, 0, 2, 2] = 1
    hits = crop_and_flip(1)(x, torch.rand(count, 3, generator=rng(0))).sum(dim=(0, 1))
    assert float(hits.sum()) == count
    spread = 5 * math.sqrt(count * (1 / 9) * (8 / 9))
    assert float((hits[1:4, 1:4] - count / 9).abs().max()) < spread


def test_integer_images_stay_what_they_are() -> None:
    x = random_labels(2 * 9, 256, seed=0).to(torch.uint8).view(2, 1, 3, 3)
    assert torch.equal(crop_and_flip(1)(x, torch.full((2, 3), 0.5)), x)


# Inputs in memory


def augmented_rows(inputs: ArrayInputs, batches: list[Tensor], seed: int | None) -> Tensor:
    """What each row became, in the order of the rows."""
    result = torch.zeros_like(inputs.x)
    for rows, x in zip(batches, inputs.stream(batches, seed), strict=True):
        result[rows] = x
    return result


def test_what_a_row_becomes_depends_on_seed_and_row_and_not_on_its_batch() -> None:
    inputs = ArrayInputs(torch.rand(20, 1, 6, 6, generator=rng(0)), crop_and_flip(2))
    shuffled = torch.randperm(20, generator=rng(1))
    reference = augmented_rows(inputs, [torch.arange(20)], seed=5)
    assert torch.equal(augmented_rows(inputs, list(torch.split(shuffled, 7)), seed=5), reference)
    some = shuffled[:4]
    assert torch.equal(next(iter(inputs.stream([some], seed=5))), reference[some])
    assert not torch.equal(augmented_rows(inputs, [torch.arange(20)], seed=6), reference)
    assert not torch.equal(reference, inputs.x)


def test_without_a_seed_or_an_augmentation_rows_come_as_they_are() -> None:
    x, batches = torch.rand(9, 1, 4, 4, generator=rng(0)), [torch.tensor([8, 2]), torch.tensor([5])]
    for inputs, seed in ((ArrayInputs(x, crop_and_flip(2)), None), (ArrayInputs(x), 3)):
        for rows, batch in zip(batches, inputs.stream(batches, seed), strict=True):
            assert torch.equal(batch, x[rows])


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    x = torch.rand(4, 1, 4, 4, generator=rng(0))
    list(ArrayInputs(x, crop_and_flip(1)).stream([torch.arange(4)], seed=1))
    list(DatasetInputs(TensorDataset(x)).stream([torch.arange(4)], seed=1))
    assert torch.equal(torch.rand(3), expected)


def test_moving_keeps_rows_and_augmentation() -> None:
    inputs = ArrayInputs(torch.rand(6, 1, 4, 4, generator=rng(0)), crop_and_flip(1))
    moved = inputs.to(torch.device("cpu"))
    assert len(moved) == 6
    assert torch.equal(augmented_rows(moved, [torch.arange(6)], 1), augmented_rows(inputs, [torch.arange(6)], 1))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_name_their_row_and_count(bad: float) -> None:
    x = torch.zeros(10, 2, 2)
    x[3, 1, 0] = x[3, 0, 0] = x[7, 0, 1] = bad
    with pytest.raises(InputError, match="in 2 of 10 rows, first in row 3"):
        ArrayInputs(x)


@pytest.mark.parametrize("shape", [(0, 3), (5,), ()])
def test_inputs_that_are_empty_or_not_one_row_each_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"non-empty array \[N, \.\.\.\]; got shape"):
        ArrayInputs(torch.zeros(shape))


# Inputs from a dataset


class Rows:
    """A dataset in one of the forms that people have."""

    def __init__(self, x: Tensor, form: str) -> None:
        self.x, self.form = x, form

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> Any:
        x = self.x[row]
        return {"bare": x, "tuple": (x, row), "list": [x, row, "name"], "numpy": (x.numpy(), row)}[self.form]


@pytest.mark.parametrize("form", ["bare", "tuple", "list", "numpy"])
@pytest.mark.parametrize("seed", [None, 4])
def test_a_dataset_gives_the_same_batches_as_an_array(form: str, seed: int | None) -> None:
    x = torch.rand(11, 2, 3, generator=rng(0))
    batches = list(torch.split(torch.randperm(11, generator=rng(1)), 4))
    ours = list(DatasetInputs(Rows(x, form)).to(torch.device("cpu")).stream(batches, seed))
    theirs = list(ArrayInputs(x).stream(batches, seed))
    assert len(ours) == len(theirs) == 3
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert len(DatasetInputs(Rows(x, form))) == 11


# Sets known by name


def arrays(bundle: Bundle) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    test = bundle.tests["test"]
    assert isinstance(bundle.inputs, ArrayInputs)
    assert isinstance(test.inputs, ArrayInputs)
    return bundle.inputs.x, bundle.labels, test.inputs.x, test.labels


@pytest.mark.parametrize(
    ("name", "sizes", "shape", "classes"), [("digits", (1257, 540), (1, 8, 8), 10), ("moons", (2000, 1000), (2,), 2)]
)
def test_sets_have_the_sizes_that_they_promise(
    name: str, sizes: tuple[int, int], shape: tuple[int, ...], classes: int
) -> None:
    bundle = DATASETS[name]()
    x, y, x_test, y_test = arrays(bundle)
    assert (len(x), len(x_test)) == (len(y), len(y_test)) == sizes
    assert x.shape[1:] == x_test.shape[1:] == bundle.shape == shape
    assert len(bundle.classes) == classes
    assert set(y.tolist()) == set(y_test.tolist()) == set(range(classes))
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64


@pytest.mark.parametrize("name", ["digits", "moons"])
def test_a_set_is_the_same_each_time(name: str) -> None:
    torch.manual_seed(0)
    first = arrays(DATASETS[name]())
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for a, b in zip(first, arrays(DATASETS[name]()), strict=True))


def test_the_split_of_digits_has_every_scan_once_with_its_label() -> None:
    x, y, x_test, y_test = arrays(DATASETS["digits"]())

    def scans(images: Any, labels: Any) -> list[tuple[Any, ...]]:
        return [(*image, label) for image, label in zip(images.tolist(), labels.tolist(), strict=True)]

    train, test = scans(x.flatten(1), y), scans(x_test.flatten(1), y_test)
    everything = scans(*load_digits(return_X_y=True))
    assert len(set(everything)) == len(everything)
    assert not set(train) & set(test)
    assert set(train) | set(test) == set(everything)


def test_moons_lie_on_two_half_circles_with_as_many_points_each() -> None:
    """The upper one around (0, 0), the lower around (1, 0.5), radius 1; a spread of 0.15 on each axis."""
    x, y, x_test, _ = arrays(DATASETS["moons"]())
    assert int(y.sum()) * 2 == len(y)
    centre = torch.where(y[:, None] == 0, torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.5]))
    radius = (x - centre).norm(dim=1)
    assert float(radius.mean()) == pytest.approx(1.0, abs=0.03)
    assert float(radius.std()) == pytest.approx(0.15, abs=0.02)
    assert float(x[y == 0, 1].mean()) == pytest.approx(2 / math.pi, abs=0.05)
    assert float(x[y == 1, 1].mean()) == pytest.approx(0.5 - 2 / math.pi, abs=0.05)
    assert not set(map(tuple, x.tolist())) & set(map(tuple, x_test.tolist()))
