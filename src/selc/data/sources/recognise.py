"""A user's own data: what a path holds, and settings that suit it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from selc._io.near import near_by
from selc._io.paths import is_inside
from selc.data.base import Recipe
from selc.data.sources.base import ARRAYS, TABLES, endings_of, source_of
from selc.errors import InputError

SMALL_SET = 5_000  # images: below that a deep network mostly learns them by heart
SMALL_IMAGE = 64  # pixels a side
_PLAIN: Mapping[str, Any] = {"schedule": "constant", "weight_decay": 0.0}


def choice_for(path: str, **options: Any) -> dict[str, Any]:
    """The data of a configuration for a path, such as ``{"name": "folder", "path": ...}``; None is no option."""
    place = existing(path, "data")
    more = {key: value for key, value in options.items() if value is not None}
    more |= {key: str(existing(more[key], key)) for key in ("test", "val") if more.get(key)}
    found = source_of(place)
    if found is None and place.is_dir():
        files = sorted(p.name for p in place.iterdir() if p.suffix.lower() in endings_of(TABLES) + endings_of(ARRAYS))
        hint = f" Do you mean {place / files[0]}?" if files else ""
        raise InputError(f"data must be {accepted()}; got the folder {place}, which has no sub-folders.{hint}")
    if found is None:
        raise InputError(f"data must be {accepted()}; got the file {place}.")
    return {"name": found.data, "path": str(place), **more}


def accepted() -> str:
    """The forms that data may have."""
    tables, arrays = (" or ".join(endings_of(data)) for data in (TABLES, ARRAYS))
    return (
        f"a folder with a sub-folder of images or .txt files per class, a table ({tables}) with a label column, a file "
        f"({arrays}) with arrays x and y, or a folder that a Hugging Face dataset was saved to"
    )


def existing(path: str, option: str) -> Path:
    """The absolute path of what ``path`` names, or an error that names the option."""
    if not path:
        raise InputError(
            f"{option} must be the path of your data; got none. It may be {accepted()}. If it is called by a word that "
            "names a form of data, such as texts, say ./texts."
        )
    place = Path(os.path.abspath(Path(path).expanduser()))
    if not os.path.exists(place):  # unlike its namesake, it raises nothing
        flag = f"--{option}" if option in ("test", "val") else option
        raise InputError(
            f"{flag} must be a path that exists; got {path!r}: no such file or folder at {place}.{near_by(place)}"
        )
    return place


def no_such_data(data: str, datasets: Iterable[str]) -> InputError:
    """The error for what is neither a path nor a dataset by name. What lies beside it is nearer than a dataset."""
    beside = near_by(Path(os.path.abspath(data)))
    names = get_close_matches(data.lower(), datasets, n=1, cutoff=0.6)
    by_name = f" Did you mean the dataset {names[0]!r}?" if names and not beside else ""
    return InputError(
        f"data must be a file, a folder or a dataset by name; got {data!r}: no such file or folder.{beside}{by_name} "
        "The datasets by name: `selc list datasets`."
    )


def check_outside(out: Path, name: str, options: Mapping[str, Any]) -> None:
    """Refuse to write into a folder of images or texts: what lies there is data, and the original is left as it is."""
    for option in ("path", "test", "val") if name in ("folder", "texts") else ():
        if (root := options.get(option)) and is_inside(out, root):
            raise InputError(
                f"--out must not lie inside the data; got {out}, which is in {root}. Choose a folder outside of it, "
                f"such as --out {Path(root).parent / 'runs' / out.name}."
            )


def suits(rows: int, image_side: int | None = None) -> Recipe:
    """Settings for ``rows`` training samples: images of a side in pixels, or features if it is None.

    The number of steps is what counts: few rows see more epochs, in batches small enough that an epoch has about ten
    steps, and the learning rate falls with the batch (a mean over fewer rows is noisier).
    """
    batch = max(8, min(128, rows // 10))
    if image_side is None:
        # From 100 epochs at 200 rows to 20 at 50,000 and more.
        epochs = _between(20, 60 * math.sqrt(2_000 / max(rows, 1)), 100)
        return Recipe("mlp", {"epochs": epochs, "lr": _rate(batch), "batch_size": batch, **_PLAIN, "threads": 1})
    net = "cnn" if image_side <= SMALL_IMAGE and rows < SMALL_SET else "resnet18"
    # From 100 epochs at 2,000 images to 30 at 50,000 and more.
    epochs = _between(30, 100 * math.sqrt(2_000 / max(rows, 1)), 100)
    decay = {"schedule": "cosine", "weight_decay": 5e-4}  # usual for networks with batch norm
    return Recipe(net, {"epochs": epochs, "lr": _rate(batch), "batch_size": batch, **decay})


def _rate(batch: int) -> float:
    """The paper's 0.02 at a batch of 128, in two digits."""
    return float(f"{0.02 * batch / 128:.2g}")


def _between(low: int, value: float, high: int) -> int:
    return max(low, min(high, round(value)))
