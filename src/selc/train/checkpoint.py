"""The state of a stage on disk: one safetensors file, and a manifest that makes it count.

The tensors are written first, under a name of their own; the manifest that names them and holds their checksum is put
in place last and in one step. Whatever happens in between, the manifest names a whole file. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selc.errors import RunFolderError
from selc.files import read_json, read_tensors, sha256, write_json, write_tensors

FORMAT = 1


class Checkpoint:
    """The saved state of one stage. ``fingerprint`` says which configuration and labels it belongs to."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self.manifest = folder / "manifest.json"

    def save(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        path = self.folder / f"{name}.safetensors"
        write_tensors(path, tensors)
        entry = {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
        write_json(self.manifest, {"format": FORMAT, "fingerprint": self.fingerprint, **entry, **state})
        for old in self.folder.glob("*.safetensors"):
            if old != path:
                old.unlink()

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The last saved tensors and state, or None if nothing was saved yet."""
        if not self.manifest.exists():
            return None
        state = read_json(self.manifest)
        if state.get("format") != FORMAT:
            raise RunFolderError(
                f"{self.manifest} must have format {FORMAT}; got {state.get('format')!r}. "
                "It was written by another version of selc."
            )
        if state["fingerprint"] != self.fingerprint:
            raise RunFolderError(
                f"{self.manifest} must belong to this configuration and these labels; got another fingerprint. "
                "Undo the change to config.toml or the data, or start a new run with another --out."
            )
        path = self.folder / state["file"]
        size = path.stat().st_size if path.exists() else 0
        if size != state["bytes"] or sha256(path) != state["sha256"]:
            raise RunFolderError(
                f"{path} must be the {state['bytes']} bytes that were saved; got {size} bytes or other content. "
                "Bring the file back from a copy, or start a new run with another --out."
            )
        return read_tensors(path), state


def pack(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """The state of a module under a prefix; clones, because tied weights cannot share memory in a file."""
    return {f"{prefix}/{k}": v.detach().clone() for k, v in module.state_dict().items()}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(f"{prefix}/"): v for k, v in tensors.items() if k.startswith(f"{prefix}/")}


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the plain values of an optimizer's state. Its settings follow from the plan."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    for number, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            name = f"optimizer/{number}/{key}"
            if isinstance(value, Tensor):
                tensors[name] = value.clone()
            else:
                values[name] = value
    return tensors, values


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], values: Mapping[str, Any]
) -> None:
    state: dict[int, dict[str, Any]] = {}
    for name, value in {**unpack("optimizer", tensors), **unpack("optimizer", values)}.items():
        number, key = name.split("/", 1)
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
