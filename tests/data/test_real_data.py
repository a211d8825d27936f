"""On real data, where there are any: the folder is named by the variable SELC_DATA."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from selc.data import DATASETS, ArrayInputs, ArrayPixels, Bundle, ImageInputs
from selc.data.published import cifar, idx  # noqa: F401


def there(*files: str) -> Path:
    """The folder of all data, if one of these files is in it; else the test is skipped."""
    folder = Path(os.environ.get("SELC_DATA", ""))
    if not os.environ.get("SELC_DATA") or not any((folder / file).exists() for file in files):
        pytest.skip(f"needs {' or '.join(files)} in the folder SELC_DATA")
    return folder


def pixels(inputs: object) -> Tensor:
    assert isinstance(inputs, ImageInputs)
    assert isinstance(inputs.pixels, ArrayPixels)
    return torch.as_tensor(inputs.pixels.array)


@pytest.fixture(scope="module")
def real_cifar() -> Iterator[Bundle]:
    there("cifar10/train.parquet", "cifar10/data_batch_1.png", "cifar10/cifar-10-python.tar.gz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar, "kept", lambda key, shape, make: make())  # no cache: nothing of it stays behind
        yield DATASETS["cifar10"]()


@pytest.mark.exhaustive  # to decode all images takes long
def test_cifar10_has_its_published_sizes_classes_mean_and_deviation(real_cifar: Bundle) -> None:
    assert torch.bincount(real_cifar.labels).tolist() == [5000] * 10
    assert torch.bincount(real_cifar.tests["test"].labels).tolist() == [1000] * 10
    images = pixels(real_cifar.inputs)
    assert images.shape == (50_000, 3, 32, 32)
    some = images[::5].double() / 255
    # published for the training set; JPEG and a fifth of the images leave a little
    np.testing.assert_allclose(some.mean(dim=(0, 2, 3)), (0.4914, 0.4822, 0.4465), atol=0.004)
    np.testing.assert_allclose(some.std(dim=(0, 2, 3)), (0.2470, 0.2435, 0.2616), atol=0.004)


@pytest.mark.exhaustive  # to decode all images takes long
def test_images_and_labels_of_cifar10_belong_together(real_cifar: Bundle) -> None:
    """The nearest mean image of a class names 28 % of the test images rightly, and 10 % if labels were mixed up."""
    test = real_cifar.tests["test"]
    train, given = pixels(real_cifar.inputs).flatten(1)[::5].float(), real_cifar.labels[::5]
    means = torch.stack([train[given == k].mean(0) for k in range(10)])
    nearest = torch.cdist(pixels(test.inputs).flatten(1).float(), means).argmin(1)
    assert 0.26 < float((nearest == test.labels).float().mean()) < 0.30


@pytest.mark.parametrize(("labels", "wrong"), [("human_random1", 0.172), ("seal_0.2", 0.200), ("pmd1_0.35", 0.353)])
def test_labels_beside_the_clean_ones_are_as_wrong_as_published(labels: str, wrong: float) -> None:
    there("cifar10/features.npz")
    bundle = DATASETS["cifar10-features"](labels=labels)
    assert bundle.true is not None
    assert float((bundle.labels != bundle.true).float().mean()) == pytest.approx(wrong, abs=0.0005)


def test_features_and_labels_of_cifar10_belong_together() -> None:
    """A linear classifier reaches 77 % (the note that comes with the features); least squares a little less."""
    there("cifar10/features.npz")
    bundle = DATASETS["cifar10-features"]()
    test = bundle.tests["test"]
    assert isinstance(bundle.inputs, ArrayInputs)
    assert isinstance(test.inputs, ArrayInputs)

    def with_one(x: Tensor) -> Tensor:
        return torch.cat([x, torch.ones(len(x), 1)], dim=1)

    x, target = with_one(bundle.inputs.x), torch.eye(10)[bundle.labels]
    weights = torch.linalg.solve(x.T @ x + torch.eye(x.shape[1]), x.T @ target)
    right = (with_one(test.inputs.x) @ weights).argmax(1) == test.labels
    assert 0.72 < float(right.float().mean()) < 0.80


@pytest.mark.parametrize(
    ("name", "mean", "std", "counts"),
    [
        ("mnist", 0.1307, 0.3081, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("fashion-mnist", 0.2860, 0.3530, [6000] * 10),
    ],
)
def test_mnist_and_fashion_mnist_have_their_published_counts_mean_and_deviation(
    name: str, mean: float, std: float, counts: list[int]
) -> None:
    first = f"{name}/train-images-idx3-ubyte"
    there(first, f"{first}.gz")
    bundle = DATASETS[name]()
    assert torch.bincount(bundle.labels).tolist() == counts
    images = pixels(bundle.inputs).double() / 255
    assert float(images.mean()) == pytest.approx(mean, abs=5e-5)
    assert float(images.std()) == pytest.approx(std, abs=5e-5)


def test_original_pixels_of_cifar10_are_close_to_the_lossy_ones_in_the_same_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both copies, where both are there."""
    folder = there("cifar10/data_batch_1.png", "cifar10/cifar-10-python.tar.gz", "cifar10/cifar-10-batches-py")
    there("cifar10/train.parquet")
    monkeypatch.setattr(cifar, "kept", lambda key, shape, make: make())
    original = cifar.find(cifar.FORM_10, str(folder))
    lossy = cifar._parquet(folder / "cifar10")
    assert lossy is not None
    np.testing.assert_array_equal(original.train.labels, lossy.train.labels)
    difference = np.abs(original.train.pixels[::50].astype(int) - lossy.train.pixels[::50].astype(int))
    assert difference.mean() < 8
