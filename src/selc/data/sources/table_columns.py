"""What is asked of a table, and which of its columns is which."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple, Protocol

from selc._io.paths import is_image
from selc.data.preprocess.features import Numbers
from selc.data.sources.hints import dropping
from selc.errors import InputError

# Names of columns that need not be given, in any case of letters; the first of them that is there counts.
LABELS = ("label", "labels", "class", "target", "y")
PATHS = ("path", "file", "filename", "file_name", "filepath", "image", "image_path", "img")
LISTED = 40  # columns that a sentence names
# Options that the command has as flags, too; others are settings of the data.
FLAGS = ("label_column", "id_column", "group_column", "time_column", "text_column", "annotator_column")
IDS = ("id", "sample_id", "", "unnamed: 0", "__index_level_0__")  # the last three: how pandas writes its index


class Table(Protocol):
    """What is asked of a table, whatever it is stored in."""

    name: str
    names: list[str]

    def example(self, name: str) -> str: ...
    def where(self, row: int) -> str: ...
    def digest(self) -> str: ...
    def classes(self, name: str) -> tuple[str, ...] | None: ...
    def images(self, name: str) -> Sequence[str | bytes] | None: ...
    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]: ...


class Columns(NamedTuple):
    """Names of columns as the user gave them; empty: to be found."""

    label: str = ""
    path: str = ""
    id: str = ""
    drop: tuple[str, ...] = ()
    group: str = ""  # rows with the same value belong together
    time: str = ""  # when each row was taken
    text: tuple[str, ...] = ()  # free text, also where it does not look like it
    text_model: str = "auto"  # what reads it (see `selc.data.preprocess.text_encoder`)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return "the columns " + ", ".join(map(repr, names[:LISTED])) + more


def existing_column(table: Table, name: str, option: str) -> str:
    if name not in table.names:
        flag = f"--{option.replace('_', '-')}" if option in FLAGS else option
        by_lower = {each.lower(): each for each in table.names}
        near = get_close_matches(name.lower(), by_lower, n=1)
        hint = f" Did you mean {by_lower[near[0]]!r}?" if near else ""
        raise InputError(
            f"{flag} must be a column of {table.name}; got {name!r}, and there are {listed(table.names)}.{hint}"
        )
    return name


def dealing_columns(table: Table, columns: Columns) -> list[str]:
    """The columns that say who may judge whom; they are no features."""
    given = {"group_column": columns.group, "time_column": columns.time}
    return [existing_column(table, name, option) for option, name in given.items() if name]


def known_column(table: Table, known: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in reversed(table.names)}
    return next((by_lower[name] for name in known if name in by_lower), None)


def label_column(table: Table, given: str) -> str:
    if given:
        return existing_column(table, given, "label_column")
    found = known_column(table, LABELS)
    if found is None:
        from selc.data.sources.column_problems import on_missing_label  # only where something is wrong

        texts = [name for name in table.names if table.images(name) is None]
        hint = on_missing_label(table.load(texts, [])[0], table.where, IDS)
        raise InputError(
            f"the column of the labels must be called {', '.join(LABELS[:-1])} or {LABELS[-1]}, or be given as "
            f"--label-column; got {listed(table.names)} in {table.name}. {hint}".strip()
        )
    return found


def label_column_of(other: Table, label: str) -> str:
    """The labels of a test table: the column of the same name, else one that is known by its name."""
    return label if label in other.names else label_column(other, "")


def image_column(table: Table, given: str) -> str | None:
    if given:
        return existing_column(table, given, "path_column")
    lower = {name.lower(): name for name in reversed(table.names)}
    for known in PATHS:
        name = lower.get(known)
        if name is not None and (is_image(table.example(name)) or table.images(name) is not None):
            return name
    return None


def named(labels: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Numbers of classes as their names; anything else stays as it is, and is refused later."""
    names = {str(k): name for k, name in enumerate(classes)}
    return [names.get(label, label) for label in labels]


def repeating(table: Table, column: str) -> InputError:
    """The error for a column of names in which one stands twice."""
    values, first = table.load([column], [])[0][column], dict[str, int]()
    second = next(row for row, value in enumerate(values) if first.setdefault(value, row) != row)
    return InputError(
        f"--id-column must tell samples apart; got {column!r} of {table.name}, where {values[second][:60]!r} stands "
        f"{table.where(first[values[second]])} and again {table.where(second)}. Give each sample a value of its own, "
        f"or call samples by their rows: leave the option out, and the column too ({dropping([column])})."
    )
