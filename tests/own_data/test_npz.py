"""Arrays in an .npz file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selc.data import ArrayInputs, ImageInputs
from selc.data.preprocess.features import FeatureInputs
from selc.data.sources.npz import npz
from selc.errors import InputError
from tests.own_data.miniature import flowers, in_order


def saved(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


LABELS = np.array([0, 1, 2] * 4)


@pytest.mark.parametrize("names", [False, True])
def test_features_and_labels_are_read_and_scaled_like_a_table(tmp_path: Path, names: bool) -> None:
    x, labels = flowers()
    y = np.array(labels) if names else np.unique(labels, return_inverse=True)[1]
    bundle = npz(path=saved(tmp_path / "a.npz", x=x.astype(np.float16), y=y))
    half = x.astype(np.float16).astype(float)
    assert isinstance(bundle.inputs, FeatureInputs)
    np.testing.assert_allclose(bundle.inputs.x.numpy(), (half - half.mean(0)) / half.std(0), atol=1e-4)
    assert bundle.classes == (("aster", "rose", "tulip") if names else ("0", "1", "2"))
    assert bundle.labels.tolist() == np.unique(labels, return_inverse=True)[1].tolist()
    assert bundle.ids is None
    assert bundle.shape == (4,)


def test_all_that_a_file_may_hold_arrives(tmp_path: Path) -> None:
    x, labels = flowers()
    y = np.unique(labels, return_inverse=True)[1]
    meta = json.dumps({"backbone": "efficientnet-lite0", "source": "my pictures", "digest": "1"})
    arrays = {
        "x": x,
        "y": (y + 1) % 3,
        "true": y,
        "classes": np.array(["aster", "rose", "tulip"]),
        "ids": np.array([f"flower {k}" for k in range(30)]),
        "x_test": x[:5],
        "y_test": y[:5],
        "x_far": x[5:7],
        "y_far": np.array(labels[5:7]),
        "x_val": x[7:9],
        "y_val": y[7:9],
        "meta": np.array(meta),
    }
    bundle = npz(path=saved(tmp_path / "a.npz", **arrays))
    assert bundle.classes == ("aster", "rose", "tulip")
    assert bundle.true is not None
    assert bundle.true.tolist() == y.tolist()
    assert bundle.labels.tolist() == ((y + 1) % 3).tolist()
    assert bundle.ids is not None
    assert bundle.ids[3] == "flower 3"
    assert set(bundle.tests) == {"test", "far"}
    assert bundle.tests["far"].labels.tolist() == y[5:7].tolist()
    assert bundle.val is not None
    assert bundle.val.labels.tolist() == y[7:9].tolist()
    (test,) = bundle.tests["test"].inputs.stream([torch.arange(5)], None)
    np.testing.assert_allclose(test.numpy(), ((x[:5] - x.mean(0)) / x.std(0)), atol=1e-5)
    assert "a.npz: backbone efficientnet-lite0, source my pictures" in bundle.notes


def test_a_test_set_may_lie_in_a_file_of_its_own(tmp_path: Path) -> None:
    x, labels = flowers()
    train = saved(tmp_path / "a.npz", x=x, y=np.array(labels))
    bundle = npz(path=train, test=saved(tmp_path / "b.npz", x=x[:6], y=np.array(labels[:6])))
    assert len(bundle.tests["test"].labels) == 6


def test_classes_may_be_called_by_numbers_that_y_does_not_count(tmp_path: Path) -> None:
    """y counts the classes; names that look like numbers are names."""
    arrays = {"x": np.random.default_rng(0).normal(size=(12, 2)), "classes": np.array(["7", "2", "10"])}
    bundle = npz(path=saved(tmp_path / "a.npz", y=LABELS, **arrays))
    assert bundle.classes == ("7", "2", "10")
    assert bundle.labels.tolist() == LABELS.tolist()
    by_name = npz(path=saved(tmp_path / "b.npz", y=np.array(["7", "2", "10"] * 4), **arrays))
    assert by_name.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("order", ["first", "last", "grey", "grey-first"])
def test_bytes_are_images_in_either_order(tmp_path: Path, order: str) -> None:
    images = in_order()
    grey = images[:, 0]
    x = {
        "first": images,
        "last": images.transpose(0, 2, 3, 1),
        "grey": grey,
        "grey-first": grey[:, None],
    }[order]
    bundle = npz(path=saved(tmp_path / "a.npz", x=x, y=LABELS, x_test=x[:4], y_test=LABELS[:4]))
    assert isinstance(bundle.inputs, ImageInputs)
    (pixels,) = bundle.inputs.pixels.stream([torch.arange(12)])
    expected = grey[:, None] if "grey" in order else images
    assert np.array_equal(pixels.numpy(), expected)
    assert bundle.shape == expected.shape[1:]
    (x0,) = bundle.inputs.stream([torch.arange(12)], None)
    np.testing.assert_allclose(x0.mean((0, 2, 3)).numpy(), 0, atol=1e-5)
    np.testing.assert_allclose(x0.std((0, 2, 3), unbiased=False).numpy(), 1, atol=1e-4)
    assert len(bundle.tests["test"].inputs) == 4


def test_other_arrays_are_taken_as_they_are(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 3, 8, 8))
    bundle = npz(path=saved(tmp_path / "a.npz", x=x, y=LABELS))
    assert isinstance(bundle.inputs, ArrayInputs)
    np.testing.assert_allclose(bundle.inputs.x.numpy(), x.astype(np.float32))
    assert bundle.shape == (3, 8, 8)


def test_the_digest_is_that_of_the_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 2))
    first = npz(path=saved(tmp_path / "a.npz", x=x, y=LABELS)).digest
    assert npz(path=str(tmp_path / "a.npz")).digest == first
    x[3, 1] += 1
    assert npz(path=saved(tmp_path / "a.npz", x=x, y=LABELS)).digest != first


X = np.random.default_rng(1).normal(size=(12, 2))
BYTES = np.zeros((12, 8, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": X}, "must hold the array 'y'; got x"),
        ({"y": LABELS}, "must hold the array 'x'; got y"),
        ({"x": X, "y": LABELS[:5]}, r"y of .* must have one value for each of the 12 rows; got shape \(5,\)"),
        ({"x": X, "y": LABELS, "ids": LABELS[:5]}, "ids of .* one value for each of the 12 rows"),
        ({"x": X, "y": LABELS, "x_test": X}, "must hold the array 'y_test'"),
        ({"x": X, "y": LABELS, "x_test": X[:, :1], "y_test": LABELS}, r"x_test must hold inputs of shape \[2\]"),
        ({"x": X, "y": LABELS, "classes": np.array(["a", "b"])}, "known classes, such as 'a', 'b'; got '2' in 4 of 12"),
        ({"x": X, "y": LABELS * 0}, "at least two classes; got only '0'"),
        ({"x": X, "y": LABELS, "x_test": X, "y_test": LABELS + 1}, "labels of y_test must be known .*got '3'"),
        ({"x": np.array(["a"] * 12), "y": LABELS}, "x must be an array of numbers; got values of type <U1"),
        ({"x": X[:, 0], "y": LABELS}, r"x must be a non-empty array \[N, ...\].*got shape \(12,\)"),
        ({"x": BYTES, "y": LABELS}, r"by 1 or 3 channels; got \[12, 8, 8, 8\]"),
        ({"x": BYTES[:, :3, :, :3], "y": LABELS}, r"by 1 or 3 channels; got \[12, 3, 8, 3\]"),
        ({"x": np.where(X > 1, np.nan, X), "y": LABELS}, "every number of x must be there; got"),
        ({"x": np.array([object()] * 12), "y": LABELS}, "lists of objects are not read"),
    ],
)
def test_what_cannot_be_used_gets_its_sentence(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        npz(path=saved(tmp_path / "a.npz", **arrays))


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(InputError, match=r"must be an .npz file"):
        npz(path=str(tmp_path / "a.npz"))
