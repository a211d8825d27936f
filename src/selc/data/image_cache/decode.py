"""Files of images as pixels: decoded once into a cache where they fit, else on the way in each epoch.

Each image is read once before any training, so that a broken one shows at the start and not in the third hour.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from selc.data.image_cache.cache import LIMIT, MappedPixels, Place, json_digest
from selc.data.image_cache.pool import Answer, File, Pool, Task, worker_count
from selc.data.image_cache.worker import Resize
from selc.data.inputs.images import Pixels
from selc.data.progress import Report, tell
from selc.errors import InputError

FORMAT = 1  # of decoded pixels: another number where the same file would give other ones
CHUNK = 256  # images of one task
NAMED = 10  # bad images that a sentence names; of more it gives the number


@dataclass(frozen=True)
class Decoded:
    """What reading images showed."""

    digest: str  # of the files and how they are decoded
    bad: tuple[tuple[int, str], ...]  # (row, why it cannot be read) of what was left out
    kept: Tensor | None  # rows that are left, in order; None: all
    smallest: tuple[int, int]  # height and width before they were resized, each on its own
    largest: tuple[int, int]
    cache: Path | None  # the file of the cache; None: decoded on the way
    notes: tuple[str, ...] = ()
    alike: tuple[tuple[int, ...], ...] = ()  # rows of files that hold the very same bytes, two or more each


def image_pixels(
    files: Sequence[File],
    size: tuple[int, int],
    *,
    resize: Resize = "stretch",
    cache: Path | None,
    workers: int = 0,
    progress: Report | None = None,
    names: Sequence[str] | None = None,
    digest: str = "",
    source: str = "",
    skip_bad: bool = False,
    limit: int = LIMIT,
) -> tuple[Pixels, Decoded]:
    """The pixels uint8 [N, 3, H, W] of image files (or of their bytes), and what was found in them.

    ``cache`` is a folder (`cache_folder`), or None to decode on the way; so is done, too, where the pixels are more
    than ``limit`` bytes. ``workers`` processes decode; 0 is as many as there are processors. ``names`` say how messages
    call the files. ``digest`` identifies bytes that are not in files; ``source`` names where all comes from: a later
    state of it replaces the cache of the earlier. A file that cannot be read is an error, or left out by ``skip_bad``.
    """
    if not len(files):
        raise InputError("there must be at least one image; got none.")
    called = list(names) if names is not None else [_name(item, row) for row, item in enumerate(files)]
    settings = [FORMAT, *size, resize]
    stamp = json_digest(settings, digest or files_digest(files, called))
    count = len(files) * size[0] * size[1] * 3
    processes = worker_count(workers, len(files))
    notes = []
    about, place, stored = None, None, False
    if cache is not None:
        place, stored, note = _place(cache, json_digest(settings, source or stamp), stamp, count, limit)
        notes += [note] if note else []
        about = place.about() if place else None
    if about is None:
        with Pool(processes) as pool:
            run = _Run(pool, files, size, resize, progress)
            about = run.check() if place is None else _written(place, count if stored else 0, run)
    bad = [(int(row), str(reason)) for row, reason in about["bad"]]
    if bad and (not skip_bad or len(bad) == len(files)):
        raise InputError(bad_images(bad, called, len(files)))
    kept = None
    if bad:
        left_out = {row for row, _ in bad}
        kept = torch.tensor([row for row in range(len(files)) if row not in left_out])
    pixels: Pixels
    if place is not None and stored:
        pixels = MappedPixels(place.path, (len(files), *size), kept)
    else:
        rows = range(len(files)) if kept is None else kept.tolist()
        pixels = FilePixels(files, rows, called, size, resize, processes)
    (a, b), (c, d) = about["smallest"], about["largest"]
    where = place.path if place is not None and stored else None
    alike = tuple(tuple(rows) for rows in about.get("alike", ()))  # older caches do not know
    return pixels, Decoded(stamp, tuple(bad), kept, (a, b), (c, d), where, tuple(notes), alike)


def _name(item: File, row: int) -> str:
    return f"image {row}" if isinstance(item, bytes) else str(item)


def files_digest(files: Sequence[File], names: Sequence[str]) -> str:
    """A hash of the name, size and time of change of every file."""
    total = hashlib.sha256()
    for item, name in zip(files, names, strict=True):
        if isinstance(item, bytes):
            total.update(hashlib.sha256(item).digest())
            continue
        try:
            state = os.stat(item)
            text = f"{name}\0{state.st_size}\0{state.st_mtime_ns}\n"
        except OSError:
            text = f"{name}\0gone\n"
        total.update(text.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _place(cache: Path, family: str, stamp: str, count: int, limit: int) -> tuple[Place | None, bool, str]:
    """Where the cache of ``count`` bytes is or goes, whether it holds pixels or only what was found, and a note."""
    stored = count <= limit
    note = "" if stored else f"the images are {count / 1e9:.1f} GB decoded and so are decoded anew in each epoch"
    place = Place(cache, family, stamp if stored else json_digest(stamp, "found"))
    try:
        if not stored or place.about() is not None or place.has_room(count):
            return place, stored, note
        free = f"{cache} has no room for {count / 1e9:.1f} GB"
    except OSError as error:
        free = f"{cache} cannot be written ({error.strerror})"
    return None, False, f"{free}, so images are decoded anew in each epoch; another folder is set by SELC_CACHE"


def _written(place: Place, count: int, run: _Run) -> dict[str, Any]:
    try:
        return place.write(count, run.write if count else lambda path: run.check())
    except OSError as error:
        raise InputError(
            f"{place.folder} must take {count / 1e9:.2f} GB of decoded images; got: {error.strerror or error}. "
            "Free some space, set SELC_CACHE to another folder, or switch the cache off (data.cache=off)."
        ) from None


def bad_images(bad: Sequence[tuple[int, str]], names: Sequence[str], count: int) -> str:
    """The sentence about images that cannot be read."""
    listed = ", ".join(f"{shown(names[row])} ({reason})" for row, reason in bad[:NAMED])
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return (
        f"every image must be readable; got {len(bad)} of {count} that {'is' if len(bad) == 1 else 'are'} not: "
        f"{listed}{more}. Repair or remove what is listed, or go on without it by --skip-bad (skip_bad=True)."
    )


def shown(name: str) -> str:
    """A file name as text that can be printed and stored: bytes that are no UTF-8 are spelled out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class _Run:
    """One pass over all images."""

    def __init__(
        self,
        pool: Pool,
        files: Sequence[File],
        size: tuple[int, int],
        resize: Resize,
        progress: Report | None,
    ) -> None:
        self.pool, self.files, self.size, self.resize, self.progress = pool, files, size, resize, progress

    def write(self, path: str) -> dict[str, Any]:
        """Write the pixels to a file; say what was found."""
        return self._all("file", path)

    def check(self) -> dict[str, Any]:
        """Only say what was found."""
        return self._all("nowhere")

    def _all(self, to: Literal["file", "nowhere"], path: str = "") -> dict[str, Any]:
        total, image = len(self.files), self.size[0] * self.size[1] * 3
        # Small enough that every process has several, and that the bar moves.
        chunk = max(1, min(CHUNK, total // (4 * max(1, self.pool.count)) + 1, 64_000_000 // image))
        tasks = (
            Task(self.files[first : first + chunk], self.size, self.resize, to, path, first * image)
            for first in range(0, total, chunk)
        )
        bad: list[tuple[int, str]] = []
        smallest, largest, done = [0, 0], [0, 0], 0
        marks = np.zeros(total, dtype=np.int64)
        tell(0, total, self.progress)
        for first, (found, _) in zip(range(0, total, chunk), in_order(self.pool, tasks), strict=True):
            bad += [(first + row, reason) for row, reason in found.bad]
            for axis in (0, 1):
                known = [value for value in (smallest[axis], found.smallest[axis]) if value]
                smallest[axis] = min(known, default=0)
                largest[axis] = max(largest[axis], found.largest[axis])
            done = min(total, first + chunk)
            marks[first:done] = found.marks
            tell(done, total, self.progress)
        left_out = {row for row, _ in bad}
        alike = [rows for rows in equal_rows(marks) if left_out.isdisjoint(rows)]
        return {"bad": bad, "smallest": smallest, "largest": largest, "alike": alike}


def equal_rows(marks: np.ndarray[Any, np.dtype[np.int64]]) -> list[list[int]]:
    """The rows of each mark that is there more than once."""
    order = np.argsort(marks, kind="stable")
    same = np.diff(marks[order]) == 0  # as the one before
    order = order[np.append(same, False) | np.append(False, same)]  # few are left
    groups = np.split(order, np.flatnonzero(np.diff(marks[order])) + 1)
    return sorted(rows.tolist() for rows in groups if len(rows))


def in_order(pool: Pool, tasks: Iterator[Task]) -> Iterator[Answer]:
    """The answers in the order of the tasks; a few tasks are always under way ahead of the one that is waited for."""
    ahead: deque[Future[Answer]] = deque()
    try:
        for task in tasks:
            ahead.append(pool.submit(task))
            if len(ahead) > 2 * pool.count:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()


class FilePixels:
    """Images that are decoded on the way, in worker processes, some batches ahead."""

    def __init__(
        self,
        files: Sequence[File],
        rows: Sequence[int],
        names: Sequence[str],
        size: tuple[int, int],
        resize: Resize,
        processes: int,
    ) -> None:
        self.files, self.rows, self.names, self.size, self.resize = files, rows, names, size, resize
        self.pool, self.device = Pool(processes), torch.device("cpu")

    def __len__(self) -> int:
        return len(self.rows)

    def stream(self, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        tasks = (
            Task([self.files[self.rows[row]] for row in batch.tolist()], self.size, self.resize) for batch in batches
        )
        for batch, (found, pixels) in zip(batches, in_order(self.pool, tasks), strict=True):
            if found.bad:
                rows = [self.rows[row] for row in batch.tolist()]
                changed = [(rows[place], f"{reason}; it has changed since the start") for place, reason in found.bad]
                raise InputError(bad_images(changed, self.names, len(self)))
            assert pixels is not None
            yield torch.from_numpy(pixels).permute(0, 3, 1, 2).to(self.device, non_blocking=True)

    def to(self, device: torch.device) -> FilePixels:
        moved = object.__new__(FilePixels)
        moved.__dict__.update(self.__dict__, device=device)
        return moved


def mean_and_std(pixels: Pixels, most: int = 2_000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of each channel, of values in [0, 1], over at most so many images spread evenly over all.

    Sums of whole numbers are exact, so that the result is the same everywhere.
    """
    step = max(1, -(-len(pixels) // most))
    count, total, squares = 0, torch.zeros(()).double(), torch.zeros(()).double()
    for images in pixels.stream(list(torch.arange(0, len(pixels), step).split(250))):
        values = images.cpu().permute(1, 0, 2, 3).flatten(1).float()
        count += values.shape[1]
        total = total + values.sum(1, dtype=torch.float64)
        squares = squares + values.square_().sum(1, dtype=torch.float64)
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt()
    # Not below one level: a channel of one colour has nothing to be scaled.
    return tuple((mean / 255).tolist()), tuple((std.clamp_min(1) / 255).tolist())
