"""The user's own table with cleaned labels: every column in its order, CSV, Parquet or saved dataset as it came.

Beside the columns stand what the label was (``given_label``), where the new one comes from (``label_source``: given,
relabelled, human, unused) and how far the run believes it (``label_quality``). Rows that a person dropped are left out.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from selc._io.files import make_folder, sync, sync_folder, temporary_of, write_bytes, write_text
from selc.analysis.findings import Findings
from selc.data.image_cache.decode import shown
from selc.data.preprocess.labels import tidied
from selc.data.sources.arrow_table import ArrowTable, parquet_table
from selc.data.sources.base import source_of
from selc.data.sources.csv_table import CsvTable
from selc.data.sources.hub import HubTable, is_training, saved_dataset, training_part
from selc.data.sources.table_columns import IDS, Table, image_column, known_column, label_column, named
from selc.data.sources.tables import open_table, table_files
from selc.errors import InputError, RunFolderError, SelcError
from selc.runs.cleaned import DROPPED, NAME, SOURCES, Cleaned
from selc.runs.config import Choice
from selc.runs.folder import RunFolder

UNUSED = "unused"  # the source of a label that the run left out, such as one without a value
KINDS = {"table": "table", "hub": "dataset"}  # data that come back as they came, by name
ADDED = ("given_label", "label_source", "label_quality")


class Corrected(NamedTuple):
    """A table to be written: rows of the original that stay, and new values for some of its cells."""

    table: Table
    column: str  # of the labels
    rows: list[int]  # that stay
    labels: dict[int, Any]  # by row: the new label as the file writes it
    added: dict[str, list[Any]]  # new columns, for the rows that stay
    whole: Any = None  # the dataset or the dictionary of parts that the table is, or is a part of


def own_name(data: Choice) -> str | None:
    """What the user's own table or dataset is called among the cleaned files; None where the data are neither."""
    if data.name not in KINDS:
        return None
    path = Path(data.options["path"])
    if data.name == "table" and ((found := source_of(path)) is None or found.use not in (CsvTable, parquet_table)):
        return None  # a form that is read, but not written: its labels are among the cleaned files all the same
    return path.name if path.stem != NAME else f"{path.stem}-{KINDS[data.name]}{path.suffix}"


def corrected_table(cleaned: Cleaned, findings: Findings, run: RunFolder, data: Choice) -> Corrected:
    """What becomes of the table or the saved dataset that ``data`` names."""
    place = Path(data.options["path"])
    if data.name == "hub":
        whole = saved_dataset(place)
        return correct(training_part(whole), cleaned, findings, run, data.options)._replace(whole=whole)
    return correct(open_table(place), cleaned, findings, run, data.options)


def correct(
    table: Table, cleaned: Cleaned, findings: Findings, run: RunFolder, options: Mapping[str, Any]
) -> Corrected:
    """What becomes of a table; ``options`` name its columns where the run was told which these are."""
    column = label_column(table, str(options.get("label_column", "")))
    cells, _ = table.load([column], [])
    written = named(tidied(cells[column]), table.classes(column) or ())
    place = _places(table, run.ids, options)
    labels_of_data = not run.config.labels.path and not run.config.labels.verified and run.config.noise.name == "none"
    before = [run.classes[label] for label in cleaned.given.tolist()]
    if labels_of_data and before != [written[place[sample]] for sample in run.ids]:
        raise InputError(
            f"{table.name} must still be the table of the run; got other labels in column {column!r}. Put it back."
        )
    spelt = _spelling(table, column, written)
    sources, qualities = cleaned.source.tolist(), findings.quality.tolist()
    labels: dict[int, Any] = {}
    about: dict[int, tuple[str, float]] = {}
    dropped = set()
    for row, (sample, label) in enumerate(zip(run.ids, cleaned.labels.tolist(), strict=True)):
        there = place[sample]
        if sources[row] == DROPPED:
            dropped.add(there)
        elif run.classes[label] != written[there]:
            labels[there] = spelt[run.classes[label]]
        about[there] = (SOURCES[sources[row]], round(qualities[row], 4))
    rows = [row for row in range(len(written)) if row not in dropped]
    unused = (UNUSED, None)
    columns = ([written[row] for row in rows], *zip(*(about.get(row, unused) for row in rows), strict=True))
    return Corrected(
        table, column, rows, labels, {_free(n, table.names): list(c) for n, c in zip(ADDED, columns, strict=True)}
    )


def write_corrected(corrected: Corrected, path: Path) -> None:
    """Write the table or the dataset in the form that it came in."""
    if isinstance(corrected.table, HubTable):
        save_dataset(corrected_dataset(corrected, corrected.table), path)
    elif isinstance(corrected.table, CsvTable):
        write_text(path, _as_csv(corrected, corrected.table))
    else:
        assert isinstance(corrected.table, ArrowTable)
        write_bytes(path, _as_parquet(corrected, corrected.table))


def corrected_dataset(corrected: Corrected, table: HubTable) -> Any:
    """The dataset of the training with the new labels and columns; of several parts the others stay as they are.

    Labels have the type that they came in, a ClassLabel too.
    """
    part, column = table.part, corrected.column
    before = list(part.select_columns([column]).with_format(None)[column])
    after = [corrected.labels.get(row, before[row]) for row in corrected.rows]
    given, *others = corrected.added
    kind = part.features[column]
    new = part.select(corrected.rows).remove_columns(column).add_column(column, after, feature=kind)
    new = new.add_column(given, [before[row] for row in corrected.rows], feature=kind)
    for name in others:
        new = new.add_column(name, corrected.added[name])
    new = new.select_columns([*table.names, *corrected.added])
    if not isinstance(corrected.whole, Mapping):
        return new
    made: Any = type(corrected.whole)
    return made({name: new if is_training(name) else other for name, other in corrected.whole.items()})


def save_dataset(dataset: Any, path: Path) -> None:
    """What `save_to_disk` writes, the whole of it or nothing."""
    half = temporary_of(path)
    try:
        make_folder(path.parent)
        dataset.save_to_disk(str(half))
        for folder, _, files in os.walk(half):
            for name in files:
                sync(Path(folder, name))
            sync_folder(Path(folder))
        os.replace(half, path)
        sync_folder(path.parent)
    except OSError as error:
        raise RunFolderError(f"{path} must be writable; got: {error.strerror or error}.") from None


def _places(table: Table, ids: Sequence[str], options: Mapping[str, Any]) -> dict[str, int]:
    """The row of the table that each sample is: by the column that names it, by its path, or by its number."""
    given = str(options.get("id_column", ""))
    image = image_column(table, str(options.get("path_column", "")))
    files = image is not None and table.images(image) is None
    by_column = given or (None if files else known_column(table, IDS))
    tries: list[Sequence[str]] = []
    if by_column:
        tries.append(table.load([by_column], [])[0][by_column])
    if image is not None and files:
        with suppress(SelcError):  # a file is gone
            tries.append([shown(name) for name in table_files(table, table.load([image], [])[0][image])[1]])
    count = len(table.load([table.names[0]], [])[0][table.names[0]])
    tries.append([str(row) for row in range(count)])
    for names in tries:
        place = {name: row for row, name in enumerate(names)}
        if len(place) == len(names) and all(sample in place for sample in ids):
            return place
    raise InputError(f"{table.name} must still hold every sample of the run; got a table without some. Put it back.")


def _spelling(table: Table, column: str, written: Sequence[str]) -> dict[str, Any]:
    """How the file writes each class: as in its first row, else by its number among the classes that it names."""
    raw = table.load([column], [])[0][column]
    if isinstance(table, ArrowTable):
        raw = table.table.column(column).to_pylist()
    numbers: dict[str, Any] = {name: number for number, name in enumerate(table.classes(column) or ())}
    return numbers | dict(zip(reversed(written), reversed(raw), strict=True))


def _free(name: str, names: Sequence[str]) -> str:
    """A name that no column has: the table may have been through this before."""
    number, free = 2, name
    while free in names:
        number, free = number + 1, f"{name}_{number}"
    return free


def _as_csv(corrected: Corrected, table: CsvTable) -> str:
    content = table.path.read_bytes().decode("utf-8-sig")
    ending = "\r\n" if content.partition("\n")[0].endswith("\r") else "\n"
    mark = "\ufeff" if table.path.read_bytes()[:3] == b"\xef\xbb\xbf" else ""
    head, *rows = [row for row in csv.reader(io.StringIO(content, newline=""), delimiter=table.separator) if row]
    place, text = table.names.index(corrected.column), io.StringIO()
    writer = csv.writer(text, delimiter=table.separator, lineterminator=ending)
    writer.writerow([*head, *corrected.added])
    for number, row in enumerate(corrected.rows):
        cells = list(rows[row])
        if row in corrected.labels:
            cells[place] = corrected.labels[row]
        writer.writerow([*cells, *("" if v[number] is None else v[number] for v in corrected.added.values())])
    return mark + text.getvalue()


def _as_parquet(corrected: Corrected, table: ArrowTable) -> bytes:
    import pyarrow
    import pyarrow.parquet as parquet

    whole, place = table.table, table.names.index(corrected.column)
    field = whole.schema.field(place)
    values = whole.column(place).to_pylist()
    for row, label in corrected.labels.items():
        values[row] = label
    whole = whole.set_column(place, field, pyarrow.array(values, type=field.type)).take(pyarrow.array(corrected.rows))
    kinds = (pyarrow.string(), pyarrow.string(), pyarrow.float64())
    for (name, column), kind in zip(corrected.added.items(), kinds, strict=True):
        whole = whole.append_column(name, pyarrow.array(column, type=kind))
    buffer = io.BytesIO()
    parquet.write_table(whole, buffer)
    return buffer.getvalue()
