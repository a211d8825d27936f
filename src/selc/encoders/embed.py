"""Features first: images go through a pretrained backbone once, and training is on what it saw of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import selc
from selc._io.files import write_whole
from selc.data import Bundle
from selc.encoders import Encoder, Encoding, Trained, create
from selc.encoders.base import body, shown_at
from selc.encoders.embed_file import Array, ChunkFolder, Number, Rows, Whitening, chunk_folder, write_npz
from selc.encoders.encoding import Reader, check_images, reading_of
from selc.errors import ConfigError, InputError, RunFolderError
from selc.training import Plan
from selc.types import EvalSet, Inputs

Report = Callable[[int, int], None]  # (rows done, rows in all)
SAMPLE = 64  # rows of each set that are looked at to know the data again


class Embedded(NamedTuple):
    """What was made."""

    path: Path
    rows: int  # of all sets together
    fresh: int  # of them, those that went through the backbone in this call
    dims: int


def embed(
    bundle: Bundle,
    out: Path | str,
    *,
    backbone: str | nn.Module = "efficientnet-lite0",
    options: Mapping[str, Any] | None = None,
    size: int | None = None,
    dims: int | None = None,
    number: Number = "float16",
    batch: int | None = None,
    device: str = "auto",
    source: str = "",
    data: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> Embedded:
    """Write the features of all images of ``bundle`` to the .npz file ``out``, for ``selc train``.

    ``backbone`` is a network's name with ``options`` (its pretrained weights), an import path or a module; its part
    ``features`` is used, if it has one. Images are shown at ``size`` pixels. ``dims`` keeps that many whitened
    principal components, fitted on the training rows. ``data`` is the section of a configuration that names where the
    images are, so that a run on the file can still show them. A call that was interrupted goes on where it stopped;
    ``progress`` is told the rows done and in all.

    The file holds ``x`` [N, D], ``y`` [N] and ``classes`` (not where there are no labels), where they are known
    ``ids`` and ``true``, for every test set ``x_NAME`` and ``y_NAME``, and ``meta``, a JSON text that says where the
    features come from; with ``dims`` also ``pca_mean`` and ``pca_components``.
    """
    path = Path(out)
    check_target(path, overwrite)
    sets = _sets(bundle)
    side, place = check_images(bundle), Plan(device=device).torch_device()
    chosen = {"name": backbone, **(options or {}), "size": size or 0} if isinstance(backbone, str) else {}
    if isinstance(backbone, str):
        net = create(backbone, {**(options or {}), "size": size or 0}, side, place, batch)
    else:
        shown = shown_at(size or 0, side, 224)
        net = Encoder(type(backbone).__name__, Trained(body(backbone), shown), place, batch)
    reader = Reader.of(bundle, net.size)
    _check_dims(dims, net.dims, len(bundle.labels))
    about = {
        "backbone": net.name,
        "weights_sha256": net.weights,
        "mean": list(net.mean),
        "std": list(net.std),
        "size": reader.size,
        "data_sha256": _data_digest(bundle, sets, reader),
    }
    chunks = ChunkFolder(chunk_folder(path), about, overwrite)
    fresh = _fill(chunks, sets, reader, net, progress)

    arrays: dict[str, Array | Rows] = {**_labels(bundle, sets)}
    meta = {**about, "source": source, "selc": selc.__version__}
    if chosen:  # an object of Python cannot be had again from a file
        meta["encoding"] = Encoding(net, reader, chosen, reading_of(bundle.inputs)).state()
    if data:
        meta["data"] = dict(data)
    arrays["meta"] = np.array(json.dumps(meta))
    whitening = None
    if dims is not None:
        whitening = Whitening.fitted(lambda: chunks.read("train", len(bundle.labels)), dims)
        arrays |= {"pca_mean": whitening.mean, "pca_components": whitening.components}
    for name, part in sets.items():
        shape = (len(part.rows), dims or net.dims)
        arrays[_key("x", name)] = Rows(shape, number, chunks.read(name, len(part.rows)), whitening)
    write_whole(path, lambda p: write_npz(p, arrays))
    chunks.remove()
    return Embedded(path, sum(len(part.rows) for part in sets.values()), fresh, dims or net.dims)


def check_target(path: Path, overwrite: bool) -> None:
    """Complain about a file that cannot be written before anything is read."""
    if path.suffix != ".npz":
        raise ConfigError(f"--out must be a file that ends in .npz; got {path}.")
    if path.exists() and not overwrite:
        raise RunFolderError(f"--out must be a new file; got {path}, which exists. Choose another, or add --overwrite.")


class _Part(NamedTuple):
    """A set of images: some rows of some inputs."""

    inputs: Inputs
    rows: Tensor
    labels: Tensor


def _sets(bundle: Bundle) -> dict[str, _Part]:
    """All sets of the data: train, val if there is one, and the test sets."""
    parts = {"train": _Part(bundle.inputs, torch.arange(len(bundle.inputs)), bundle.labels)}
    others: dict[str, EvalSet] = {"val": bundle.val} if bundle.val is not None else {}
    for name, part in {**others, **bundle.tests}.items():
        rows = torch.arange(len(part.inputs)) if part.rows is None else part.rows.cpu()
        parts[name] = _Part(part.inputs, rows, part.labels)
    return parts


def _key(letter: str, name: str) -> str:
    """The name of an array in the file."""
    return letter if name == "train" else f"{letter}_{name}"


def _labels(bundle: Bundle, sets: Mapping[str, _Part]) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    if bundle.classes:
        arrays["classes"] = np.array(bundle.classes, dtype=np.str_)
    for name, part in sets.items() if bundle.classes else ():
        arrays[_key("y", name)] = part.labels.cpu().numpy().astype(np.int64)
    if bundle.true is not None:
        arrays["true"] = bundle.true.cpu().numpy().astype(np.int64)
    if bundle.ids is not None:
        arrays["ids"] = np.array(list(bundle.ids), dtype=np.str_)
    return arrays


def _check_dims(dims: int | None, available: int, rows: int) -> None:
    most = min(available, rows - 1)
    if dims is not None and not 1 <= dims <= most:
        raise ConfigError(
            f"dims must be from 1 to {most}, as there are {available} features of {rows} training images; got {dims}."
        )


def _data_digest(bundle: Bundle, sets: Mapping[str, _Part], reader: Reader) -> str:
    """A hash of the number of rows, of what the data say of themselves, and of some of the images."""
    digest = hashlib.sha256(f"{bundle.digest} {bundle.shape} {reader.low} {reader.high}".encode())
    for name, part in sets.items():
        digest.update(f"{name} {len(part.rows)}".encode())
        some = part.rows[torch.linspace(0, len(part.rows) - 1, min(SAMPLE, len(part.rows))).round().long()]
        for x in reader.raw(part.inputs, [some]):
            digest.update(x.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _fill(chunks: ChunkFolder, sets: Mapping[str, _Part], reader: Reader, net: Encoder, progress: Report | None) -> int:
    """Compute the chunks that are not there yet; returns the number of rows that this took."""
    missing = {name: chunks.missing(name, len(part.rows)) for name, part in sets.items()}
    rows = sum(len(part.rows) for part in sets.values())
    todo = sum(stop - first for spans in missing.values() for first, stop in spans)
    done = rows - todo
    if progress:
        progress(done, rows)
    for name, part in sets.items():
        batches = [part.rows[first:stop].split(net.batch) for first, stop in missing[name]]
        stream = reader.raw(part.inputs, [rows for chunk in batches for rows in chunk])
        for (first, _), chunk in zip(missing[name], batches, strict=True):
            found = []
            for _ in chunk:
                found.append(net.features(reader.prepare(next(stream).to(net.device))))
                done += len(found[-1])
                if progress:
                    progress(done, rows)
            features = np.concatenate(found)
            if not np.isfinite(features).all():
                bad = int(part.rows[first + int((~np.isfinite(features)).any(1).argmax())])
                raise InputError(f"features must be finite numbers; got others for row {bad} of {name}.")
            chunks.write(name, first, features)
    return todo
