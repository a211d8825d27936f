"""Features on disk, by what they are features of: a changed folder embeds only what is new.

CACHE/features/ENCODER/NAME.npz     keys [n, 16] bytes, x [n, D]: a block of rows, written whole, never changed

The key of a row is a hash of its pixels, so that a file that was renamed or put into another class is known again.
"""

from __future__ import annotations

import hashlib
import uuid
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from selc._io.files import write_whole
from selc.encoders.network import Array
from selc.errors import SelcError

KEY = 16  # bytes


def key_of(pixels: Array) -> bytes:
    """A hash of one image as it is stored."""
    total = hashlib.blake2b(str((pixels.shape, pixels.dtype.str)).encode(), digest_size=KEY)
    total.update(np.ascontiguousarray(pixels).data)
    return total.digest()


class FeatureCache:
    """The features that an encoder made before; one without a folder holds nothing and keeps nothing."""

    def __init__(self, folder: Path | None, digest: str, dims: int) -> None:
        self.folder = None if folder is None else folder / "features" / digest[:24]
        self.dims = dims

    def find(self, keys: list[bytes]) -> dict[bytes, Array]:
        """The rows that are there; a block that is not whole is passed over."""
        wanted, found = set(keys), dict[bytes, Array]()
        for path in sorted(self.folder.glob("*.npz")) if self.folder is not None else ():
            try:
                with open(path, "rb") as file, np.load(file, allow_pickle=False) as block:
                    known = [key.tobytes() for key in block["keys"].reshape(-1, KEY)]
                    places = [(place, key) for place, key in enumerate(known) if key in wanted and key not in found]
                    if not places:
                        continue  # its rows are not even read
                    x = block["x"]
                if x.shape == (len(known), self.dims):
                    found |= {key: x[place] for place, key in places}
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
                continue
        return found

    def keep(self, keys: list[bytes], features: Array) -> None:
        """Remember rows; a cache that cannot be written is done without."""
        if self.folder is None or not keys:
            return
        named = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY)

        def write(path: Path) -> None:
            with open(path, "wb") as file:
                np.savez(file, keys=named, x=features)

        with suppress(SelcError, OSError):
            write_whole(self.folder / f"{uuid.uuid4().hex}.npz", write)
