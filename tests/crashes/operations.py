"""Every change that a process makes to the files below a folder, counted; at one of them trouble comes.

The functions of ``os`` that change files, and the files that ``open`` returns for writing, are replaced in this process
and so in those that it forks: open, write, truncate, fsync, rename, unlink, mkdir, rmdir, link. What is written
through a memory map, and by a program that is started anew, is not seen.

What can happen at operation ``at``, before it is done:

kill    every process of the group gets SIGKILL
torn    the same, but of a write half of the bytes are written first
power   the same, but what was never told to the disk is gone: bytes written to a file that was not synced after them,
        and names made, changed or removed in a folder that was not synced after that. (All of it is lost, where a real
        disk may lose any part of it; bytes that were written over in place are not brought back.)
full    no error but this one: from here on whatever needs room fails with ENOSPC, as long as the process lives
"""

from __future__ import annotations

import _pyio  # type: ignore[import-not-found]
import builtins
import errno
import io
import mmap
import multiprocessing
import os
import signal
import struct
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, get_args

Kind = Literal["kill", "torn", "power", "full"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NEEDS_ROOM = ("open", "write", "truncate", "fsync", "rename", "mkdir", "link")
real = types.SimpleNamespace(**vars(os))  # the functions as they are before any is replaced


class Trouble(NamedTuple):
    """What happens, and at which operation (from 0)."""

    kind: Kind
    at: int


class Operations:
    """The operations below ``root`` of this process and its forks; without trouble ``log`` gets a line for each.

    ``aside`` is a folder on the same disk, for what a loss of power brings back.
    """

    def __init__(self, root: Path, aside: Path, log: Path, trouble: Trouble | None) -> None:
        self.root, self.aside, self.trouble = os.path.realpath(root), aside, trouble
        self.lock = multiprocessing.get_context("fork").RLock()  # threads and forks take turns
        self.counter = mmap.mmap(-1, 8)  # shared with the forks
        self.log = None if trouble else real.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self.undo: list[tuple[str, Callable[[], None]]] = []  # (folder that was not synced since, how to undo)
        self.unsynced: dict[tuple[int, int], tuple[int, int]] = {}  # file -> (a handle, its size on the disk)
        self.kept = 0

    def install(self) -> None:
        """From now on operations count; there is no way back, as the process is to end."""
        for module in (builtins, io):
            module.open = self.open  # type: ignore[attr-defined]
        for name in ("write", "fsync", "ftruncate", "posix_fallocate", "sendfile", "unlink", "mkdir", "rmdir", "link"):
            setattr(os, name, getattr(self, name))
        os.open, os.remove = self.open_handle, self.unlink
        os.rename = os.replace = self.rename  # type: ignore[assignment]

    @property
    def count(self) -> int:
        return int(struct.unpack("q", self.counter[:])[0])

    def below(self, path: Any, folder: int | None = None) -> str | None:
        """The place of a path, or of an open file, if it is below the root."""
        if isinstance(path, int):
            place = os.readlink(f"/proc/self/fd/{path}")
        else:
            place = os.path.abspath(os.path.join(os.readlink(f"/proc/self/fd/{folder}") if folder else "", path))
        return place if place == self.root or place.startswith(self.root + os.sep) else None

    @contextmanager
    def operation(self, what: str, place: str, half: Callable[[], object] = lambda: None) -> Iterator[None]:
        """One operation; ``half`` does half of it."""
        with self.lock:
            number = self.count
            self.counter[:] = struct.pack("q", number + 1)
            if self.log is not None:
                real.write(self.log, f"{what} {os.path.relpath(place, self.root)}\n".encode())
            if self.trouble is not None:
                if self.trouble.kind == "full":
                    if number >= self.trouble.at and what in NEEDS_ROOM:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
                elif number == self.trouble.at:
                    self.end(half)
            yield

    def end(self, half: Callable[[], object]) -> NoReturn:
        assert self.trouble is not None
        if self.trouble.kind == "torn":
            half()
        elif self.trouble.kind == "power":
            self.lose()
        real.killpg(0, signal.SIGKILL)
        raise AssertionError("unreachable")

    # What a loss of power takes.

    def lose(self) -> None:
        """Take back all that was not synced."""
        for handle, size in self.unsynced.values():
            real.ftruncate(handle, min(size, os.fstat(handle).st_size))
        for folder, back in reversed(self.undo):
            if os.path.isdir(folder):  # else it is gone for good, with all that was in it
                back()

    def changed(self, place: str, back: Callable[[], None]) -> None:
        """A name has changed, and its folder was not synced yet."""
        self.undo.append((os.path.dirname(place), back))

    def keep(self, place: str) -> str:
        """Another name for a file that is about to lose this one."""
        self.kept += 1
        aside = str(self.aside / f"{os.getpid()}-{self.kept}")
        real.link(place, aside)
        return aside

    def written(self, handle: int, before: int) -> None:
        """A file was written to; ``before`` is the size that it had."""
        state = os.fstat(handle)
        if (state.st_dev, state.st_ino) not in self.unsynced:
            self.unsynced[state.st_dev, state.st_ino] = os.dup(handle), before

    # The operations.

    def open(self, file: Any, mode: str = "r", buffering: int = -1, *args: Any, **options: Any) -> Any:
        # Files of pure Python: others find out that they are files, and write past them.
        if not set(mode) & set("wax+") or self.below(file) is None:
            return _real_open(file, mode, buffering, *args, **options)
        plain = "".join(letter for letter in mode if letter not in "bt")
        raw = _Raw(self, file, plain, options.pop("closefd", True), options.pop("opener", None))
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        file = (_pyio.BufferedRandom if "+" in mode else _pyio.BufferedWriter)(raw, size)
        return file if "b" in mode else _pyio.TextIOWrapper(file, *args, **options)

    def open_handle(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = self.below(path, dir_fd)
        if place is None or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            return int(real.open(path, flags, mode, dir_fd=dir_fd))
        with self.operation("open", place):
            new = not os.path.lexists(place)
            handle = int(real.open(path, flags, mode, dir_fd=dir_fd))
            self.opened(place, handle, new, truncated=bool(flags & os.O_TRUNC))
            return handle

    def opened(self, place: str, handle: int, new: bool, truncated: bool) -> None:
        if new:
            self.changed(place, lambda: real.unlink(place))
        if new or truncated:
            self.written(handle, 0)

    def write(self, handle: int, data: Any) -> int:
        place = self.below(handle)
        if place is None:
            return int(real.write(handle, data))
        view = memoryview(data).cast("B")
        with self.operation("write", place, lambda: real.write(handle, view[: len(view) // 2])):
            self.written(handle, os.fstat(handle).st_size)
            return int(real.write(handle, view))

    def sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int) -> int:
        place = self.below(out_fd)
        if place is None:
            return int(real.sendfile(out_fd, in_fd, offset, count))
        rest = max(0, min(count, os.fstat(in_fd).st_size - (offset or 0)))
        with self.operation("write", place, lambda: real.sendfile(out_fd, in_fd, offset, rest // 2)):
            self.written(out_fd, os.fstat(out_fd).st_size)
            return int(real.sendfile(out_fd, in_fd, offset, count))

    def ftruncate(self, handle: int, length: int) -> None:
        self._resized(handle, lambda: real.ftruncate(handle, length))

    def posix_fallocate(self, handle: int, offset: int, length: int) -> None:
        self._resized(handle, lambda: real.posix_fallocate(handle, offset, length))

    def _resized(self, handle: int, resize: Callable[[], None]) -> None:
        place = self.below(handle)
        if place is None:
            return resize()
        with self.operation("truncate", place):
            self.written(handle, os.fstat(handle).st_size)
            return resize()

    def fsync(self, handle: Any) -> None:
        handle = handle if isinstance(handle, int) else handle.fileno()
        place = self.below(handle)
        if place is None:
            real.fsync(handle)
            return
        with self.operation("fsync", place):  # only noted: a kill takes nothing from the system's own memory
            state = os.fstat(handle)
            self.undo = [(folder, back) for folder, back in self.undo if folder != place]
            if found := self.unsynced.pop((state.st_dev, state.st_ino), None):
                os.close(found[0])

    def rename(self, src: Any, dst: Any) -> None:
        source, target = self.below(src), self.below(dst)
        if source is None or target is None:
            assert source is target, "nothing is moved in or out"
            real.replace(src, dst)
            return
        with self.operation("rename", target):
            old = self.keep(target) if os.path.isfile(target) else None
            real.replace(source, target)

            def back() -> None:
                real.rename(target, source)
                if old is not None:
                    real.link(old, target)

            self.changed(target, back)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self.below(path, dir_fd)
        if place is None or not os.path.lexists(place):
            real.unlink(path, dir_fd=dir_fd)
            return
        with self.operation("unlink", place):
            old = self.keep(place)
            real.unlink(place)
            self.changed(place, lambda: real.link(old, place))

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = self.below(path, dir_fd)
        if place is None or os.path.lexists(place) or not os.path.isdir(os.path.dirname(place)):
            real.mkdir(path, mode, dir_fd=dir_fd)
            return
        with self.operation("mkdir", place):
            real.mkdir(place, mode)
            self.changed(place, lambda: _remove_tree(place))

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        place = self.below(path, dir_fd)
        if place is None or not os.path.isdir(place) or os.listdir(place):
            real.rmdir(path, dir_fd=dir_fd)
            return
        with self.operation("rmdir", place):
            real.rmdir(place)
            self.changed(place, lambda: real.mkdir(place))

    def link(self, src: Any, dst: Any, **options: Any) -> None:
        place = self.below(dst)
        if place is None:
            real.link(src, dst, **options)
            return
        with self.operation("link", place):
            real.link(src, dst, **options)
            self.changed(place, lambda: real.unlink(place))


_real_open = open


def _remove_tree(place: str) -> None:
    """By the functions as they were."""
    for entry in list(os.scandir(place)):
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(entry.path)
        else:
            real.unlink(entry.path)
    real.rmdir(place)


class _Raw(io.FileIO):
    """A file without a buffer, whose writes are operations."""

    def __init__(self, operations: Operations, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self.operations = operations
        place = operations.below(file)
        assert place is not None
        self.place = place
        if isinstance(file, int):
            super().__init__(file, mode, closefd)
            return
        with operations.operation("open", place):
            new = not os.path.lexists(place)
            super().__init__(file, mode, closefd, opener)
            operations.opened(place, self.fileno(), new, truncated="w" in mode)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with self.operations.operation("write", self.place, lambda: io.FileIO.write(self, view[: len(view) // 2])):
            self.operations.written(self.fileno(), os.fstat(self.fileno()).st_size)
            return io.FileIO.write(self, view)

    def truncate(self, size: int | None = None) -> int:
        with self.operations.operation("truncate", self.place):
            self.operations.written(self.fileno(), os.fstat(self.fileno()).st_size)
            return int(super().truncate(size))
