"""Archives as they are published: members of a tar file, and dictionaries in pickles, of which nothing is run."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from selc._io import unpickled
from selc._io.files import in_short, unpacked_limit
from selc._io.unpickled import MOST
from selc.errors import InputError

Array = np.ndarray[Any, np.dtype[Any]]

BROKEN = (OSError, EOFError, ValueError, tarfile.TarError, zlib.error)
AGAIN = "Download it again from the official page."


# Tar files


def read_members(folder: Path, inside: str, archive: str, names: Sequence[str]) -> dict[str, bytes] | None:
    """The contents of ``inside/name`` from a folder, unpacked or still in its archive; None if it holds neither."""
    for unpacked in (folder / inside, folder):
        if (unpacked / names[0]).is_file():
            return {name: _read_file(unpacked / name) for name in names}
    if (folder / archive).is_file():
        return _read_tar(folder / archive, inside, names)
    return None


def _read_file(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path} must be there, beside the other files of its archive; got none. Unpack it again.")
    if path.stat().st_size > MOST:
        raise InputError(f"{path} must be a file of the official archive; got one of {path.stat().st_size} bytes.")
    return path.read_bytes()


def _read_tar(path: Path, inside: str, names: Sequence[str]) -> dict[str, bytes]:
    """Nothing is written to the disk, so no member can land anywhere."""
    found: dict[str, bytes] = {}
    seen, most = 0, unpacked_limit(path.stat().st_size)
    try:
        with tarfile.open(path, "r:*") as tar:
            for member in tar:
                seen += member.size
                if seen > MOST:
                    raise ValueError("more than a gigabyte")
                if seen > most:
                    raise ValueError(f"{path.stat().st_size} bytes that unpack to more than {most}")
                parts = PurePosixPath(member.name).parts
                if len(parts) == 2 and parts[0] == inside and parts[1] in names and member.isreg():
                    file = tar.extractfile(member)
                    assert file is not None  # a regular file has contents
                    found[parts[1]] = file.read()
                    if len(found) == len(names):
                        return found
    except BROKEN as error:
        raise InputError(f"{path} must be a whole tar archive; got: {in_short(error)}. Download it again.") from None
    missing = next(name for name in names if name not in found)
    raise InputError(f"{path} must hold {inside}/{missing}; got none. Download it again.")


# Pickles


def read_pickle(data: bytes, what: str) -> dict[str, Any]:
    """A pickled dictionary of plain values and arrays; ``what`` names the file in errors."""
    return _dictionary(unpickled.read_pickle(data, what, AGAIN), what)


def read_torch(path: Path) -> dict[str, Any]:
    """A dictionary of plain values, arrays and tensors that was written by ``torch.save``."""
    return _dictionary(unpickled.read_torch(path, AGAIN), str(path))


def _dictionary(value: Any, what: str) -> dict[str, Any]:
    """What is under words, which Python 2 wrote as bytes."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must hold a dictionary; got a {type(value).__name__}. {AGAIN}")
    words = {key.decode("latin-1") if isinstance(key, bytes) else key: item for key, item in value.items()}
    return {word: item for word, item in words.items() if isinstance(word, str)}
