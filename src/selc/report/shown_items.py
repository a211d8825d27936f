"""What a person sees of samples that are a user's own objects: pictures, texts, or cells with names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from selc._io.paths import is_image
from selc.data.image_cache.worker import readable_formats
from selc.errors import InputError
from selc.report.gallery import thumbnail
from selc.report.style import abridged

CELLS = 12  # of a sample
LETTERS = 4_000  # of a text
TEXT = "text"  # the name of a text that has none


class View(NamedTuple):
    """A picture as a data URI, or cells with their names; free text is a cell, too."""

    picture: str = ""
    cells: tuple[tuple[str, str], ...] = ()


def check_items(items: Any, count: int) -> None:
    """Refuse items that are not one for each label."""
    if not hasattr(items, "__len__") or not hasattr(items, "__getitem__"):
        raise InputError(
            f"items must give each sample by its number: an array, a list of paths or texts, a dataset, a DataFrame; "
            f"got {type(items).__name__}."
        )
    if len(items) != count:
        raise InputError(f"items must be one for each of the {count} labels, in their order; got {len(items)}.")


def views(items: Any, rows: Sequence[int]) -> list[View]:
    """What there is to see of some rows. Of a pair, as datasets give them, the first part counts."""
    if items is None:
        return [View() for _ in rows]
    at = items.iloc if hasattr(items, "iloc") else items  # of a DataFrame, rows and not columns
    return [_view(at[row], row) for row in rows]


def _view(item: Any, row: int) -> View:
    if isinstance(item, tuple | list) and item:
        item = item[0]
    if hasattr(item, "to_dict"):
        item = item.to_dict()
    if isinstance(item, Mapping):
        shown = next((value for value in item.values() if _is_picture(value)), None)
        if shown is not None:
            return _view(shown, row)
        cells = [(str(name), abridged(str(value), LETTERS)) for name, value in item.items()]
        return View(cells=tuple(cells[:CELLS]))
    if isinstance(item, os.PathLike) or (isinstance(item, str) and is_image(item)):
        return View(_of_file(Path(item), row))
    if _is_picture(item):
        return View(_of_pil(item))
    if isinstance(item, Tensor | np.ndarray | np.generic):
        return _of_array(torch.as_tensor(item), row)
    return View(cells=((TEXT, abridged(str(item), LETTERS)),))


def _is_picture(value: Any) -> bool:
    """Whether it is an image of Pillow, told by its verbs."""
    return hasattr(value, "convert") and hasattr(value, "getbands")


def _of_pil(image: Any) -> str:
    return thumbnail(torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1))


def _of_file(path: Path, row: int) -> str:
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=readable_formats()) as image:
            return _of_pil(ImageOps.exif_transpose(image))
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"items must be images that can be read; got {path} in row {row}: {error}.") from None


def _of_array(values: Tensor, row: int) -> View:
    if values.dim() < 2:
        return View(cells=tuple((str(k), f"{value:.4g}") for k, value in enumerate(values.flatten().tolist()[:CELLS])))
    image = values[None] if values.dim() == 2 else values
    if image.dim() == 3 and image.shape[0] not in (1, 3) and image.shape[2] in (1, 3, 4):
        image = image.permute(2, 0, 1)[:3]
    if image.dim() != 3 or image.shape[0] not in (1, 3):
        raise InputError(
            f"an array of items must be an image [H, W], [C, H, W] or [H, W, C] with one or three channels, or a row "
            f"of numbers; got {list(values.shape)} in row {row}."
        )
    if image.dtype != torch.uint8:  # of any range, so from its darkest to its brightest
        image = image.double()
        low, high = float(image.min()), float(image.max())
        image = ((image - low) * (255 / max(high - low, 1e-12))).round().clamp(0, 255).byte()
    return View(thumbnail(image.cpu()))
