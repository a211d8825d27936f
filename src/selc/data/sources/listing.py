"""A source as it is read: samples with their labels and names, before anything was made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from selc.data.image_cache.cache import json_digest
from selc.data.image_cache.pool import File
from selc.data.preprocess.labels import Where
from selc.data.sources.originals import Pictures

Items = Sequence[File]


class Written(NamedTuple):
    """A column as it was written."""

    column: str
    cells: Sequence[str]


@dataclass(frozen=True)
class Listing:
    """Samples of one set; what is a row of ``items`` is for the preprocessor to know.

    ``items`` are files of images (or their bytes), columns of a table by name, an array [N, ...], or a dataset.
    """

    what: str  # as messages call it: "the data", "test"
    source: str  # where all of it comes from
    items: Any
    names: Sequence[str]
    labels: Sequence[str] | None  # None: nobody has labelled them
    where: Where
    digest: str = ""  # of bytes that are not in files
    notes: Sequence[str] = ()
    classes: tuple[str, ...] | None = None  # where the data brings them
    numbered: bool = False  # whether names are but the numbers of rows
    groups: Written | None = None  # which rows belong together
    time: Written | None = None  # when each row was taken
    pictures: Pictures | None = None  # of rows, for a person to look at
    texts: Callable[[Sequence[str], Sequence[int]], Mapping[str, Sequence[str]]] | None = None  # columns at rows
    besides: Sequence[str] = ()  # columns that are no features, and worth a look

    def chosen(self, rows: Sequence[int]) -> Listing:
        """Some of the samples."""
        place, where, texts, pictures = list(rows), self.where, self.texts, self.pictures

        def cells(written: Written | None) -> Written | None:
            return None if written is None else Written(written.column, [written.cells[row] for row in place])

        return replace(
            self,
            items=some(self.items, place),
            names=[self.names[row] for row in place],
            labels=None if self.labels is None else [self.labels[row] for row in place],
            where=lambda row: where(place[row]),
            digest=json_digest(self.digest, place) if self.digest else "",
            groups=cells(self.groups),
            time=cells(self.time),
            pictures=None if pictures is None else lambda rows, side: pictures([place[row] for row in rows], side),
            texts=None if texts is None else lambda names, rows: texts(names, [place[row] for row in rows]),
        )


def some(items: Any, rows: list[int]) -> Any:
    """Some of the items; files are read only when they are asked for."""
    if isinstance(items, Mapping):
        return {name: column[rows] for name, column in items.items()}
    return items[rows] if hasattr(items, "dtype") else Chosen(items, rows)


class Chosen(Sequence[File]):
    """Some of the items, read only when asked for."""

    def __init__(self, items: Items, rows: Sequence[int]) -> None:
        self.items, self.rows = items, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self.items[place] for place in self.rows[row]]
        return self.items[self.rows[row]]
