"""Images as rows of features: what an encoder sees of them, each column scaled over the training rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from selc.data import Bundle, ImageInputs
from selc.data.inputs.augment import centre_crop
from selc.data.preprocess.features import Features, Numbers, Scale
from selc.data.preprocess.imagery import SLOWLY, Images
from selc.data.progress import tell
from selc.data.sources.originals import stored_pictures
from selc.data.sources.recognise import suits
from selc.encoders.base import create
from selc.encoders.feature_cache import FeatureCache, key_of
from selc.encoders.network import Array, Encoder
from selc.errors import InputError, RunFolderError
from selc.types import EvalSet, Inputs
from selc.world import ALONE, World, current

T = TypeVar("T")
log = logging.getLogger("selc")
Report = Callable[[int, int], None]  # (rows done, rows in all)
BLOCK = 256  # rows that are kept at a time: the most that a process loses that is killed, seconds of work on a CPU
READ = 256  # rows that are read at a time to know them again


@dataclass(frozen=True)
class Reader:
    """How stored values become images of ``size`` pixels with values in [0, 1]."""

    low: float  # the value that is black
    high: float
    size: int

    @classmethod
    def of(cls, bundle: Bundle, size: int) -> Reader:
        if isinstance(bundle.inputs, ImageInputs):
            return cls(0.0, 255.0, size)
        low, high = _range(bundle.inputs)
        log.warning("The images are numbers from %g to %g, which are taken for black and white.", low, high)
        return cls(low, high, size)

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


def check_images(bundle: Bundle) -> int:
    """The longer side of the images of ``bundle``; other data are refused."""
    shape = bundle.shape
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise InputError(
            f"data to embed must be grey or colour images [channels, height, width]; got inputs of shape "
            f"{list(shape)}. Data that are features already are trained on as they are."
        )
    return max(shape[1:])


def _range(inputs: Inputs) -> tuple[float, float]:
    low, high = float("inf"), -float("inf")
    for x in inputs.stream(torch.arange(len(inputs)).split(BLOCK), None):
        low, high = min(low, float(x.min())), max(high, float(x.max()))
    if low == high:
        raise InputError(f"images must differ; got the value {low:g} everywhere.")
    return low, high


@dataclass(frozen=True)
class Encoding:
    """A preprocessor (`selc.data.preprocess.preprocessor`): images into features of an encoder, not yet scaled."""

    encoder: Encoder
    reader: Reader
    chosen: Mapping[str, Any]  # name and options of the encoder
    reading: Mapping[str, Any] = field(default_factory=dict)  # how files become pixels
    cache: Path | None = None
    whitening: Mapping[str, Array] = field(default_factory=dict)  # pca_mean [D], pca_components [D, dims]

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        chosen: Mapping[str, Any],
        *,
        device: torch.device,
        cache: Path | None = None,
        batch: int | None = None,
    ) -> Encoding:
        """The encoding for the images of a source."""
        side = check_images(bundle)
        options = {key: value for key, value in chosen.items() if key != "name"}
        encoder = create(chosen["name"], options, side, device, batch)
        return cls(encoder, Reader.of(bundle, encoder.size), dict(chosen), reading_of(bundle.inputs), cache)

    def apply(self, items: Inputs, /) -> Numbers:
        found = self.features(items, torch.arange(len(items))).astype(np.float64)
        if self.whitening:
            found = (found - self.whitening["pca_mean"]) @ self.whitening["pca_components"]
            found = found.astype(np.float16).astype(np.float64)  # as the file of the training rows has them
        return found

    def features(
        self, inputs: Inputs, rows: Tensor, done: int = 0, total: int | None = None, world: World = ALONE
    ) -> Array:
        """Features [len(rows), D] in half precision; what the cache holds is not computed again.

        Each process of ``world`` computes a share of the others, and all of them get the same.
        """
        total = total if total is not None else len(rows)
        cache, keys = self._kept(), self._keys(inputs, rows)
        first: dict[bytes, int] = {}  # of the same image twice, one goes through the encoder
        for place, key in enumerate(keys):
            first.setdefault(key, place)
        found = cache.find(list(first)) if world.leads else {}
        missing = world.broadcast([place for key, place in first.items() if key not in found])
        # Whole batches are dealt: what an image gives hangs on those beside it, by the last digit.
        batches = _pieces(missing, self.encoder.batch)[world.rank :: world.size]
        made = {first[key]: row for key, row in found.items()}
        mine, seen = sum(map(len, batches)), 0
        done += len(rows) - len(missing)
        tell(done, total)
        for block in _pieces(batches, max(1, BLOCK // self.encoder.batch)):
            places = [place for batch in block for place in batch]
            fresh: list[Array] = []
            try:
                for x in self.reader.raw(inputs, [rows[torch.tensor(batch)] for batch in block]):
                    features = self.encoder.features(self.reader.prepare(x.to(self.encoder.device)))
                    fresh += list(_half(features, self.encoder.name))
                    seen += len(x)
                    tell(done + seen * len(missing) // mine, total)
            finally:  # also what was made before a person broke it off
                cache.keep([keys[place] for place in places[: len(fresh)]], np.array(fresh))
            made |= dict(zip(places, fresh, strict=True))
        result = np.zeros((len(rows), self.encoder.dims), dtype=np.float16)
        for place, row in made.items():
            result[place] = row
        ours = torch.tensor(sorted(made), dtype=torch.long)
        whole = world.gather_rows(ours, torch.from_numpy(result)[ours], len(rows)).numpy()
        return np.asarray(whole[[first[key] for key in keys]])

    def missing(self, bundle: Bundle) -> int:
        """How many images of a source have to go through the encoder."""
        keys = {key for inputs, rows in sets_of(bundle).values() for key in self._keys(inputs, rows)}
        return len(keys) - len(self._kept().find(list(keys)))

    def _kept(self) -> FeatureCache:
        return FeatureCache(self.cache, self.encoder.digest, self.encoder.dims)

    def _keys(self, inputs: Inputs, rows: Tensor) -> list[bytes]:
        images = self.reader.raw(inputs, rows.split(READ))
        return [key_of(image) for x in images for image in x.cpu().contiguous().numpy()]

    def state(self) -> dict[str, Any]:
        return {
            "encoder": dict(self.chosen),
            "digest": self.encoder.digest,
            "size": self.encoder.size,
            "low": self.reader.low,
            "high": self.reader.high,
            **self.reading,
        }

    def arrays(self) -> dict[str, Array]:
        return dict(self.whitening)

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Any],
        arrays: Mapping[str, Array],
        *,
        device: torch.device | None = None,
        cache: Path | None = None,
    ) -> Encoding:
        """The same again; an encoder that has changed since is refused."""
        chosen = dict(state["encoder"])
        options = {key: value for key, value in chosen.items() if key not in ("name", "size")}
        size = int(state["size"])
        place = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        encoder = create(chosen["name"], {**options, "size": size}, size, place)
        if encoder.digest != state["digest"]:
            raise RunFolderError(
                f"encoder {encoder.name!r} must be the one of the training; got one with other weights or settings. "
                "Put back what was there, or train again."
            )
        whitening = {name: arrays[name] for name in ("pca_mean", "pca_components") if name in arrays}
        reader = Reader(float(state["low"]), float(state["high"]), size)
        reading = {key: state[key] for key in READING if key in state}
        return cls(encoder, reader, chosen, reading, cache, whitening)


READING = ("channels", "stored", "crop", "resize")


def reading_of(inputs: Inputs) -> dict[str, Any]:
    """How files become the pixels of such inputs."""
    if not isinstance(inputs, ImageInputs):
        return {}
    images = Images.of(inputs)
    crop = list(images.view.size)
    return {"channels": images.channels, "stored": list(images.stored), "crop": crop, "resize": images.resize}


def _pieces(things: Sequence[T], size: int) -> list[Sequence[T]]:
    """So many at a time."""
    return [things[start : start + size] for start in range(0, len(things), size)]


def _half(features: Array, name: str) -> Array:
    if not np.isfinite(features).all() or np.abs(features).max(initial=0) > np.finfo(np.float16).max:
        raise InputError(f"features must be finite numbers of half precision; encoder {name!r} gave others.")
    return features.astype(np.float16)


def sets_of(bundle: Bundle) -> dict[str, tuple[Inputs, Tensor]]:
    """Inputs and rows of the training images (""), of the test sets and of "val"."""
    sets = {"": (bundle.inputs, torch.arange(len(bundle.inputs)))}
    others: dict[str, EvalSet] = {**bundle.tests, **({"val": bundle.val} if bundle.val is not None else {})}
    for name, part in others.items():
        sets[name] = (part.inputs, torch.arange(len(part.inputs)) if part.rows is None else part.rows.cpu())
    return sets


def encode(bundle: Bundle, encoding: Encoding) -> Bundle:
    """The source with rows of features in the place of its images, which a person still gets to see.

    Of several processes each makes its share of them, so all have to call this.
    """
    sets = sets_of(bundle)
    total, done = sum(len(rows) for _, rows in sets.values()), 0
    found = {}
    for name, (inputs, rows) in sets.items():
        found[name] = encoding.features(inputs, rows, done, total, current()).astype(np.float64)
        done += len(rows)
    return _of_features(bundle, encoding, found)


def unencoded(bundle: Bundle, encoding: Encoding) -> Bundle:
    """As `encode`, with zeros: of the right shape for checks, at no cost."""
    zero = np.zeros((1, encoding.encoder.dims))
    found = {name: np.broadcast_to(zero, (len(rows), zero.shape[1])) for name, (_, rows) in sets_of(bundle).items()}
    return _of_features(bundle, encoding, found)


def _of_features(bundle: Bundle, encoding: Encoding, found: Mapping[str, Array]) -> Bundle:
    columns = tuple(str(k) for k in range(encoding.encoder.dims))
    how = Features(Scale.of(found[""]), columns, encoding=encoding)
    rows_of = {name: how.scaled(x) for name, x in found.items()}
    tests = {name: EvalSet(rows_of[name], part.labels) for name, part in bundle.tests.items()}
    return replace(
        bundle,
        inputs=rows_of[""],
        shape=(encoding.encoder.dims,),
        tests=tests,
        val=EvalSet(rows_of["val"], bundle.val.labels) if bundle.val is not None else None,
        notes=[note for note in bundle.notes if SLOWLY not in note],
        recipe=suits(len(bundle.labels)),
        pictures=bundle.pictures or stored_pictures(bundle.inputs),
    )
