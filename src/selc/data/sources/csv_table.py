"""Tables in text: CSV with any of the usual separators, quoted cells, UTF-8 with or without a mark at its beginning."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from selc._io.files import sha256
from selc.data.preprocess.features import Numbers
from selc.data.sources.base import table_source
from selc.data.sources.hints import dropping
from selc.errors import InputError

SEPARATORS = (",", ";", "\t", "|")
BLOCK = 4_096  # rows that are turned into numbers at once
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


@table_source("csv", ".csv", ".tsv", ".txt")
class CsvTable:
    """A CSV file: its columns at once, its cells when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        self.lines: list[int] = []  # the line on which each row ends
        with self._text() as file:
            first = file.readline()
            if "\0" in first:
                raise InputError(
                    f"{path} must be a table in text; got bytes that are none. Is it another kind of file?"
                )
            self.separator = separator_of(first)
            file.seek(0)
            rows = self._rows(file)
            self.names = [name.strip() for name in next(rows, [])]
            self._head = list(islice(rows, 20))
        self._check_names()

    @contextmanager
    def _text(self) -> Iterator[IO[str]]:
        try:
            with open(self.path, "rb") as raw:
                start = raw.read(2)
        except OSError as error:
            raise InputError(f"{self.path} must be a file that can be read; got: {error.strerror}.") from None
        if start in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{self.path} must be text in UTF-8; got UTF-16. Save it as UTF-8 (in Excel: CSV UTF-8).")
        try:
            with open(self.path, encoding="utf-8-sig", newline="") as file:
                yield file
        except UnicodeDecodeError:
            raise InputError(
                f"{self.path} must be text in UTF-8; got other bytes in line {self._first_bad_line()}. "
                "Save it as UTF-8 (in Excel: CSV UTF-8)."
            ) from None

    def _rows(self, file: IO[str]) -> Iterator[list[str]]:
        """The records that are not empty; ``lines`` grows with each."""
        reader = csv.reader(file, delimiter=self.separator, strict=True)
        self.lines = []
        try:
            for row in reader:
                if row:
                    self.lines.append(reader.line_num)
                    yield row
        except csv.Error as error:
            where = f"line {reader.line_num}"
            raise InputError(f"{self.path} must be a CSV table; got {where}, which does not read: {error}.") from None

    def _first_bad_line(self) -> int:
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
        return 0

    def _check_names(self) -> None:
        twice = {name for name, times in Counter(self.names).items() if times > 1}
        if twice:
            raise InputError(f"the columns of {self.path} must differ; got {sorted(twice)[0]!r} more than once.")
        if not self.names or not self._head:
            raise no_table(self.path, "no rows below the first line")

    def example(self, name: str) -> str:
        """The first cell of a column that is not empty."""
        column = self.names.index(name)
        return next((row[column].strip() for row in self._head if row[column:] and row[column].strip()), "")

    def where(self, row: int) -> str:
        return f"in line {self.lines[row + 1]} of {self.path.name}"

    def digest(self) -> str:
        return sha256(self.path)

    def classes(self, name: str) -> tuple[str, ...] | None:
        return None

    def images(self, name: str) -> None:
        """Text holds no images."""

    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]:
        """Columns as text, and columns as numbers [N, D] with NaN where a cell is empty."""
        place = {name: k for k, name in enumerate(self.names)}
        wanted = [place[name] for name in numbers]
        cells: dict[str, list[str]] = {name: [] for name in texts}
        blocks: list[Numbers] = []
        with self._text() as file:
            rows = self._rows(file)
            next(rows)
            done = 0
            while block := list(islice(rows, BLOCK)):
                self._check_lengths(block, done)
                columns = list(zip(*block, strict=True))
                for name in texts:
                    cells[name] += columns[place[name]]
                blocks.append(self._numbers([columns[k] for k in wanted], numbers, done, len(block)))
                done += len(block)
        return cells, np.concatenate(blocks)

    def _check_lengths(self, block: list[list[str]], done: int) -> None:
        if {len(row) for row in block} != {len(self.names)}:
            row, length = next((k, len(r)) for k, r in enumerate(block) if len(r) != len(self.names))
            raise InputError(
                f"every line of {self.path} must have {len(self.names)} cells, as the first one has; got {length} "
                f"{self.where(done + row)}. A cell that holds {self.separator!r} must stand in quotes."
            )

    def _numbers(self, columns: list[tuple[str, ...]], names: Sequence[str], done: int, count: int) -> Numbers:
        out: Numbers = np.empty((count, len(columns)))
        wrong: list[tuple[str, str, int]] = []
        for k, cells in enumerate(columns):
            try:
                out[:, k] = np.array(cells, dtype=np.float64)
            except ValueError:
                filled = [cell if cell.strip() else "nan" for cell in cells]
                row = next((r for r, cell in enumerate(filled) if not is_number(cell)), None)
                if row is None:
                    out[:, k] = np.array(filled, dtype=np.float64)
                else:
                    wrong.append((names[k], cells[row], done + row))
        if wrong:
            raise not_numeric([name for name, _, _ in wrong], wrong[0][1], self.where(wrong[0][2]))
        return out


def no_table(path: Path, got: str) -> InputError:
    return InputError(
        f"{path} must be a table with names in its first line and a sample in each other; got {got}. "
        "Cells may be separated by comma, semicolon, tab or |."
    )


def separator_of(line: str) -> str:
    """The separator that stands in the first line most often, outside quotes."""
    outside = re.sub(r'"[^"]*"', "", line)
    return max(SEPARATORS, key=outside.count)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def not_numeric(columns: Sequence[str], example: Any, where: str) -> InputError:
    """The error for columns of features that are no numbers."""
    several, it = ("columns", "them") if len(columns) > 1 else ("column", "it")
    named = ", ".join(map(repr, columns[:5])) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    comma = " Decimals are written with a point." if _DECIMAL_COMMA.fullmatch(str(example).strip()) else ""
    return InputError(
        f"{several} {named} must be numeric; got {str(example)[:40]!r} {where}.{comma} "
        f"Turn {it} into numbers, or leave {it} out ({dropping(list(columns))})."
    )
