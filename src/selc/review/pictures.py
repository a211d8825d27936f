"""What a sample looks like: a small picture, its texts, or its most telling cells."""

from __future__ import annotations

import base64
import io
import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from selc.data import Bundle, ImageInputs
from selc.report.cells import cells_at, written
from selc.report.style import abridged
from selc.runs.folder import RunFolder

LARGE, SMALL = 224, 72  # pixels a side, at most: of a sample under review, of a look-alike
LOSSLESS = 48  # up to that side a PNG is small enough, and no pixel is smeared
LETTERS, FEW_LETTERS = 4_000, 400  # of a free text, at most: of a sample under review, of a look-alike
CELLS = 12  # of a row of features that are shown
BATCH = 256


def shows_images(bundle: Bundle) -> bool:
    """Whether there are pictures: of the items, or the inputs are such (1 or 3 channels of at least 4 x 4 pixels)."""
    if bundle.pictures is not None:
        return True
    shape = bundle.shape
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= 4


def thumbnails(bundle: Bundle, rows: Sequence[int], largest: int) -> list[str]:
    """A picture of each row, as a data URL."""
    result: list[str] = []
    if bundle.pictures is not None:
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            result += [_url(image, largest) for image in bundle.pictures(some, largest)]
        return result
    batches = torch.tensor(rows, dtype=torch.long).split(BATCH) if rows else ()
    if isinstance(bundle.inputs, ImageInputs):
        for pixels in bundle.inputs.pixels.stream(batches):
            result += [_url(image, largest) for image in pixels.cpu()]
        return result
    stream = list(bundle.inputs.stream(batches, None))
    if not stream:
        return result
    low, high = min(float(x.min()) for x in stream), max(float(x.max()) for x in stream)
    for x in stream:
        grey = (x.float() - low) / max(high - low, 1e-12) * 255
        result += [_url(image, largest) for image in grey.round().to(torch.uint8).cpu()]
    return result


def file_links(run: RunFolder, rows: Sequence[int], page: Path) -> dict[str, str]:
    """Where the files of images lie, by row, as seen from the page; empty if the data are no folder of images."""
    root = run.config.data.options.get("path")
    if run.config.data.name != "folder" or not root:
        return {}
    ids, start = run.ids, os.path.relpath(os.path.realpath(root), os.path.realpath(page.parent))
    places = {row: os.path.join(root, ids[row]) for row in rows}
    return {
        str(row): urllib.parse.quote(os.path.join(start, ids[row]).replace(os.sep, "/"), errors="surrogateescape")
        for row, place in places.items()
        if os.path.isfile(place)
    }


def cells(bundle: Bundle, groups: Sequence[Sequence[int]]) -> list[list[list[tuple[str, str]]]]:
    """Names and values of the rows of each group: categories, and numbers in the order of the table.

    Of more numbers than fit those are shown that are farthest from the mean in the first row of the group; the others
    show the same ones, so that they can be compared.
    """
    rows = sorted({row for group in groups for row in group})
    if not rows:
        return [[] for _ in groups]
    found, place = cells_at(bundle, rows), {row: k for k, row in enumerate(rows)}
    texts = dict(list(found.texts.items())[:CELLS])
    left = min(CELLS - len(texts), len(found.names))

    def shown(row: int, picked: Sequence[int]) -> list[tuple[str, str]]:
        numbers = [(found.names[k], written(found.numbers[place[row], k])) for k in picked]
        return [(name, column[place[row]]) for name, column in texts.items()] + numbers

    result = []
    for group in groups:
        picked = sorted(found.unusual[place[group[0]]].topk(left).indices.tolist())  # scaled: a large one is unusual
        result.append([shown(row, picked) for row in group])
    return result


def free_texts(bundle: Bundle, rows: Sequence[int], letters: int) -> list[list[tuple[str, str]]]:
    """The columns of free text of each row, with their names."""
    found = cells_at(bundle, rows).free if rows else {}
    return [[(name, abridged(column[k].strip(), letters)) for name, column in found.items()] for k in range(len(rows))]


def _url(image: Tensor, largest: int) -> str:
    from PIL import Image

    if max(image.shape[1:]) > largest:
        scale = largest / max(image.shape[1:])
        size = [max(1, round(side * scale)) for side in image.shape[1:]]
        smaller = F.interpolate(image[None].float(), size, mode="bilinear", antialias=True, align_corners=False)
        image = smaller[0].round().clamp(0, 255).to(torch.uint8)
    array = image.permute(1, 2, 0).contiguous().numpy()
    picture = Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    buffer = io.BytesIO()
    kind = "png" if max(picture.size) <= LOSSLESS else "jpeg"
    picture.save(buffer, kind, **({"optimize": True} if kind == "png" else {"quality": 82}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
