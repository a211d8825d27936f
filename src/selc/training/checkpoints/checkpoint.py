"""The state of a stage on disk: safetensors files, and a manifest that makes them count.

The files are written first, under names of their own; the manifest that names them with their checksums is put in
place last and in one step. Whatever happens in between, the manifest names whole files. The two newest checkpoints are
kept. All of it happens in the background, on copies, while the training goes on. Nothing is unpickled.

One process writes one file. Of several, the first writes what is the same in all of them, and each writes the rows of
the tables that it holds, one file per shard; the first puts the manifest in place when it has seen them all. Any number
of processes reads either: a table takes its own rows from wherever they are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from selc._io.files import read_json, read_tensors, sweep, sync_folder, write_tensors
from selc.errors import RunFolderError
from selc.memory.store import Store
from selc.training.checkpoints.background import Background
from selc.training.checkpoints.manifest import (
    BEFORE,
    FORMAT,
    NEWEST,
    DamagedError,
    broken_file,
    read_manifest,
    write_manifest,
)
from selc.training.checkpoints.packing import unpack
from selc.training.checkpoints.slips import Slips
from selc.training.checkpoints.table_rows import copied, each_once, fill, parted, rows_of
from selc.world import current

Part = tuple[str, Callable[[], dict[str, Tensor]]]  # a file of a checkpoint, and what goes into it


class Checkpoint:
    """The saved state of one stage. ``fingerprint`` says which configuration and labels it belongs to.

    As a context it waits at its end for what is still being written.
    """

    def __init__(self, folder: Path, fingerprint: str, notice: Callable[[str], None] | None = None) -> None:
        self.folder, self.fingerprint, self.notice = folder, fingerprint, notice or (lambda sentence: None)
        self.newest, self.before = folder / NEWEST, folder / BEFORE
        self._world = current()
        self._opened = False
        self._kept: list[dict[str, Any]] = []  # the manifests on disk, the newest first
        self._background, self._slips = Background(), Slips(folder)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slips.leaving = kind is not None
        self.wait()

    def wait(self) -> None:
        """Wait for what is being written; an error that it met is raised here."""
        self._background.wait()

    def save(
        self,
        name: str,
        tensors: Mapping[str, Tensor],
        state: Mapping[str, Any],
        tables: Mapping[str, Store] | None = None,
        shard: Tensor | None = None,
        *,
        background: bool = True,
    ) -> None:
        """Save under a name of its own; every process calls it.

        ``tensors`` are the same in every process and are not changed later (`pack` makes copies). Rows of ``tables``
        are copied here, so the memory holds them twice until they are written; a table on disk is not copied but
        written at once, in the foreground. ``shard`` [N] says to which file a row goes if there are several processes.
        A table that has two names is written once.
        """
        self.wait()
        tables, same = each_once(tables or {})
        manifest = {"format": FORMAT, "fingerprint": self.fingerprint, **json.loads(json.dumps(state))}
        if same:
            manifest["same"] = same
        parts, awaited = self._parts(name, dict(tensors), tables, shard)
        if background and all(getattr(table, "form", "dense") != "disk" for table in tables.values()):
            copies = [(file, copied(content())) for file, content in parts]
            parts = [(file, lambda content=content: content) for file, content in copies]  # type: ignore[misc]
            self._background.start(lambda: self._write(parts, awaited, manifest))
        else:
            self._write(parts, awaited, manifest)

    def open(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint whose files are whole, None if there is none; every process calls it.

        If the newest is damaged, the one before it takes its place, and a notice says so.
        """
        world, problems, chosen = self._world, [], None
        for path in (self.newest, self.before):
            found = world.broadcast(self._read(path) if world.leads else None)
            if found["refused"]:
                raise RunFolderError(found["refused"])
            problem = found["damaged"]
            if found["manifest"] is not None:
                problem = self._broken(found["manifest"])
                if not problem:
                    chosen = found["manifest"]
                    break
            if problem:
                problems.append(problem)
        if chosen is None and problems:
            raise RunFolderError(
                f"{problems[0]} There is no whole checkpoint before it to go back to. "
                "Bring the file back from a copy, or start a new run with another --out."
            )
        self._kept = [chosen] if chosen is not None else []
        if world.leads:
            if problems and chosen is not None:
                self.notice(f"{problems[0]} Going on from the checkpoint before it; the result is the same.")
                write_manifest(self.newest, chosen)
            elif chosen is not None:
                with suppress(RunFolderError):
                    self._kept += [older] if (older := read_manifest(self.before, self.fingerprint)) else []
            self._clean()
        self._slips.session = world.broadcast(uuid.uuid4().hex)
        self._opened = True
        return chosen

    def load(self, tables: Mapping[str, Store] | None = None) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last saved tensors and state, or None if nothing was saved yet; ``tables`` get the rows that they hold.

        Every process calls it, in whatever number of them the checkpoint was written.
        """
        if not self._opened:
            self.open()
        if not self._kept:
            return None
        state = self._kept[0]
        same = state.get("same", {})  # names of tables that were written under another one
        tensors: dict[str, Tensor] = {}
        filled = dict.fromkeys(tables or {}, 0)
        for file in state["files"]:
            others, rows = parted(read_tensors(self.folder / file))
            tensors |= others
            for name, table in (tables or {}).items():
                filled[name] += fill(table, rows.get("index"), unpack(same.get(name, name), rows))
        for name, table in (tables or {}).items():
            expected = len(table) if table.owned is None else len(table.owned)
            if filled[name] != expected:
                raise RunFolderError(
                    f"{self.newest} must name files with the {expected} rows of the table {name!r}; "
                    f"got {filled[name]}. It belongs to other data, or to another version of selc."
                )
        return tensors, state

    def _parts(
        self, name: str, tensors: dict[str, Tensor], tables: Mapping[str, Store], shard: Tensor | None
    ) -> tuple[list[Part], list[str]]:
        """The files that this process writes, and the names of those that the others do."""
        world = self._world
        whole = f"{name}.safetensors"
        if world.size == 1:
            return [(whole, lambda: tensors | rows_of(tables))], []
        assert shard is not None
        parts: list[Part] = [(whole, lambda: tensors)] if world.leads else []
        awaited = []
        for number in range(int(shard.max()) + 1 if tables else 0):
            file = f"{name}.shard-{number}.safetensors"
            if number % world.size == world.rank:
                rows = (shard == number).nonzero().flatten().cpu()
                parts.append((file, lambda rows=rows: rows_of(tables, rows)))  # type: ignore[misc]
            else:
                awaited.append(file)
        return parts, awaited

    def _write(self, parts: list[Part], awaited: list[str], manifest: dict[str, Any]) -> None:
        leads = self._world.leads
        files = {}
        for file, content in parts:
            files[file] = write_tensors(self.folder / file, content())._asdict()
            if not leads:
                self._slips.leave(file, files[file])
        if not leads:
            return
        files |= self._slips.collect(awaited)
        if self._kept:
            write_manifest(self.before, self._kept[0])
        write_manifest(self.newest, {**manifest, "files": files})
        kept = [{**manifest, "files": files}, *self._kept[:1]]
        for old in {file for older in self._kept for file in older["files"]} - {f for m in kept for f in m["files"]}:
            (self.folder / old).unlink(missing_ok=True)
        self._slips.remove(awaited)
        self._kept = kept

    def _read(self, path: Path) -> dict[str, Any]:
        """What is at ``path``, in a form that can be sent: a process must not fail alone."""
        found: dict[str, Any] = {"manifest": None, "damaged": "", "refused": ""}
        try:
            found["manifest"] = read_manifest(path, self.fingerprint)
        except DamagedError as error:
            found["damaged"] = str(error)
        except RunFolderError as error:
            found["refused"] = str(error)
        return found

    def _broken(self, manifest: dict[str, Any]) -> str:
        """A sentence about a file that is not as it was saved; each process looks at a part of them."""
        world = self._world
        ours = list(manifest["files"].items())[world.rank :: world.size]
        sentence = torch.tensor(list(broken_file(self.folder, ours).encode()), dtype=torch.uint8)
        return next((bytes(s.tolist()).decode() for s in world.gather(sentence) if len(s)), "")

    def _clean(self) -> None:
        """Remove what a kill left behind: temporary files, and those that no manifest names."""
        sweep(self.folder)
        named = {file for manifest in self._kept for file in manifest["files"]}
        for pattern in ("*.safetensors", "*.safetensors.json"):
            for path in self.folder.glob(pattern):
                if path.name not in named:
                    with suppress(OSError):  # a folder that cannot be written is told when something is to be
                        path.unlink()


def drop_older(folder: Path) -> None:
    """Keep only the newest checkpoint of a stage: the run is finished."""
    newest = folder / NEWEST
    if not newest.exists():
        return
    named = read_json(newest).get("files", {})
    (folder / BEFORE).unlink(missing_ok=True)
    for path in folder.glob("*.safetensors"):
        if path.name not in named:
            path.unlink(missing_ok=True)
    sync_folder(folder)  # what is removed stays so, whatever happens once the run counts as finished
