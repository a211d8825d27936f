"""New files and folders in one folder, all of them or none: a note there says what is being written."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from selc._io.files import read_json, sync_folder, temporary_of, write_json, writing

NOTE = ".unfinished.json"


@contextmanager
def together(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Within it these entries of ``folder``, which are not there yet, are written; if it fails none of them is left."""
    write_json(folder / NOTE, list(names))
    try:
        yield
    except BaseException:
        undo(folder, names)
        raise
    _forget(folder)


def undo(folder: Path, names: Iterable[str]) -> None:
    """Remove those of the entries ``names`` that were being written when a kill came."""
    note = folder / NOTE
    if not note.exists():
        return
    noted = {*read_json(note)}
    with writing(folder):
        for name in noted.intersection(names):
            for path in (folder / name, temporary_of(folder / name)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
        sync_folder(folder)  # they are gone before the note of them is
        _forget(folder)


def _forget(folder: Path) -> None:
    (folder / NOTE).unlink()
    sync_folder(folder)
