"""A folder with a sub-folder of .txt files per class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from selc.data.base import Bundle, Recipe, dataset
from selc.data.image_cache.cache import json_digest
from selc.data.image_cache.decode import shown
from selc.data.preprocess.features import Numbers
from selc.data.sources.feature_table import feature_bundle
from selc.data.sources.image_folder import TEXTS, listings
from selc.data.sources.image_set import Listing, skipped_note
from selc.data.sources.table_columns import Columns
from selc.errors import InputError

ID, TEXT, LABEL = "id", "text", "label"  # the columns of such a folder as a table


@dataset("texts", Recipe(net="mlp", plan={"schedule": "constant", "weight_decay": 0.0}))
def texts(*, path: str = "", test: str = "", val: str = "", skip_bad: bool = False, text_model: str = "auto") -> Bundle:
    """Your texts: a folder with a sub-folder of .txt files per class, or with train, val and test folders of such."""
    train, held, tests, notes = listings(path, test, val, TEXTS)
    others = {**tests, **({"val": held} if held is not None else {})}
    first = TextFiles(train, skip_bad)
    tables = {name: TextFiles(listing, skip_bad) for name, listing in others.items()}
    bundle = feature_bundle(first, tables, LABEL, Columns(id=ID, text=(TEXT,), text_model=text_model), skip_bad)
    listed = [note for listing in (train, *others.values()) for note in listing.notes]
    bad = [sample for part in (first, *tables.values()) for sample in part.bad]
    return replace(
        bundle,
        notes=[*notes, *listed, *bundle.notes, *skipped_note(bad)],
        skipped=[*bad, *bundle.skipped],
    )


class TextFiles:
    """The files of a listing as a table: a name, a text and a label each."""

    names: list[str]

    def __init__(self, listing: Listing, skip_bad: bool) -> None:
        self.name, self.names = listing.source, [ID, TEXT, LABEL]
        self.bad: list[tuple[str, str]] = []
        self.columns: dict[str, list[str]] = {name: [] for name in self.names}
        for file, name, label in zip(listing.items, listing.names, listing.labels, strict=True):
            try:
                text = read_text(str(file))
            except InputError as error:
                if not skip_bad:
                    raise
                self.bad.append((shown(name), str(error)))
                continue
            for column, cell in zip(self.columns.values(), (shown(name), text, label), strict=True):
                column.append(cell)
        if not self.columns[ID]:
            raise InputError(f"{listing.what} must have a text that can be read; got none in {self.name}.")

    def example(self, name: str) -> str:
        return next((cell.strip() for cell in self.columns[name] if cell.strip()), "")

    def where(self, row: int) -> str:
        return f"in {self.columns[ID][row]}"

    def digest(self) -> str:
        return json_digest([self.columns[ID], self.columns[TEXT]])

    def classes(self, name: str) -> None:
        """The folders are all that is known of them."""

    def images(self, name: str) -> None:
        """Text holds no images."""

    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]:
        """Columns as text; none of them is one of numbers."""
        return {name: self.columns[name] for name in texts}, np.empty((len(self.columns[ID]), len(numbers)))


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
