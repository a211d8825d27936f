"""Images without labels: all that lie below a folder, by their paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from selc._io.paths import Inside, is_image
from selc.data.base import Bundle
from selc.data.image_cache.decode import shown
from selc.data.preprocess.imagery import Reading, Resizing
from selc.data.sources.image_folder import is_run
from selc.data.sources.image_set import image_bundle
from selc.data.sources.listing import Listing
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
    return image_bundle(files_listing(existing(path, "path"), is_image, "images"), {}, how)


def files_listing(root: Path, wanted: Callable[[str], bool], noun: str) -> Listing:
    """All the wanted files below a folder, or a single one."""
    names = files_below(root, wanted, noun) if root.is_dir() else [root.name]
    items = [f"{root if root.is_dir() else root.parent}/{name}" for name in names]
    return Listing("the data", str(root), items, names, None, lambda row: shown(names[row]))


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
