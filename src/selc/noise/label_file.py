"""Labels from a file, and drawn labels in one: with a hash, so that a run can be repeated on another machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Generator, Tensor

from selc._io.files import write_json, write_text, write_whole
from selc.errors import ConfigError, InputError
from selc.noise.base import NOISES, Noise, label_digest, measured
from selc.noise.formats import ABOUT, read_integers

ENDINGS = (".npz", ".npy", ".csv", ".json")  # that are written; .pt is only read


@NOISES.register("file")
def from_file(
    labels: Tensor, num_classes: int, rng: Generator, *, path: str = "", column: str = "", key: str = ""
) -> Noise:
    """Labels from a file: .npy, .npz, CSV, JSON, or CIFAR-N's .pt, which is read without running it.

    ``column`` is the name (or the number, from 0) of a column of a CSV, ``key`` the name of an array in the others;
    they may be left out where there is only one, or one of a usual name. Labels that selc wrote must match their
    hash, and that of the labels on which they were drawn.
    """
    labels = labels.long()
    if not path:
        raise ConfigError("noise 'file' needs the path of a file of labels; got none. Set noise.path=FILE.")
    source = Path(path).expanduser()
    given, about = read_labels(source, column=column, key=key)
    if len(given) != len(labels):
        raise InputError(f"{source} must hold a label for each of the {len(labels)} samples; got {len(given)}.")
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= num_classes:
        raise InputError(f"{source} must hold labels in 0..{num_classes - 1}; got values from {low} to {high}.")
    if about.get("true_sha256", label_digest(labels)) != label_digest(labels):
        raise InputError(
            f"{source} must have been drawn on these data; got labels for others ({about.get('data', 'unknown')}), "
            "or for the same in another order."
        )
    return measured(labels, given, num_classes)


def read_labels(path: Path, *, column: str = "", key: str = "") -> tuple[Tensor, dict[str, Any]]:
    """Integer labels from a file and what is known about them; if that includes a hash, they match it."""
    labels, about = read_integers(path, column=column, key=key)
    about = about or _beside(path)
    # A name that the user gave may be that of other labels in the file, such as the true ones.
    if not (column or key) and about.get("sha256", label_digest(labels)) != label_digest(labels):
        raise InputError(
            f"{path} must hold the labels that its hash was made of; got others. It was changed or damaged: "
            "make it again, or remove the hash if the change was meant."
        )
    return labels, about


def check_ending(path: Path) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"a file of labels must end in {', '.join(ENDINGS)}; got {path.name!r}.")


def write_labels(path: Path, noise: Noise, true: Tensor, about: Mapping[str, Any]) -> None:
    """Write drawn labels with what is known about them: inside an .npz or .json, else in a JSON beside the file."""
    check_ending(path)
    kind = path.suffix.lower()
    known = {
        **about,
        "samples": len(true),
        "classes": len(noise.matrix),
        "rate": noise.rate,
        "sha256": noise.digest,
        "true_sha256": label_digest(true),
        "facts": dict(noise.facts),
        "transition_matrix": noise.matrix.tolist(),
    }
    labels = noise.labels.cpu()
    if kind == ".json":
        write_json(path, {**known, "labels": labels.tolist()})
        return
    if kind == ".npz":
        arrays: dict[str, Any] = {
            "labels": labels.numpy(),
            "true": true.cpu().numpy(),
            ABOUT: np.array(json.dumps(known)),
        }
        write_whole(path, lambda p: _save(p, lambda file: np.savez_compressed(file, **arrays)))
        return
    if kind == ".npy":
        write_whole(path, lambda p: _save(p, lambda file: np.save(file, labels.numpy(), allow_pickle=False)))
    else:
        rows = "".join(f"{row},{label}\n" for row, label in enumerate(labels.tolist()))
        write_text(path, "row,label\n" + rows)
    write_json(beside(path), known)


def files_of(path: Path) -> list[Path]:
    """The files that `write_labels` makes."""
    return [path] if path.suffix.lower() in (".npz", ".json") else [path, beside(path)]


def beside(path: Path) -> Path:
    """The JSON that belongs to a file of labels."""
    return path.with_name(path.name + ".json")


def _save(path: Path, save: Callable[[IO[bytes]], None]) -> None:
    with open(path, "wb") as file:  # by handle: by name, numpy would add an ending
        save(file)


def _beside(path: Path) -> dict[str, Any]:
    """What a JSON beside the file says about its labels: our own, or the noise.json of a run folder."""
    of_run = path.with_name("noise.json") if path.name == "given_labels.npz" else path.with_suffix(".json")
    for candidate in (beside(path), of_run):
        try:
            about = json.loads(candidate.read_text())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(about, dict) and "sha256" in about:
            return about
    return {}
