"""MNIST and Fashion-MNIST from their four files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

import selc.data.published.idx  # noqa: F401 - registers the datasets
from selc.data import DATASETS, ImageInputs
from selc.errors import InputError
from tests.data.miniatures import idx, mnist

NAMES = ["mnist", "fashion-mnist"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("zipped", "dotted"), [(False, False), (True, False), (False, True)])
def test_images_and_labels_come_as_they_are_in_the_files(name: str, zipped: bool, dotted: bool, data: Path) -> None:
    images, labels = mnist(data / name, zipped=zipped, dotted=dotted)
    bundle = DATASETS[name]()
    assert isinstance(bundle.inputs, ImageInputs)
    (pixels,) = bundle.inputs.pixels.stream([torch.arange(30)])
    np.testing.assert_array_equal(pixels.numpy(), images[:, None])
    assert bundle.labels.tolist() == labels.tolist()
    assert bundle.shape == (1, 28, 28)
    assert len(bundle.classes) == 10
    test = bundle.tests["test"]
    assert isinstance(test.inputs, ImageInputs)
    (pixels,) = test.inputs.pixels.stream([torch.arange(20)])
    np.testing.assert_array_equal(pixels.numpy(), images[:20, None])
    assert test.labels.tolist() == labels[:20].tolist()


@pytest.mark.parametrize(("name", "other"), [("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")])
def test_the_files_are_found_where_torchvision_keeps_them(name: str, other: str, data: Path) -> None:
    mnist(data / other / "raw")
    assert len(DATASETS[name]().labels) == 30
    assert DATASETS[name](rows=10).ids == sorted(DATASETS[name](rows=10).ids or [], key=int)


@pytest.mark.parametrize(("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion-mnist", 0.2860, 0.3530)])
def test_pixels_are_normalised_and_shifted_only_if_asked(name: str, mean: float, std: float, data: Path) -> None:
    images, _ = mnist(data / name)
    rows = [torch.arange(30)]
    plain = next(iter(DATASETS[name]().inputs.stream(rows, 3)))
    expected = (torch.from_numpy(images[:, None]).double() / 255 - mean) / std
    torch.testing.assert_close(plain.double(), expected, atol=1e-5, rtol=1e-5)
    moved = next(iter(DATASETS[name](augment=True).inputs.stream(rows, 3)))
    assert moved.shape == plain.shape
    assert not torch.equal(moved, plain)


@pytest.mark.parametrize(("name", "page"), [("mnist", "yann.lecun.com"), ("fashion-mnist", "zalandoresearch")])
def test_a_set_that_is_not_there_says_what_to_put_where(name: str, page: str, data: Path) -> None:
    with pytest.raises(InputError) as error:
        DATASETS[name]()
    for part in (str(data / name), "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", page):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("train-images-idx3-ubyte", b"", "must be an idx file of bytes in 3 dimensions"),
        ("train-images-idx3-ubyte", idx(np.zeros((3, 28), np.uint8)), "a header 00000802"),
        ("train-images-idx3-ubyte", idx(np.zeros((3, 28, 28), np.uint8))[:-1], "as its header says"),
        ("train-images-idx3-ubyte", idx(np.zeros((3, 28, 28), np.uint8)) + b"x", "as its header says"),
        ("train-images-idx3-ubyte", bytes((0, 0, 8, 3)) + b"\xff" * 12, "sizes"),
        ("train-images-idx3-ubyte", idx(np.zeros((30, 27, 28), np.uint8)), "28 x 28 pixels; got"),
        ("train-labels-idx1-ubyte", idx(np.zeros(29, np.uint8)), "a label for each of 30 images; got 29"),
        ("train-labels-idx1-ubyte", idx(np.full(30, 10, np.uint8)), "labels from 0 to 9; got 10 to 10"),
        ("t10k-labels-idx1-ubyte", None, "must hold t10k-labels-idx1-ubyte, as it is or as .gz"),
    ],
)
def test_a_broken_file_is_named_in_a_sentence(file: str, content: bytes | None, said: str, data: Path) -> None:
    mnist(data / "mnist")
    if content is None:
        (data / "mnist" / file).unlink()
    else:
        (data / "mnist" / file).write_bytes(content)
    with pytest.raises(InputError, match=said):
        DATASETS["mnist"]()


def test_a_zipped_file_that_unpacks_to_more_than_its_header_says_is_not_unpacked_further(data: Path) -> None:
    mnist(data / "mnist", zipped=True)
    bomb = gzip.compress(idx(np.zeros((3, 28, 28), np.uint8)) + bytes(50_000_000))
    (data / "mnist/train-images-idx3-ubyte.gz").write_bytes(bomb)
    with pytest.raises(InputError, match="as its header says"):
        DATASETS["mnist"]()
    (data / "mnist/train-images-idx3-ubyte.gz").write_bytes(bomb[:14])
    with pytest.raises(InputError, match="must be an idx file"):
        DATASETS["mnist"]()
