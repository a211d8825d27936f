"""MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017), from their idx files."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import torch

from selc._io.files import in_short, unpacked_limit
from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.augment import View
from selc.data.inputs.images import ArrayPixels, ImageInputs
from selc.data.published.archives import Array
from selc.data.published.places import folders, not_there
from selc.data.published.shared import array_digest, checked, numbers, size_notes, some_rows
from selc.errors import InputError
from selc.types import EvalSet

CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
FILES = {part: (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")}
MOST = 1 << 28  # bytes in a file; MNIST's largest has 47 million
# Not in the paper: a small network, and the schedule of the other small sets.
SMALL = Recipe(
    net="cnn", plan={"epochs": 30, "batch_size": 128, "lr": 0.02, "weight_decay": 0.0005, "schedule": "cosine"}
)


@dataset("mnist", SMALL, Facts(60_000, 0, 10_000, 10, "28 x 28"))
def mnist(*, root: str = "", augment: bool = False, rows: int = 0) -> Bundle:
    """MNIST: 70,000 handwritten digits, 28 x 28 pixels of grey."""
    view = View((28, 28), (0.1307,), (0.3081,), padding=2 if augment else 0)
    return _bundle("mnist", root, rows, view, tuple("0123456789"), "http://yann.lecun.com/exdb/mnist", "MNIST")


@dataset("fashion-mnist", SMALL, Facts(60_000, 0, 10_000, 10, "28 x 28"))
def fashion_mnist(*, root: str = "", augment: bool = False, rows: int = 0) -> Bundle:
    """Fashion-MNIST: 70,000 pictures of clothes in 10 kinds, 28 x 28 pixels of grey."""
    view = View((28, 28), (0.2860,), (0.3530,), padding=2 if augment else 0, flip=augment)
    page = "https://github.com/zalandoresearch/fashion-mnist"
    return _bundle("fashion-mnist", root, rows, view, CLOTHES, page, "FashionMNIST")


def _bundle(name: str, root: str, rows: int, view: View, classes: tuple[str, ...], page: str, other: str) -> Bundle:
    # ``other``: the folder in which torchvision keeps the same files
    folder = next((f for f in folders(root, name, f"{other}/raw") if _find(f, FILES["train"][0])), None)
    if folder is None:
        every = ", ".join(file for pair in FILES.values() for file in pair)
        raise not_there(name, root, f"{every} (as they are or as .gz)", page)
    (pixels, labels), (test_pixels, test_labels) = (_part(folder, *FILES[part]) for part in ("train", "t10k"))
    picked = some_rows(len(labels), rows, name)
    every_row = torch.arange(len(labels)) if picked is None else picked
    images = torch.from_numpy(pixels)[every_row]
    test = ImageInputs(ArrayPixels(torch.from_numpy(test_pixels)), view)
    return Bundle(
        inputs=ImageInputs(ArrayPixels(images), view),
        labels=numbers(labels)[every_row],
        true=numbers(labels)[every_row],
        classes=classes,
        shape=(1, 28, 28),
        tests={"test": EvalSet(test, numbers(test_labels))},
        ids=None if picked is None else [str(row) for row in picked.tolist()],
        notes=size_notes(name, len(labels), len(test_labels)),
        digest=array_digest(images.numpy()),
    )


def _part(folder: Path, images: str, labels: str) -> tuple[Array, Array]:
    pixels = read_idx(_there(folder, images), 3)
    if pixels.shape[1:] != (28, 28):
        raise InputError(f"{folder / images} must hold images of 28 x 28 pixels; got {pixels.shape[1:]}.")
    values = checked(read_idx(_there(folder, labels), 1), len(pixels), 10, str(folder / labels))
    return pixels[:, None], values


def _find(folder: Path, name: str) -> Path | None:
    """The file as it is, with a dot where some copies have one, or packed by gzip."""
    dotted = name.replace("-idx", ".idx")
    return next((p for n in (name, dotted) for p in (folder / n, folder / f"{n}.gz") if p.is_file()), None)


def _there(folder: Path, name: str) -> Path:
    path = _find(folder, name)
    if path is None:
        raise InputError(f"{folder} must hold {name}, as it is or as .gz; got no such file. It comes with the others.")
    return path


def read_idx(path: Path, dims: int) -> Array:
    """Bytes in ``dims`` dimensions: two zeros, 8 for bytes, the number of dimensions, their sizes, the bytes."""
    header = 4 + 4 * dims
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            first = file.read(header)
            if len(first) < header or first[:4] != bytes((0, 0, 8, dims)):
                raise ValueError(f"a header {first[:4].hex()}")
            shape = tuple(np.frombuffer(first, ">u4", offset=4).tolist())
            if math.prod(shape) > min(MOST, unpacked_limit(path.stat().st_size)):
                raise ValueError(f"sizes {shape}")
            data = file.read(math.prod(shape) + 1)  # one more than there should be
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(
            f"{path} must be an idx file of bytes in {dims} dimensions; got: {in_short(error)}. Download it again."
        ) from None
    if len(data) != math.prod(shape):
        raise InputError(f"{path} must hold {shape} bytes, as its header says; got another number. Download it again.")
    return np.frombuffer(bytearray(data), np.uint8).reshape(shape)
