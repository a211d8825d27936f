"""How the first process learns which files the others have written: beside each lies a slip with its checksum.

No message is sent, as the files are written in the background, where none may be.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from selc._io.files import read_json, write_json
from selc.errors import RunFolderError

PATIENCE = 600.0  # seconds to wait for the files of the other processes
LEAVING = 3.0  # the same while this process is on its way out


class Slips:
    """The slips in a folder. ``session`` tells those of this process group from what a kill left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.session, self.leaving = folder, "", False

    def leave(self, file: str, about: Mapping[str, Any]) -> None:
        """Say of a file that it is written."""
        write_json(self._slip(file), {**about, "session": self.session})

    def collect(self, awaited: list[str]) -> dict[str, Any]:
        """What the other processes say of the files that they wrote."""
        began = time.monotonic()
        files: dict[str, Any] = {}
        while left := [file for file in awaited if file not in files]:
            for file in left:
                slip = read_json(self._slip(file)) if self._slip(file).exists() else {}
                if slip.get("session") == self.session:
                    files[file] = {"bytes": slip["bytes"], "sha256": slip["sha256"]}
            if time.monotonic() - began > (LEAVING if self.leaving else PATIENCE):
                raise RunFolderError(
                    f"{self.folder} must get the files of every process; {left[0]} did not come in "
                    f"{time.monotonic() - began:.0f} seconds. The folder must be on a disk that all processes share; "
                    "if it is, another process has stopped. What was saved before is intact."
                )
            time.sleep(0.01)
        return files

    def remove(self, files: Iterable[str]) -> None:
        for file in files:
            self._slip(file).unlink(missing_ok=True)

    def _slip(self, file: str) -> Path:
        return self.folder / f"{file}.json"
