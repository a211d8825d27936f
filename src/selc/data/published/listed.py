"""Published sets whose images lie in files of their own: ANIMAL-10N, Clothing1M, WebVision."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from selc._io.files import in_short
from selc.data.base import Bundle
from selc.data.image_cache.decode import files_digest
from selc.data.inputs.augment import View
from selc.data.preprocess.imagery import Images, Reading
from selc.data.preprocess.preprocessor import Made, Preprocessor
from selc.data.published.archives import Array
from selc.data.published.shared import size_notes, some_rows
from selc.data.sources.bundling import bundle_of
from selc.data.sources.listing import Listing
from selc.errors import InputError

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation of its channels


class ImageFiles(NamedTuple):
    """Images by the names of their files in a folder, with their labels."""

    folder: Path
    names: Sequence[str]
    labels: Array


class Middle(View):
    """The middle of each image in training too, as it is."""

    def train(self, pixels: Tensor, draws: Tensor) -> Tensor:
        return self.test(pixels)


def image_bundle(
    name: str,
    train: ImageFiles,
    others: Mapping[str, ImageFiles],
    *,
    classes: tuple[str, ...],
    stored: tuple[int, int],
    view: View,
    augment: bool,
    rows: int,
    reading: Reading,
) -> Bundle:
    """The dataset with all its parts; images are kept in the size ``stored`` and seen through ``view``."""
    picked = some_rows(len(train.names), rows, name)
    if picked is not None:
        chosen = picked.tolist()
        train = ImageFiles(train.folder, [train.names[row] for row in chosen], train.labels[chosen])
    if not augment:
        view = Middle(view.size, view.mean, view.std)
    how = Images(view, 3, stored, "shorter", reading, published=True)
    # All parts are listed before any is read: what is missing should show before a million images were decoded.
    sets = {part: _listing(name, part, files, classes) for part, files in {"train": train, **others}.items()}
    made: list[Made] = []

    def learn(listing: Listing) -> tuple[Preprocessor, Made]:
        made.append(how.rows(listing))
        return how, made[0]

    found = bundle_of(sets.pop("train"), sets, learn, skip_bad=reading.skip_bad)
    sizes = (
        [] if picked is not None else size_notes(name, len(found.labels), len(next(iter(found.tests.values())).labels))
    )
    # What a run checks its data by is of the training images alone, as it was in 0.1.0.
    return replace(found, notes=[*found.notes, *sizes], recipe=None, digest=made[0].digest)


def _listing(name: str, part: str, files: ImageFiles, classes: tuple[str, ...]) -> Listing:
    """The images of a part, all of which have a label."""
    if outside := next((n for n in files.names if os.path.isabs(n) or ".." in n.replace("\\", "/").split("/")), None):
        raise InputError(f"the {part} list of data {name!r} must name files in {files.folder}; got {outside!r}.")
    paths = [files.folder / file for file in files.names]
    if not paths[0].is_file() and not paths[-1].is_file():
        raise InputError(
            f"the images of data {name!r} must lie in {files.folder}; got none there of the {part} list, "
            f"whose first is {files.names[0]}. Unpack them into that folder."
        )
    called = [f"{name}: {file}" for file in files.names]
    return Listing(
        part,
        f"{name} {part} {files.folder.resolve()} {len(paths)}",
        paths,
        list(files.names),
        [classes[label] for label in files.labels.tolist()],
        called.__getitem__,
        digest=files_digest(paths, called),
        classes=classes,
    )


def lines(path: Path) -> list[str]:
    """The lines of a list that are not empty, or an error that names it."""
    try:
        return [line for line in map(str.strip, path.read_text(encoding="utf-8").splitlines()) if line]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} must be a readable list, as it comes with the dataset; got: {in_short(error)}."
        ) from None
