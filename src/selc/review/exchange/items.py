"""What a tool shows of each sample: the file of its image, else a small picture or a text with its cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from selc.data import Bundle
from selc.data.image_cache.decode import shown
from selc.data.image_cache.worker import size_of
from selc.data.sources.annotators import AnnotatedTable
from selc.data.sources.image_folder import IMAGES
from selc.data.sources.table_columns import Columns, Table, existing_column, image_column
from selc.data.sources.tables import open_table, table_files
from selc.errors import InputError
from selc.review.cleaned_tree import FOLDERS, originals
from selc.review.exchange.tools.base import Tool, address
from selc.review.pictures import LARGE, cells, shows_images, thumbnails
from selc.runs.config import ARRAYS
from selc.runs.door import origin_of, source
from selc.runs.folder import RunFolder


class Views(NamedTuple):
    """A text, or the address of an image, for each of some rows."""

    views: Sequence[str]
    images: bool
    sizes: Sequence[tuple[int, int]]  # of the images, where the tool asks for them


class Files(NamedTuple):
    """Where the images of a run lie: the path of each sample in a folder."""

    root: Path
    names: Sequence[str]


def views_of(run: RunFolder, rows: Sequence[int], tool: Tool, name: str, prefix: str | None) -> Views:
    """The rows as ``tool`` shows them; ``prefix`` stands before the paths of images."""
    if run.config.data.name == ARRAYS:
        raise InputError(
            f"{run.path} must be a run on data that can be read again; got one that was started from Python with "
            "arrays, which are not in the folder. Save the arrays (numpy.savez) and train on the file."
        )
    files = image_files(run)
    if files is not None:
        _check_shows(tool, name, "images", run)
        return _of_files(run, files, rows, tool, name, prefix)
    if prefix is not None:
        raise InputError(f"--prefix is for images that are files; got it with {run.config.data.name!r}. Leave it out.")
    bundle = source(run.config)
    run.check_data(bundle.digest, len(bundle.labels))
    images = shows_images(bundle)
    _check_shows(tool, name, "images" if images else "texts", run)
    if images and tool.needs_files:
        raise InputError(
            f"{name} needs images that are files of their own; got data {run.config.data.name!r}, which have none. "
            "Export to label-studio, with the pictures inside."
        )
    views = thumbnails(bundle, rows, LARGE) if images else texts(bundle, rows)
    return Views(views, images, [(0, 0)] * len(rows))


def image_files(run: RunFolder) -> Files | None:
    """The files of a folder of images, or of a table that names them; None for other data."""
    choice = origin_of(run)
    if FOLDERS.get(choice.name) == IMAGES:
        return Files(*originals(run))
    if choice.name != "table":
        return None
    table: Table = open_table(Path(choice.options["path"]))
    if annotators := choice.options.get("annotator_column"):  # a sample may have several rows
        known = {key: choice.options.get(f"{key}_column", "") for key in ("label", "path", "id")}
        table = AnnotatedTable(table, Columns(**known), annotators)
    column = image_column(table, choice.options.get("path_column", ""))
    if column is None or table.images(column) is not None:
        return None
    ids = choice.options.get("id_column", "")
    found, _ = table.load([column, *([existing_column(table, ids, "id_column")] if ids else [])], [])
    paths = table_files(table, found[column])[1]
    path = dict(zip(found[ids] if ids else map(shown, paths), paths, strict=True))
    if missing := next((sample for sample in run.ids if sample not in path), None):
        raise InputError(f"{table.name} must still name every image of the run; got none for {missing!r}.")
    return Files(Path(table.name).parent, [path[sample] for sample in run.ids])


def texts(bundle: Bundle, rows: Sequence[int]) -> list[str]:
    """Rows of a table as text: a line for each of its most telling cells; a single column of text is just that."""
    whole = {} if bundle.texts is None else bundle.texts(rows)
    found = []
    for place, (row,) in enumerate(cells(bundle, [[row] for row in rows])):
        full = [(name, whole[name][place] if name in whole else cell) for name, cell in row]
        single = len(full) == 1 and full[0][0] in whole
        found.append(full[0][1] if single else "\n".join(f"{name}: {cell}" for name, cell in full))
    return found


def _check_shows(tool: Tool, name: str, what: str, run: RunFolder) -> None:
    if what not in tool.shows:
        raise InputError(
            f"--to {name} takes {tool.shows} only; got data {run.config.data.name!r}, which are {what}. "
            "Export to label-studio or prodigy, which take both."
        )


def _of_files(
    run: RunFolder, files: Files, rows: Sequence[int], tool: Tool, tool_name: str, prefix: str | None
) -> Views:
    before = tool.prefix(files.root) if prefix is None else prefix
    names = [files.names[row] for row in rows]
    if unnamed := next((name for name in names if shown(name) != name), None):
        raise InputError(f"files must have names in UTF-8 to be exported; got {shown(unnamed)!r}. Rename it.")
    if (
        tool.needs_files
        and (other := next((row for row in rows if run.ids[row] != files.names[row]), None)) is not None
    ):
        raise InputError(
            f"{tool_name} hands back the names of files, so samples must be known by these; got the id "
            f"{run.ids[other]!r} for {files.names[other]!r}. Export to label-studio or prodigy."
        )
    sizes = [_size(files.root / name) if tool.needs_size else (0, 0) for name in names]
    return Views([address(before, name) for name in names], True, sizes)


def _size(path: Path) -> tuple[int, int]:
    found = size_of(str(path))
    if found is None:
        raise InputError(f"{path} must still be the image of the run; got none that can be read. Put it back.")
    height, width = found
    return width, height
