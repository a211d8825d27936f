"""The file of features: chunks beside it while they are computed, then one .npz that is never whole in memory."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from selc._io.files import read_json, write_json, write_whole
from selc.errors import ConfigError, RunFolderError

Array = NDArray[Any]
Number = Literal["float16", "float32"]
CHUNK = 1024  # rows that are saved at a time: the most that an interruption loses
ABOUT = "about.json"  # in a folder of chunks: what they are features of
FLAT = 1e-10  # variances below this share of the largest are rounding


class ChunkFolder:
    """A folder for the finished chunks of an embedding, which knows what they are features of."""

    def __init__(self, folder: Path, about: Mapping[str, Any], overwrite: bool) -> None:
        self.folder = folder
        mark = folder / ABOUT
        found = read_json(mark) if mark.exists() else None  # it is written before the first chunk and removed last
        if found != about and (found is not None or any(folder.glob("*.npy"))):
            if not overwrite:
                raise RunFolderError(
                    f"{folder} must hold the same features, half done; got those of other data or another backbone. "
                    "Choose another --out, or add --overwrite."
                )
            remove_chunks(folder)
        if not mark.exists():
            write_json(mark, about)

    def missing(self, name: str, rows: int) -> list[tuple[int, int]]:
        """First and last row (exclusive) of every chunk of a set that is not there yet."""
        spans = [(first, min(first + CHUNK, rows)) for first in range(0, rows, CHUNK)]
        return [span for span in spans if not self._path(name, span[0]).exists()]

    def write(self, name: str, first: int, features: Array) -> None:
        write_whole(self._path(name, first), lambda p: _save(p, features))

    def read(self, name: str, rows: int) -> Iterator[Array]:
        """The chunks of a set, in order."""
        for first in range(0, rows, CHUNK):
            yield np.load(self._path(name, first), allow_pickle=False)

    def remove(self) -> None:
        remove_chunks(self.folder)

    def _path(self, name: str, first: int) -> Path:
        return self.folder / f"{name}-{first:09d}.npy"


def chunk_folder(path: Path) -> Path:
    """Where the chunks of a file of features are."""
    return path.with_name(path.name + ".part")


def finished(path: Path) -> bool:
    """Whether a kill only left chunks beside the file that holds them all; they are removed then."""
    folder = chunk_folder(path)
    if not (path.exists() and folder.is_dir()):
        return False
    try:
        with np.load(path, allow_pickle=False) as arrays:
            meta = json.loads(str(arrays["meta"]))
        about = read_json(folder / ABOUT) if any(folder.iterdir()) else {}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, RunFolderError):
        return False  # not of ours, or not of that file
    if not all(name in meta and meta[name] == value for name, value in about.items()):
        return False
    remove_chunks(folder)
    return True


def remove_chunks(folder: Path) -> None:
    """The mark goes last, so that what a kill leaves is still known for what it is."""
    for path in [*folder.glob("*.npy"), *folder.glob(".*.tmp"), folder / ABOUT]:
        path.unlink(missing_ok=True)
    with suppress(OSError):  # there is something else in it
        folder.rmdir()


class Whitening(NamedTuple):
    """Principal components, each scaled to variance one on the training rows."""

    mean: Array  # [D]
    components: Array  # [D, dims]

    @classmethod
    def fitted(cls, chunks: Callable[[], Iterable[Array]], dims: int) -> Whitening:
        rows = sum(len(x) for x in chunks())
        mean = np.asarray(sum(x.sum(0, dtype=np.float64) for x in chunks()) / rows)
        covariance = np.asarray(sum((x - mean).T @ (x - mean) for x in chunks()) / (rows - 1))
        variance, directions = np.linalg.eigh(covariance)  # in ascending order
        variance, directions = variance[::-1], directions[:, ::-1]
        varying = int((variance > FLAT * variance[0]).sum())
        if dims > varying:
            raise ConfigError(f"dims must be at most {varying}, since the features vary in no more; got {dims}.")
        variance, directions = variance[:dims], directions[:, :dims]
        # A direction and its opposite are equally good: take the one whose largest entry is positive.
        largest = directions[np.abs(directions).argmax(0), np.arange(dims)]
        return cls(mean, directions * np.sign(largest) / np.sqrt(variance))

    def apply(self, x: Array) -> Array:
        result: Array = (x - self.mean) @ self.components
        return result


@dataclass(frozen=True)
class Rows:
    """An array that is written chunk by chunk."""

    shape: tuple[int, int]
    number: Number
    chunks: Iterable[Array]
    whitening: Whitening | None

    def write(self, file: Any) -> None:
        dtype = np.dtype(self.number)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in self.chunks:
            values = chunk if self.whitening is None else self.whitening.apply(chunk)
            if np.abs(values).max() > np.finfo(dtype).max:
                raise ConfigError(f"features must fit into {self.number}; got larger ones. Use --float32.")
            file.write(np.ascontiguousarray(values, dtype=dtype).tobytes())


def write_npz(path: Path, arrays: Mapping[str, Array | Rows]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # without the time of day: the same features, the same bytes
            member.external_attr = 0o644 << 16
            with archive.open(member, "w", force_zip64=True) as file:
                if isinstance(array, Rows):
                    array.write(file)
                else:
                    np.lib.format.write_array(file, array, allow_pickle=False)


def _save(path: Path, array: Array) -> None:
    with open(path, "wb") as file:  # by handle: by name, numpy would add an ending
        np.save(file, array, allow_pickle=False)
