"""Parquet files, read only after their sizes were added up: a few bytes of them can stand for any number of rows.

What a file says of its own sizes is not believed where that can be avoided: the head of each page is read, which is
what pyarrow goes by. See `selc._io.files` for the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from selc._io.files import FLOOR, in_short, unpacked_limit
from selc.errors import ConfigError, InputError

CELL = 8  # bytes of a number once it is read
_HEAD = 1 << 16  # bytes in which the head of a page must end
_DEEPEST = 16  # structures within structures in the head of a page


def read_parquet(path: Path, columns: Sequence[str] | None = None, what: str = "a readable Parquet file") -> Any:
    """The Arrow table of a file: all of its columns, or some; ``what`` says in an error what it must be."""
    with _opened(path, what) as file:
        wanted = None if columns is None else list(columns)
        _check_sizes(file, path, wanted)
        table = file.read(columns=wanted)
        if wanted is not None and (missing := [name for name in wanted if name not in table.column_names]):
            raise ValueError(f"no column {missing[0]!r}")
        for column in table.columns:
            column.validate(full=True)  # else text that is no UTF-8 shows only when somebody looks at it
        return table


def column_names(path: Path, what: str) -> list[str]:
    with _opened(path, what) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened(path: Path, what: str) -> Iterator[Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError(
            f"{path.name} needs pyarrow to be read; got no such package. Install it: pip install 'selc[parquet]'."
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pyarrow.ArrowException, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise InputError(f"{path} must be {what}; got: {in_short(error)}.") from None


def _check_sizes(file: Any, path: Path, wanted: Sequence[str] | None) -> None:
    size = path.stat().st_size
    most = unpacked_limit(size)
    total = file.metadata.num_rows * CELL * (file.metadata.num_columns if wanted is None else len(wanted))
    with open(path, "rb") as raw:
        for group, rows, columns in _groups(raw, size):
            for column in columns:
                if total > most:
                    break
                if rows == 0 or (wanted is not None and column.path[0] not in wanted):
                    continue  # nothing of it is read
                pages = list(_page_sizes(raw, column))
                total += sum(unpacked for _, unpacked in pages)
                dictionary = max((unpacked for kind, unpacked in pages if kind == _DICTIONARY), default=0)
                if total <= most and column.is_text and dictionary:
                    worst = max(column.values, rows) * dictionary
                    known = worst if total + worst <= most else _unfolded(file, group, column, dictionary, most - total)
                    total += known
    if total > most:
        raise ValueError(
            f"{size} bytes that unpack to {total} or more, and {most} are the most; "
            "save it without compression and dictionaries"
        )


def _unfolded(file: Any, group: int, column: _Column, dictionary: int, most: int) -> int:
    """The bytes of a column of texts, whose rows may all mean the same long one: counted a few rows at a time."""
    rows = max(1, min(65_536, FLOOR // 4 // dictionary))
    total = 0
    for batch in file.iter_batches(rows, row_groups=[group], columns=[".".join(column.path)], use_threads=False):
        total += batch.nbytes
        if total > most:
            break
    return total


# The end of the file, and the head of each page, in Thrift's compact protocol. Not by pyarrow's objects: where a
# file is odd, asking one of them ends the whole program (pyarrow 26).

_DICTIONARY = 2  # a kind of page
_TEXT = 6  # a kind of column: bytes of any length


class _Column(NamedTuple):
    """A column in a group of rows."""

    path: tuple[str, ...]
    is_text: bool
    values: int
    place: int  # of its first page
    size: int  # of all its pages, packed


def _groups(raw: IO[bytes], size: int) -> Iterator[tuple[int, int, list[_Column]]]:
    """Groups of rows: number, rows, columns."""
    raw.seek(max(0, size - 8))
    length = int.from_bytes(raw.read(4), "little")
    raw.seek(max(0, size - 8 - length))
    for number, group in enumerate(_list(_Thrift(raw.read(length)).structure(), 4)):
        columns = [_column(_part(chunk, 3)) for chunk in _list(group, 1)]
        yield number, _whole(group, 3), columns


def _column(about: Any) -> _Column:
    path = tuple(part.decode("utf-8", "replace") for part in _list(about, 3) if isinstance(part, bytes)) or ("",)
    place, dictionary = _whole(about, 9), _whole(about, 11)
    return _Column(
        path,
        _whole(about, 1) == _TEXT,
        _whole(about, 5),
        min(place, dictionary) if dictionary > 0 else place,
        _whole(about, 7),
    )


def _page_sizes(raw: IO[bytes], column: _Column) -> Iterator[tuple[int, int]]:
    """The kind of each page of a column, and its bytes when it is unpacked."""
    place, end = column.place, column.place + column.size
    while place < end:
        raw.seek(max(0, place))
        head = _Thrift(raw.read(_HEAD))
        fields = head.structure()
        unpacked, packed = _whole(fields, 2), _whole(fields, 3)
        if unpacked < 0 or packed < 0:
            raise ValueError("a page of less than no bytes")
        yield _whole(fields, 1), unpacked
        place += head.place + packed


def _part(fields: Any, key: int) -> Any:
    return fields.get(key) if isinstance(fields, dict) else None


def _whole(fields: Any, key: int) -> int:
    value = _part(fields, key)
    return value if isinstance(value, int) else 0


def _list(fields: Any, key: int) -> list[Any]:
    value = _part(fields, key)
    return value if isinstance(value, list) else []


class _Thrift:
    """Structures as dictionaries by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        if depth > _DEEPEST:
            raise ValueError("structures without an end")
        fields: dict[int, Any] = {}
        number = 0
        while (byte := self.byte()) != 0:
            number = number + (byte >> 4) if byte >> 4 else self.signed()
            kind = byte & 15
            fields[number] = kind == 1 if kind in (1, 2) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind == 7:
            return self.take(8)
        if kind == 8:
            return self.take(self.unsigned())
        if kind in (9, 10):
            head = self.byte()
            count = self.unsigned() if head >> 4 == 15 else head >> 4
            if count > len(self.data) or depth > _DEEPEST:  # each takes a byte at least
                raise ValueError("a list without an end")
            return [
                self.structure(depth + 1) if head & 15 == 12 else self.value(head & 15, depth + 1) for _ in range(count)
            ]
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError("something else than a page")

    def byte(self) -> int:
        self.place += 1
        if self.place > len(self.data):
            raise ValueError("a page that is cut off")
        return self.data[self.place - 1]

    def take(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self.data):
            raise ValueError("a page that is cut off")
        return self.data[self.place - count : self.place]

    def unsigned(self) -> int:
        total = shift = 0
        while True:
            byte = self.byte()
            total |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return total
            if shift > 63:
                raise ValueError("a number without an end")

    def signed(self) -> int:
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)
