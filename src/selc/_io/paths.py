"""Paths that must stay inside a folder."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from selc.errors import InputError

IMAGES = (".jpg", ".jpeg", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".avif")


def is_image(name: str) -> bool:
    """Whether a file is an image by its name."""
    return name.lower().endswith(IMAGES)


def is_text(name: str) -> bool:
    """Whether a file is a plain text by its name."""
    return name.lower().endswith(".txt")


def is_inside(place: Path | str, root: Path | str) -> bool:
    """Whether a path, which need not be there yet, is a folder or lies in it, by whatever links."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root))


class Inside:
    """A folder that no path may leave: by ``..``, from the root of the disk, or by a link."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self._real_folder = lru_cache(maxsize=65536)(os.path.realpath)  # files share few folders

    def locate(self, path: str, where: str) -> str:
        """The file that ``path`` means; ``where`` says in a message who named it."""
        if not path or "\0" in path:
            raise InputError(f"a path must name a file; got {path!r} {where}.")
        full = os.path.normpath(os.path.join(self.real, path))
        folder, name = os.path.split(full)
        target = os.path.join(self._real_folder(folder), name)
        with suppress(OSError):  # it is not there, which is said when it is read
            if stat.S_ISLNK(os.lstat(target).st_mode):
                target = os.path.realpath(target)
        if not self.holds(target):
            raise InputError(
                f"a path must stay inside {self.root}; got {path!r} {where}, which leaves it. "
                "Bring the files into the folder; paths count from there."
            )
        return full

    def holds(self, target: str) -> bool:
        return target == self.real or target.startswith(os.path.join(self.real, ""))
