"""Where the files of a published dataset are looked for, and what to say if they are not there."""

from __future__ import annotations

import os
from pathlib import Path

from selc.errors import InputError


def base_folder(root: str) -> Path:
    """The folder of all datasets: ``root``, else the variable SELC_DATA, else ``data`` here."""
    return Path(root or os.environ.get("SELC_DATA") or "data").expanduser()


def folders(root: str, name: str, *others: str) -> list[Path]:
    """Where the files of a dataset may lie, most likely first: in a folder of its name, or in the base itself."""
    base = base_folder(root)
    return [base / name, *(base / other for other in others), base]


def not_there(name: str, root: str, files: str, page: str) -> InputError:
    """The sentence for a dataset that is not there: what to get, from where, and where to put it."""
    return InputError(
        f"data {name!r} must lie in {base_folder(root) / name}; got no such files. Put {files} there, from {page}; "
        "another folder for all data is set by --data-root FOLDER or the variable SELC_DATA."
    )
