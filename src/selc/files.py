"""Files that are written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selc.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from torch import Tensor


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    If anything fails, what stood at ``path`` before still stands there.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a kill left behind is written over
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(
            f"{path} must be writable; got: {reason}. What was saved before is intact; "
            "free some space or fix the permissions, then repeat (a training goes on with `selc resume`)."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    write_whole(path, lambda p: _write_bytes(p, data))


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    from safetensors.torch import save

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # Not save_file: it writes to a temporary file of its own, which a kill leaves behind under a random name.
    write_whole(path, lambda p: _write_bytes(p, save(contiguous)))


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{path} must be a whole safetensors file; got one that does not read: {error}.") from None


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} must be a readable JSON file; got: {error}.") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} must be a readable TOML file; got: {error}.") from None


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
