"""A table in a file that is mapped into memory: for tables that do not fit."""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from selc.errors import RunFolderError
from selc.memory.forms import Form, Held


class Disk(Form):
    """The numbers as they are, 32 bits each, in a scratch file; the system keeps in memory what fits.

    The file has no name any more once it is mapped, so nothing is left behind however the process ends; what a run
    must not lose is in its checkpoints. The rows come and go on the device of whoever asks.
    """

    name = "disk"
    moves = False

    def __init__(self, columns: int, folder: Path | None = None) -> None:
        super().__init__(columns)
        self.folder = folder

    def make(self, rows: int) -> dict[str, Tensor]:
        return {"table": mapped(rows * self.columns, self.folder).view(rows, self.columns)}

    def read(self, held: Held, slot: Tensor) -> Tensor:
        return super().read(held, slot.cpu()).to(slot.device)

    def write(self, held: Held, slot: Tensor, rows: Tensor) -> None:
        super().write(held, slot.cpu(), rows.cpu())


def mapped(size: int, folder: Path | None) -> Tensor:
    """So many zeros (fp32) in a file of their own, in ``folder`` or where temporary files go."""
    place = Path(tempfile.gettempdir() if folder is None else folder)
    handle, name = None, None
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".selc-table-", suffix=".tmp", dir=place)
        _reserve(handle, 4 * size)
        table = torch.from_file(name, shared=True, size=size, dtype=torch.float32)
    except (OSError, RuntimeError) as error:
        free = shutil.disk_usage(place).free / 1e9 if place.exists() else 0.0
        raise RunFolderError(
            f"a table on disk needs {4 * size / 1e9:.1f} GB in {place}; got {free:.1f} GB free ({error}). "
            "Name another folder by TMPDIR, or choose the form top-k."
        ) from None
    finally:
        if handle is not None:
            os.close(handle)
        if name is not None:
            _remove(name)
    return table


def _reserve(handle: int, size: int) -> None:
    """Take the space now: a disk that is full later would end the process without a word."""
    if size == 0:
        return
    reserve = getattr(os, "posix_fallocate", None)  # not on every system
    if reserve is not None:
        try:
            reserve(handle, 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
    if os.fstatvfs(handle).f_bavail * os.fstatvfs(handle).f_frsize < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(handle, size)


def _remove(name: str) -> None:
    try:
        os.unlink(name)
    except PermissionError:  # a system that keeps the name of a file in use
        atexit.register(_try_again, name)


def _try_again(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)
