"""Images without labels: all that lie below a folder, by their paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch

from selc._io.paths import Inside, is_image
from selc.data.base import Bundle
from selc.data.image_cache.cache import cache_folder, json_digest
from selc.data.image_cache.decode import image_pixels, shown
from selc.data.inputs.images import ImageInputs
from selc.data.sources.image_folder import is_run
from selc.data.sources.image_set import Chosen, Reading, Resizing, size_for, skipped_note, view_of
from selc.data.sources.originals import original_pictures
from selc.data.sources.recognise import existing
from selc.errors import InputError


def unlabelled(
    *,
    path: str = "",
    size: int = 0,
    resize: Resizing = "auto",
    skip_bad: bool = False,
    workers: int = 0,
    cache: str = "auto",
    cache_gb: float = 8.0,
) -> Bundle:
    """Your images without labels, for `selc embed` and `selc predict`: a folder, with or without sub-folders."""
    how = Reading(size, resize, "none", skip_bad, workers, cache, cache_gb)
    root = existing(path, "path")
    names = files_below(root, is_image, "images")
    items = [f"{root}/{name}" for name in names]
    side, resizing = size_for(items, how)
    pixels, found = image_pixels(
        items,
        (side, side),
        resize=resizing,
        cache=cache_folder(how.cache),
        workers=how.workers,
        names=names,
        source=str(root),
        skip_bad=how.skip_bad,
        limit=int(how.cache_gb * 1e9),
    )
    kept = list(range(len(names))) if found.kept is None else found.kept.tolist()
    ids = [shown(names[row]) for row in kept]
    skipped = [(shown(names[row]), reason) for row, reason in found.bad]
    return Bundle(
        inputs=ImageInputs(pixels, view_of(pixels, (side, side), "none"), resize=resizing),
        labels=torch.zeros(len(kept), dtype=torch.long),
        classes=(),
        shape=(3, side, side),
        ids=ids,
        notes=skipped_note(skipped),
        skipped=skipped,
        digest=json_digest(found.digest, ids),
        pictures=original_pictures(Chosen(items, kept), ids),
    )


def files_below(root: Path, wanted: Callable[[str], bool], noun: str) -> list[str]:
    """The wanted files in a folder and its sub-folders, by name; links to folders are not followed."""
    names = []
    inside = Inside(root)
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".") and not is_run(os.path.join(folder, name))]
        found = [name for name in files if wanted(name) and not name.startswith(".")]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in found]
    if not names:
        raise InputError(f"{root} must hold {noun}; got none by their names.")
    for name in names:
        inside.locate(name, "in it")
    return sorted(name.replace(os.sep, "/") for name in names)


def holds_no_folders(data: str) -> bool:
    """Whether a path is a folder of images beside each other, so that nothing says what they show."""
    place = Path(data).expanduser()
    if not place.is_dir():
        return False
    seen = [entry for entry in place.iterdir() if not entry.name.startswith(".")]
    return any(is_image(entry.name) for entry in seen) and not any(entry.is_dir() for entry in seen)
