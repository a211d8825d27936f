"""Features first: images go through a pretrained backbone once, and training is on what it saw of them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import selc
from selc._io.files import write_whole
from selc.data import Bundle, ImageInputs
from selc.data.inputs.augment import centre_crop
from selc.encoders.embed_file import CHUNK, Array, ChunkFolder, Number, Rows, Whitening, chunk_folder, write_npz
from selc.encoders.embed_net import Backbone
from selc.errors import ConfigError, InputError, RunFolderError
from selc.training import Plan
from selc.types import EvalSet, Inputs

log = logging.getLogger("selc")
Report = Callable[[int, int], None]  # (rows done, rows in all)
SAMPLE = 64  # rows of each set that are looked at to know the data again
SMALL_IMAGES = 128  # pixels: images up to this side are shown at 128, larger ones at 224


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
    overwrite: bool = False,
    progress: Report | None = None,
) -> Embedded:
    """Write the features of all images of ``bundle`` to the .npz file ``out``, for ``selc train``.

    ``backbone`` is a network's name with ``options`` (its pretrained weights), an import path or a module; its part
    ``features`` is used, if it has one. Images are shown at ``size`` pixels. ``dims`` keeps that many whitened
    principal components, fitted on the training rows. A call that was interrupted goes on where it stopped;
    ``progress`` is told the rows done and in all.

    The file holds ``x`` [N, D], ``y`` [N], ``classes``, where they are known ``ids`` and ``true``, for every test set
    ``x_NAME`` and ``y_NAME``, and ``meta``, a JSON text that says where the features come from; with ``dims`` also
    ``pca_mean`` and ``pca_components``.
    """
    path = Path(out)
    check_target(path, overwrite)
    sets = _sets(bundle)
    reader = _Reader.of(bundle, size)
    net = Backbone(backbone, options or {}, reader.size, Plan(device=device).torch_device(), batch)
    _check_dims(dims, net.dims, len(bundle.labels))
    about = {
        "backbone": net.name,
        "weights_sha256": net.digest,
        "mean": list(net.mean),
        "std": list(net.std),
        "size": reader.size,
        "data_sha256": _data_digest(bundle, sets, reader),
    }
    chunks = ChunkFolder(chunk_folder(path), about, overwrite)
    fresh = _fill(chunks, sets, reader, net, progress)

    arrays: dict[str, Array | Rows] = {**_labels(bundle, sets)}
    arrays["meta"] = np.array(json.dumps({**about, "source": source, "selc": selc.__version__}))
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
    arrays: dict[str, Array] = {"classes": np.array(bundle.classes, dtype=np.str_)}
    for name, part in sets.items():
        arrays[_key("y", name)] = part.labels.cpu().numpy().astype(np.int64)
    if bundle.true is not None:
        arrays["true"] = bundle.true.cpu().numpy().astype(np.int64)
    if bundle.ids is not None:
        arrays["ids"] = np.array(list(bundle.ids), dtype=np.str_)
    return arrays


@dataclass(frozen=True)
class _Reader:
    """How stored values become images of ``size`` pixels with values in [0, 1]."""

    low: float  # the value that is black
    high: float
    size: int

    @classmethod
    def of(cls, bundle: Bundle, size: int | None) -> _Reader:
        shape = bundle.shape
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise InputError(
                f"data to embed must be grey or colour images [channels, height, width]; got inputs of shape "
                f"{list(shape)}. Data that are features already are trained on as they are."
            )
        if size is not None and size < 32:
            raise ConfigError(f"size must be at least 32 pixels; got {size}.")
        side = size or (128 if max(shape[1:]) <= SMALL_IMAGES else 224)
        if isinstance(bundle.inputs, ImageInputs):
            return cls(0.0, 255.0, side)
        low, high = _range(bundle.inputs)
        log.warning("The images are numbers from %g to %g, which are taken for black and white.", low, high)
        return cls(low, high, side)

    def raw(self, inputs: Inputs, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """The stored values, cut out as in a test."""
        if not isinstance(inputs, ImageInputs):
            yield from inputs.stream(batches, None)
            return
        for pixels in inputs.pixels.stream(batches):
            yield centre_crop(pixels, inputs.view.size)

    def prepare(self, x: Tensor) -> Tensor:
        x = (x.float() - self.low) / (self.high - self.low)
        shown = F.interpolate(x, (self.size, self.size), mode="bicubic", align_corners=False, antialias=True)
        return shown.clamp_(0, 1)  # bicubic weights overshoot at edges


def _range(inputs: Inputs) -> tuple[float, float]:
    low, high = float("inf"), -float("inf")
    for x in inputs.stream(torch.arange(len(inputs)).split(CHUNK), None):
        low, high = min(low, float(x.min())), max(high, float(x.max()))
    if low == high:
        raise InputError(f"images must differ; got the value {low:g} everywhere.")
    return low, high


def _check_dims(dims: int | None, available: int, rows: int) -> None:
    most = min(available, rows - 1)
    if dims is not None and not 1 <= dims <= most:
        raise ConfigError(
            f"dims must be from 1 to {most}, as there are {available} features of {rows} training images; got {dims}."
        )


def _data_digest(bundle: Bundle, sets: Mapping[str, _Part], reader: _Reader) -> str:
    """A hash of the number of rows, of what the data say of themselves, and of some of the images."""
    digest = hashlib.sha256(f"{bundle.digest} {bundle.shape} {reader.low} {reader.high}".encode())
    for name, part in sets.items():
        digest.update(f"{name} {len(part.rows)}".encode())
        some = part.rows[torch.linspace(0, len(part.rows) - 1, min(SAMPLE, len(part.rows))).round().long()]
        for x in reader.raw(part.inputs, [some]):
            digest.update(x.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _fill(
    chunks: ChunkFolder, sets: Mapping[str, _Part], reader: _Reader, net: Backbone, progress: Report | None
) -> int:
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
