"""What a file of features remembers of the images that it was made from: where they are, and by which encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from selc.data.base import DATASETS, Bundle
from selc.data.sources.originals import Pictures, stored_pictures
from selc.errors import InputError
from selc.registry import is_name

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Remembered:
    """The encoding of a file, unread: what it says goes to the run folder, and from there to new data."""

    encoding: Mapping[str, Any]
    data: Mapping[str, Any]
    whitening: Mapping[str, Array]

    def apply(self, items: Any, /) -> np.ndarray[Any, np.dtype[np.float64]]:
        raise InputError("a file of features must be asked for rows through its encoder; got items themselves.")

    def state(self) -> dict[str, Any]:
        return {**self.encoding, "data": dict(self.data)}

    def arrays(self) -> dict[str, Array]:
        return dict(self.whitening)

    def pictures(self, ids: Sequence[str]) -> Pictures | None:
        """The pictures of the samples, from where they were when the file was made; read when they are asked for."""
        return _Later(self.data, ids) if self.data else None


class _Later:
    def __init__(self, data: Mapping[str, Any], ids: Sequence[str]) -> None:
        self.data, self.ids = data, ids
        self.found: Bundle | None = None

    def __call__(self, rows: Sequence[int], largest: int) -> list[Tensor]:
        found = self._source()
        names = map(str, found.ids if found.ids is not None else range(len(found.labels)))
        place = {name: row for row, name in enumerate(names)}
        lost = next((self.ids[row] for row in rows if self.ids[row] not in place), None)
        pictures = found.pictures or stored_pictures(found.inputs)
        if lost is not None or pictures is None:
            what = f"no {lost!r}" if lost is not None else "no images"
            raise InputError(f"{self.data.get('path', self.data['name'])} must still hold the samples; got {what}.")
        return list(pictures([place[self.ids[row]] for row in rows], largest))

    def _source(self) -> Bundle:
        if self.found is None:
            options = {key: value for key, value in self.data.items() if key not in ("name", "test", "val")}
            name = str(self.data["name"])
            self.found = DATASETS[name](**DATASETS.checked(name, options))
        return self.found


def remembered(meta: Any, arrays: Mapping[str, Array]) -> Remembered | None:
    """What the file remembers; None if it is not from `selc embed`, or from an older one."""
    if not isinstance(meta, dict) or not isinstance(meta.get("encoding"), dict):
        return None
    data = meta.get("data")
    known = isinstance(data, dict) and is_name(str(data.get("name"))) and data["name"] in DATASETS
    whitening = {name: arrays[name] for name in ("pca_mean", "pca_components") if name in arrays}
    return Remembered(meta["encoding"], data if known and isinstance(data, dict) else {}, whitening)
