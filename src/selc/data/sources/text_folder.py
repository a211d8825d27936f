"""A folder with a sub-folder of .txt files per class."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from selc._io.paths import is_image, is_text
from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.cache import json_digest
from selc.data.image_cache.decode import shown
from selc.data.sources.base import folder_source
from selc.data.sources.bundling import skipped_note
from selc.data.sources.image_folder import TEXTS, listings
from selc.data.sources.listing import Listing
from selc.data.sources.table_columns import Columns
from selc.data.sources.tables import feature_bundle
from selc.data.sources.written_table import WrittenTable
from selc.errors import InputError

ID, TEXT, LABEL = "id", "text", "label"  # the columns of such a folder as a table


@dataset("texts", Recipe(net="mlp", plan={"schedule": "constant", "weight_decay": 0.0}))
def texts(*, path: str = "", test: str = "", val: str = "", skip_bad: bool = False, text_model: str = "auto") -> Bundle:
    """Your texts: a folder with a sub-folder of .txt files per class, or with train, val and test folders of such."""
    train, others, notes = listings(path, test, val, TEXTS)
    first, bad = text_files(train, skip_bad)
    tables = {}
    for name, listing in others.items():
        tables[name], more = text_files(listing, skip_bad)
        bad += more
    columns = Columns(id=ID, text=(TEXT,), text_model=text_model)
    bundle = feature_bundle(first, tables, LABEL, columns, skip_bad)
    listed = [note for listing in (train, *others.values()) for note in listing.notes]
    return replace(bundle, notes=[*notes, *listed, *bundle.notes, *skipped_note(bad)], skipped=[*bad, *bundle.skipped])


@folder_source("texts")
def holds_texts(root: Path) -> bool:
    """Whether the sub-folders hold .txt files and no image."""
    found = False
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]
        there = [name for name in files if not name.startswith(".")]
        if any(map(is_image, there)):
            return False
        found = found or (Path(folder) != root and any(map(is_text, there)))
    return found


def text_files(listing: Listing, skip_bad: bool) -> tuple[WrittenTable, list[tuple[str, str]]]:
    """The files of a listing as a table, with a name, a text and a label each; and what cannot be read of them."""
    rows, bad = [], []
    labels = listing.labels or [""] * len(listing.names)
    for file, name, label in zip(listing.items, listing.names, labels, strict=True):
        try:
            rows.append((shown(name), read_text(str(file)), label))
        except InputError as error:
            if not skip_bad:
                raise
            bad.append((shown(name), str(error)))
    if not rows:
        raise InputError(f"{listing.what} must have a text that can be read; got none in {listing.source}.")
    columns = dict(zip((ID, TEXT, LABEL), map(list, zip(*rows, strict=True)), strict=True))
    place = [f"in {name}" for name in columns[ID]]
    digest = json_digest([columns[ID], columns[TEXT]])
    return WrittenTable(listing.source, columns, place.__getitem__, lambda: digest), bad


def read_text(file: Path | str) -> str:
    """The text of a file in UTF-8, with or without a mark at its beginning."""
    try:
        with open(file, encoding="utf-8-sig") as opened:
            return opened.read()
    except OSError as error:
        raise InputError(f"{shown(os.fspath(file))} must be a file that can be read; got: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{shown(os.fspath(file))} must be text in UTF-8; got other bytes. Save it as UTF-8, or go on without such "
            "files by --skip-bad (skip_bad=True)."
        ) from None
