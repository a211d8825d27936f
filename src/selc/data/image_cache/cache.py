"""Decoded images on disk: one file that is mapped into memory, so that only what is asked for is read.

The file is the pixels [N, H, W, 3], then a JSON text about them, then the length of that text and a mark. It comes into
its place whole or not at all, and its name holds a hash of all that it was made from: a changed folder has a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.files import locked, make_folder, sweep, sync_folder

MARK = b"SELCPIX1"
_TAIL = struct.Struct("<Q8s")
LIMIT = 8_000_000_000  # bytes of pixels that are kept decoded; more is decoded again in each epoch


def cache_folder(choice: str = "auto") -> Path | None:
    """Where decoded images are kept: ``auto``, ``off`` (None) or a folder of one's own."""
    if choice == "off":
        return None
    if choice != "auto":
        return Path(choice).expanduser()
    if own := os.environ.get("SELC_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "selc"


@dataclass(frozen=True)
class Place:
    """A file of the cache: what it is made of, and what it is made from."""

    folder: Path
    family: str  # hash of the source and the settings: a newer file of the family takes the place of the older
    digest: str  # hash of the state of every file, and the settings

    @property
    def path(self) -> Path:
        return self.folder / f"{self.family[:12]}-{self.digest[:32]}.pixels"

    def about(self) -> dict[str, Any] | None:
        """What the file says of itself; None if there is none, or one that is not whole."""
        try:
            with open(self.path, "rb") as file:
                end = file.seek(-_TAIL.size, os.SEEK_END)
                length, mark = _TAIL.unpack(file.read())
                if mark != MARK or length > end:
                    return None
                file.seek(end - length)
                about: dict[str, Any] = json.loads(file.read(length))
        except (OSError, ValueError, struct.error):
            return None
        whole = about.get("digest") == self.digest and about.get("bytes") == end - length
        return about if whole else None

    def has_room(self, count: int) -> bool:
        """Whether the disk holds ``count`` bytes more, and a little."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.folder).free > 1.05 * count + 50_000_000

    def write(self, count: int, fill: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """Let ``fill`` write ``count`` bytes to a new file and say something about them; then put it in place."""
        make_folder(self.folder)
        sweep(self.folder, f".{'?' * 12}-*.tmp")  # no others: the folder may be one that somebody chose
        # Not one name for all: two programs that start on the same folder may both be at it.
        temporary = self.folder / f".{self.family[:12]}-{uuid.uuid4().hex}.tmp"
        with locked(temporary, 0o600):
            with open(temporary, "r+b") as file:
                file.truncate(count)
                about = {**fill(str(temporary)), "digest": self.digest, "bytes": count}
                text = json.dumps(about).encode()
                file.seek(count)
                file.write(text + _TAIL.pack(len(text), MARK))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        sync_folder(self.folder)
        for older in self.folder.glob(f"{self.family[:12]}-*.pixels"):
            if older != self.path:
                with suppress(OSError):  # it may be in use
                    older.unlink()
        return about


def json_digest(*parts: object) -> str:
    """A hash of values that JSON can write."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class MappedPixels:
    """Bytes [N, H, W, 3] of a cache file as images [B, 3, H, W]; ``rows`` says which of them count."""

    def __init__(self, path: Path, shape: tuple[int, int, int], rows: Tensor | None = None) -> None:
        self.path, self.rows, self.device = path, rows, torch.device("cpu")
        # "c": a private copy of a page if anybody ever writes to it, so torch takes it and the file stays as it is.
        mapped = np.memmap(path, dtype=np.uint8, mode="c", shape=(*shape, 3))
        self.images = torch.from_numpy(mapped)

    def __len__(self) -> int:
        return len(self.images) if self.rows is None else len(self.rows)

    def stream(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        for rows in batches:
            index = rows.cpu()
            if self.rows is not None:
                index = self.rows.index_select(0, index)
            images = self.images.index_select(0, index).permute(0, 3, 1, 2)
            yield images.to(self.device, non_blocking=True)

    def to(self, device: torch.device) -> MappedPixels:
        moved = object.__new__(MappedPixels)
        moved.__dict__.update(self.__dict__, device=device)
        return moved
