"""Arrays of numpy in files, which are not believed: sizes are compared before memory is taken."""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from selc._io.files import unpacked_limit

Array = np.ndarray[Any, np.dtype[Any]]
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
