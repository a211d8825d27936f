"""Files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from selc.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from torch import Tensor

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
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step, to stay.

    If anything fails, what stood at ``path`` before still stands there.
    """
    temporary = temporary_of(path)
    with writing(path):
        make_folder(path.parent)
        with locked(temporary):
            write(temporary)
            sync(temporary)
            os.replace(temporary, path)
        sync_folder(path.parent)


def temporary_of(path: Path) -> Path:
    """Where a file is written before it is put in place. One name: what a kill left is written over the next time."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def locked(temporary: Path, mode: int = 0o666) -> Iterator[None]:
    """A new temporary file to fill, locked as long as this process is at it; what is left of it at the end is removed.

    The lock goes with the process, however it ends: whoever gets it knows that the writer is dead. Where the system
    has no such locks, nobody gets it.
    """
    while True:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT, mode)
        _lock(handle, wait=True)
        if _names(temporary, handle):
            break
        os.close(handle)  # somebody put it in place, or swept it away, before the lock was ours
    if os.name == "nt":  # there an open file can be neither locked so nor put in place
        os.close(handle)
    try:
        yield
    finally:
        with suppress(OSError):
            if os.name == "nt" or _names(temporary, handle):
                temporary.unlink()
        if os.name != "nt":
            os.close(handle)


def sweep(folder: Path, names: str = "**/.*.tmp") -> None:
    """Remove the temporary files of dead writers from a folder of ours, and from those below it."""
    for temporary in folder.glob(names):
        with suppress(OSError):  # gone by now, or not ours to remove
            handle = os.open(temporary, os.O_RDWR)
            try:
                if _lock(handle, wait=False) and _names(temporary, handle):
                    temporary.unlink()
            finally:
                os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Whether the lock is ours."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another has it, or the disk has no locks
        return False
    return True


def _names(path: Path, handle: int) -> bool:
    """Whether ``path`` is still the name of an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def make_folder(path: Path) -> None:
    """Make a folder and those above it, to stay."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in new:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """See to it that the names in a folder outlast a loss of power."""
    with suppress(OSError):  # not every system can
        sync(path)


def sync(path: Path) -> None:
    """See to it that the content of a file outlasts a loss of power."""
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
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
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = " ".join((said or type(error).__name__).split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return (shown if len(shown) <= 200 else shown[:199] + "…").rstrip(".: ")


# What is packed may grow to FLOOR bytes, or to TIMES times the size of its file if that is more.
FLOOR, TIMES = 1 << 27, 100


def unpacked_limit(size: int) -> int:
    """The most bytes that a file of ``size`` bytes may unpack to."""
    return max(FLOOR, TIMES * size)


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
