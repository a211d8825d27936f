"""A folder with a sub-folder of images per class; what is listed may also be texts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from selc._io.paths import Inside, is_image, is_text
from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.decode import shown
from selc.data.preprocess.imagery import Augmenting, Reading, Resizing
from selc.data.sources.base import folder_source
from selc.data.sources.image_set import image_bundle
from selc.data.sources.listing import Listing
from selc.data.sources.recognise import existing
from selc.errors import InputError

# Sub-folders that are parts of a dataset and no classes, if they themselves hold a folder per class.
PARTS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
}


class Files(NamedTuple):
    """What samples are."""

    noun: str  # of several
    wanted: Callable[[str], bool]  # by the name of a file
    column: str  # of a table that has the same


IMAGES, TEXTS = Files("images", is_image, "path"), Files(".txt files", is_text, "text")
RUN = {"config.toml", "noise.json"}  # files that every run folder holds from its beginning
RUNS = "runs"  # where run folders go without being asked


@dataset("folder", Recipe(net="cnn", plan={"schedule": "cosine"}))
def folder(
    *,
    path: str = "",
    test: str = "",
    val: str = "",
    size: int = 0,
    resize: Resizing = "auto",
    augment: Augmenting = "crop-flip",
    skip_bad: bool = False,
    workers: int = 0,
    cache: str = "auto",
    cache_gb: float = 8.0,
) -> Bundle:
    """Your images: a folder with a sub-folder per class, or with train, val and test folders of such."""
    how = Reading(size, resize, augment, skip_bad, workers, cache, cache_gb)
    train, others, notes = listings(path, test, val, IMAGES)
    return image_bundle(train, others, how, notes)


@folder_source("folder", last=True)
def has_folders(place: Path) -> bool:
    """Whether there are sub-folders."""
    return any(inner.is_dir() for inner in place.iterdir())


Parts = tuple[Listing, dict[str, Listing], list[str]]


def listings(path: str, test: str, val: str, kind: Files) -> Parts:
    """The training samples, the other sets, and a note if these were found by their names."""
    root = existing(path, "path")
    given = {name: existing(place, name) for name, place in (("test", test), ("val", val)) if place}
    try:
        return _listed(root, given, kind)
    except OSError as error:
        raise InputError(f"{root} must be readable; got {error.filename!r}: {error.strerror}.") from None


def _listed(root: Path, given: dict[str, Path], kind: Files) -> Parts:
    if not root.is_dir():
        raise InputError(f"path must be a folder with a sub-folder of {kind.noun} per class; got the file {root}.")
    for name, place in given.items():
        if not place.is_dir():
            raise InputError(
                f"--{name} must be of the form of the data, a folder with a sub-folder of {kind.noun} per class; got "
                f"the file {place}."
            )
    parts = _parts(root)
    train = list_folder(parts.pop("train", root), "the data", kind)
    notes = []
    if train.source != str(root):
        apart = " and ".join(part.name for part in parts.values())
        notes.append(
            f"the training {kind.noun} are those in {Path(train.source).name}" + (apart and f"; {apart} kept apart")
        )
    others = {name: list_folder(place, name, kind) for name, place in {**parts, **given}.items()}
    return train, in_order(others), notes


def in_order(sets: Mapping[str, Listing]) -> dict[str, Listing]:
    """Test sets first, then that of validation."""
    return dict(sorted(sets.items(), key=lambda named: named[0] == "val"))


def _parts(root: Path) -> dict[str, Path]:
    """The folders of a dataset that is divided already; empty if the sub-folders are classes."""
    found: dict[str, Path] = {}
    for entry in _visible(root):
        if _is_ours(entry):
            continue
        if not entry.is_dir(follow_symlinks=False):  # a link is looked at, and refused, where classes are listed
            if entry.is_symlink():
                return {}
            continue
        part = PARTS.get(entry.name.lower())
        if part is None or part in found or not any(e.is_dir() for e in _visible(entry.path)):
            return {}
        found[part] = Path(entry.path)
    return found if "train" in found else {}


def _visible(place: Path | str) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; without what systems and editors leave there."""
    with os.scandir(place) as entries:
        seen = [e for e in entries if not e.name.startswith(".") and e.name != "__MACOSX"]
    return sorted(seen, key=lambda entry: entry.name)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Whether this is the folder of a run, whose figures are no data, or the folder that such go to."""
    if not entry.is_dir(follow_symlinks=False):
        return False
    if is_run(entry.path):
        return True
    if entry.name != RUNS:
        return False
    inner = [e.path for e in _visible(entry.path) if e.is_dir(follow_symlinks=False)]
    return any(is_run(place) or any(is_run(e.path) for e in _visible(place)) for place in inner)


def is_run(place: str) -> bool:
    """Whether a folder is that of a run: its pictures are no samples."""
    return all(os.path.isfile(os.path.join(place, name)) for name in RUN)


def list_folder(root: Path, what: str, kind: Files = IMAGES) -> Listing:
    """The samples in the sub-folders of ``root``; the first level is the label."""
    inside, others = Inside(root), Counter[str]()
    names: list[str] = []
    labels: list[str] = []
    links: dict[str, str] = {}  # the file that a link means -> its name
    ours: list[str] = []  # folders of runs
    empty, loose = [], []
    for entry in _visible(root):
        if not entry.is_dir():
            loose.append(entry.name)
            continue
        before, runs_before = len(names), len(ours)
        names += _walk(entry, entry.name, kind, inside, others, links, ours)
        labels += [shown(entry.name)] * (len(names) - before)
        if len(names) == before and len(ours) == runs_before:
            empty.append(shown(entry.name))
    if not names:
        count = sum(map(kind.wanted, loose))
        got = f"{count} {kind.noun} beside each other" if count else f"no {kind.noun} in sub-folders"
        raise InputError(
            f"{root} must hold a sub-folder of {kind.noun} per class; got {got}. Put each file into a folder with "
            f"the name of its label, or write a table with columns {kind.column} and label."
        )
    _refuse_twice(links, names, inside)
    notes = []
    if empty:
        notes.append(f"{_folders(empty)} of {root.name} without {kind.noun} left out: {', '.join(empty[:5])}")
    if ours:
        them = ", ".join(shown(name) for name in ours[:5])
        notes.append(f"{_folders(ours)} of {root.name} with runs of selc left out: {them}")
    if beside := [shown(name) for name in loose if kind.wanted(name)]:
        notes.append(f"{len(beside)} {kind.noun} of {root.name} in no class folder left out, first {beside[0]}")
    if others:
        kinds = ", ".join(f"{count} {kind}" for kind, count in others.most_common(3))
        notes.append(f"{others.total()} files of {root.name} that are no {kind.noun} by their names left out ({kinds})")
    items = [f"{root}/{name}" for name in names]
    return Listing(what, str(root), items, names, labels, lambda row: shown(names[row]), notes=notes)


def _folders(names: list[str]) -> str:
    return "1 folder" if len(names) == 1 else f"{len(names)} folders"


def _walk(
    entry: os.DirEntry[str],
    name: str,
    kind: Files,
    inside: Inside,
    others: Counter[str],
    links: dict[str, str],
    ours: list[str],
) -> Iterator[str]:
    """The samples below a class folder, as paths from the root with ``/`` between the parts; none of a run."""
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if not inside.holds(target):
            raise InputError(
                f"a path must stay inside {inside.root}; got the link {name!r}, which leaves it. "
                "Put the files themselves into the folder."
            )
        if entry.is_dir():
            raise InputError(f"each file must be in {inside.root} once; got {name!r}, a link to another folder in it.")
        links[target] = name
    if entry.is_dir():
        if _is_ours(entry):
            ours.append(name)
            return
        for inner in _visible(entry.path):
            yield from _walk(inner, f"{name}/{inner.name}", kind, inside, others, links, ours)
    elif kind.wanted(entry.name):
        yield name
    else:
        others[shown(os.path.splitext(entry.name)[1].lower()) or "without ending"] += 1


def _refuse_twice(links: dict[str, str], names: list[str], inside: Inside) -> None:
    if not links:
        return
    listed = set(names) - set(links.values())
    for target, name in links.items():
        other = os.path.relpath(target, inside.real).replace(os.sep, "/")
        if other in listed:
            raise InputError(f"each file must be listed once; got {name!r}, a link to {other!r}. Remove one of them.")
