"""Files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tomllib
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from selc.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
PIECE = 2**22  # bytes that are written and hashed in one call
TYPES = {  # names of torch's types in safetensors
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "complex64": "C64",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says against writing ``path`` into a sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(
            f"{path} must be writable; got: {reason}. What was saved before is intact; "
            "free some space or fix the permissions, then repeat (a training goes on with `selc resume`)."
        ) from error


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    If anything fails, what stood at ``path`` before still stands there.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a kill left behind is written over
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def sync_folder(path: Path) -> None:
    """See to it that the names in a folder outlast a loss of power."""
    with suppress(OSError):  # not every system can
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    write_whole(path, lambda p: _write_bytes(p, data))


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


class Written(NamedTuple):
    """A file as it was written: to tell later whether it still is."""

    bytes: int
    sha256: str


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> Written:
    """Write a safetensors file, tensor by tensor straight from memory; the checksum is taken on the way.

    Not safetensors' own writer: that makes the whole file in memory first, or writes to a temporary file of its own,
    which a kill leaves behind under a random name.
    """
    written: list[Written] = []

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            written.append(_stream(file, tensors))

    write_whole(path, write)
    return written[0]


def _stream(file: BinaryIO, tensors: Mapping[str, Tensor]) -> Written:
    # The widest types first, so that each tensor begins at a multiple of its own width.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {}
    place = 0
    for name in names:
        tensor = tensors[name]
        end = place + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _type_name(name, tensor), "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    start = len(text).to_bytes(8, "little") + text
    for piece in chain([start], chain.from_iterable(_pieces(tensors[name]) for name in names)):
        file.write(piece)
        digest.update(piece)
    return Written(len(start) + place, digest.hexdigest())


def _pieces(tensor: Tensor) -> Iterator[bytes | memoryview]:
    """The bytes of a tensor, a few at a time."""
    import torch

    if not tensor.numel():
        return
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    content = flat.view(torch.uint8).numpy().data
    for first in range(0, len(content), PIECE):
        yield content[first : first + PIECE]


def _type_name(name: str, tensor: Tensor) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in TYPES:
        raise RunFolderError(f"tensors to be saved must be of a type that safetensors knows; got {kind} in {name!r}.")
    return TYPES[kind]


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise RunFolderError(
            f"{path} must be a whole safetensors file; got one that does not read: {in_short(error)}."
        ) from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path} must be a readable JSON file; got: {in_short(error)}.") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} must be a readable TOML file; got: {in_short(error)}.") from None


def in_short(error: BaseException) -> str:
    """What another library says of a file, for a sentence of ours: one line, nothing that a terminal would obey."""
    text = " ".join((str(error) or type(error).__name__).split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return (shown if len(shown) <= 200 else shown[:199] + "…").rstrip(".: ")


# What is packed may grow to FLOOR bytes, or to TIMES times the size of its file if that is more.
FLOOR, TIMES = 1 << 27, 100
HEAD = 10_000  # bytes of the text before the numbers of an array, which names their type and number
DIMENSIONS = 64
_LAST_CHARACTER = 0x10FFFF  # of Unicode
_SURROGATES = (0xD800, 0xDFFF)  # halves of characters, which cannot be written to any file


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file by name, or that of an .npy file under the name ``""``.

    `numpy.load` believes what a header says: it reserves memory for as many numbers, and unpacks whatever is packed.
    Here the sizes are compared first, and nothing is unpickled. A file that cannot be opened is an OSError; whatever is
    wrong with its content is a ValueError in a few words.
    """
    with open(path, "rb") as file, warnings.catch_warnings(action="ignore"):  # numpy's, about odd headers
        size = os.fstat(file.fileno()).st_size
        try:
            packed = file.read(2) == b"PK"
            file.seek(0)
            return _read_members(file, size) if packed else {"": _read_array(file, size)}
        except ValueError:
            raise
        except OSError as error:
            raise ValueError(error.strerror or str(error)) from None
        except Exception as error:  # zipfile, zlib and the parser of headers each have their own, and they change
            raise ValueError(f"a broken file ({str(error) or type(error).__name__})") from None


def _read_members(file: IO[bytes], size: int) -> dict[str, Array]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        total, most = sum(member.file_size for member in members), unpacked_limit(size)
        if total > most:
            raise ValueError(
                f"{size} bytes that unpack to {total}, and {most} are the most; save them unpacked, with numpy.savez"
            )
        arrays = {}
        for member in members:
            with archive.open(member) as content:
                arrays[member.filename.removesuffix(".npy")] = _read_array(content, member.file_size)
        return arrays


def unpacked_limit(size: int) -> int:
    """The most bytes that a file of ``size`` bytes may unpack to."""
    return max(FLOOR, TIMES * size)


def _read_array(file: IO[bytes], size: int) -> Array:
    """An array of which the file holds every byte; ``size`` is that of the whole file."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:] not in (b"\1\0", b"\2\0"):
        raise ValueError("something else than an array of numpy")
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(file, max_header_size=HEAD)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they would have to be unpickled")
    if len(shape) > DIMENSIONS or any(n < 0 for n in shape):
        raise ValueError(f"an array of {len(shape)} dimensions, or with a negative one")
    if math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"an array of shape {shape} in {size - file.tell()} bytes")
    file.seek(0)
    array: Array = np.lib.format.read_array(file, allow_pickle=False, max_header_size=HEAD)
    while file.read(1 << 16):  # to the end, where a zip file has its checksum compared
        pass
    if dtype.kind == "U":
        _check_text(array)
    return array


def _check_text(array: Array) -> None:
    if array.dtype.itemsize == 0:
        return
    letters = np.ascontiguousarray(array).reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    low, high = _SURROGATES
    if ((letters > _LAST_CHARACTER) | ((letters >= low) & (letters <= high))).any():
        raise ValueError("text with letters that no alphabet has")


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
