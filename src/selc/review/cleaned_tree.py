"""A folder of images or texts by its cleaned labels: links or copies in a new tree; the original is never touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from selc._io.files import sync, sync_folder, temporary_of
from selc._io.together import together, undo
from selc.data.image_cache.decode import shown
from selc.data.sources.image_folder import IMAGES, PARTS, TEXTS, list_folder
from selc.data.sources.recognise import check_outside
from selc.errors import InputError, RunFolderError
from selc.runs.cleaned import DROPPED, NAME, TABLES, Cleaned, new_tables, write_tables
from selc.runs.cleaned_source import Corrected, write_corrected
from selc.runs.door import origin_of
from selc.runs.folder import RunFolder

FOLDERS = {"folder": IMAGES, "texts": TEXTS}  # such data by name
TREE = "tree"  # beside the tables


class Tree(NamedTuple):
    """What was made."""

    path: Path
    linked: int
    copied: int


def left_unfinished(out: Path, more: Sequence[str] = ()) -> None:
    """Remove from ``out`` what a call that was killed had begun to write there."""
    undo(out, [TREE, *(f"{NAME}{ending}" for ending in TABLES), *more])


def write_cleaned(
    cleaned: Cleaned,
    run: RunFolder,
    out: Path,
    *,
    tree: bool,
    copy: bool = False,
    own: tuple[str, Corrected] | None = None,
) -> tuple[list[Path], Tree | None]:
    """Write the folder ``out``, all or nothing: the tables, and ``out/tree/CLASS/name`` for each sample that is left.

    The files of the tree are hard links, or copies where links cannot be. ``own`` is the user's own table, corrected,
    with its name.
    """
    tables, links = new_tables(out), []
    if tree:
        if (out / TREE).exists():
            raise RunFolderError(
                f"the tree must be new, so that nothing is lost; got {out / TREE}, which is there already."
            )
        root, names = originals(run)
        check_outside(out, origin_of(run).name, origin_of(run).options)
        targets = _targets(names, cleaned, run.classes)
        links = [(os.path.realpath(root / name), target) for name, target in zip(names, targets, strict=True) if target]
    more = [] if own is None else [own[0]]
    if own is not None and (out / own[0]).exists():
        raise RunFolderError(f"--out must be new, so that nothing is lost; got {out / own[0]}, which is there already.")
    with together(out, [path.name for path in tables] + [TREE] * tree + more):
        written = _write_tree(links, out / TREE, copy) if tree else None
        write_tables(cleaned, run, out)
        if own is not None:
            write_corrected(own[1], out / own[0])
    return tables, written


def _write_tree(links: Sequence[tuple[str, str]], place: Path, copy: bool) -> Tree:
    half = temporary_of(place)
    made = {True: 0, False: 0}
    try:
        half.mkdir()
        for source, target in links:
            (half / target).parent.mkdir(parents=True, exist_ok=True)
            made[_place(source, half / target, copy)] += 1
        for folder, _, _ in os.walk(half):
            sync_folder(Path(folder))
        os.replace(half, place)
        sync_folder(place.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(f"{place} must be writable and the files readable; got: {reason}.") from None
    return Tree(place, made[True], made[False])


def originals(run: RunFolder) -> tuple[Path, list[str]]:
    """The folder of the training samples, and the file of each in it.

    Ids are file names that were made printable, so the files are found by listing the folder again.
    """
    data = origin_of(run)
    top, kind = Path(data.options["path"]), FOLDERS[data.name]
    try:
        parts = [p for p in sorted(top.iterdir()) if PARTS.get(p.name.lower()) == "train" and p.is_dir()]
    except OSError as error:
        raise InputError(f"{top} must still hold the data of the run; got: {error.strerror}.") from None
    wanted = run.ids
    for root in (top, *parts):
        try:
            files = {shown(name): name for name in list_folder(root, "the data", kind).names}
        except InputError:
            continue
        if all(sample in files for sample in wanted):
            return root, [files[sample] for sample in wanted]
    raise InputError(f"{top} must still hold every file of the run; got a folder without some. Put them back.")


def _targets(names: Sequence[str], cleaned: Cleaned, classes: Sequence[str]) -> list[str | None]:
    """Where each file goes: what keeps its class keeps its name, what comes in and meets its like is renamed."""
    folder = {shown(name.split("/", 1)[0]): name.split("/", 1)[0] for name in names}  # the class as it is on the disk
    for name in classes:
        if name not in folder and (name in ("", ".", "..") or any(letter in name for letter in "/\\\0")):
            raise InputError(f"the name of a class must be that of a folder; got {name!r}, which leads elsewhere.")
    labels = [folder.get(classes[label], classes[label]) for label in cleaned.labels.tolist()]
    left = [source != DROPPED for source in cleaned.source.tolist()]
    result: list[str | None] = [None] * len(names)
    taken: set[str] = set()
    moved = []
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if left[row] and name.split("/", 1)[0] == label:
            result[row] = name
            taken.add(name.casefold())  # some disks do not tell upper from lower case
        elif left[row]:
            moved.append(row)
    for row in moved:
        before, rest = names[row].split("/", 1)
        stem, ending = os.path.splitext(rest)
        target, number = f"{labels[row]}/{rest}", 1
        while target.casefold() in taken:
            more = "" if number == 1 else f"-{number}"
            target, number = f"{labels[row]}/{stem}.from-{before}{more}{ending}", number + 1
        taken.add(target.casefold())
        result[row] = target
    return result


def _place(source: str, target: Path, copy: bool) -> bool:
    """Whether a link could be made; otherwise the file was copied."""
    if not copy:
        try:
            os.link(source, target)
            return True
        except OSError:
            pass  # another disk, or one without links
    shutil.copy2(source, target)
    sync(target)
    return False
