"""The one way from a source to the data of a run: labels, classes and ids; what cannot be used; inputs; notes.

Every form of data goes through here: a training listing, what learns to make inputs of its items, and the other sets,
which are treated as the training items say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selc.data.base import Bundle
from selc.data.dealing import written_groups, written_times
from selc.data.image_cache.cache import json_digest
from selc.data.image_cache.decode import shown
from selc.data.preprocess.labels import bad_labels, checked_classes, encode, notes_on
from selc.data.preprocess.preprocessor import Learn, Made, Preprocessor
from selc.data.sources.listing import Listing
from selc.data.sources.recognise import suits
from selc.errors import InputError
from selc.types import EvalSet

RECORDED = 50  # names of samples left out that a note lists
Later = Callable[[Any], Listing]  # another set, when the preprocessor is known: it may say how columns are read


def bundle_of(
    train: Listing,
    others: Mapping[str, Listing | Later],
    learn: Learn,
    *,
    skip_bad: bool = False,
    digest: str = "",
    notes: Sequence[str] = (),
) -> Bundle:
    """A source with its inputs; ``others`` are test sets, and "val"."""
    fitted: list[Preprocessor] = []

    def fit(listing: Listing) -> Made:
        how, made = learn(listing)
        fitted.append(how)
        return made

    first = _read(train, train.classes, skip_bad, fit)
    how = fitted[0]
    left = first.listing
    classes = () if left.labels is None else train.classes or checked_classes(left.labels, train.what)
    later = {what: other if isinstance(other, Listing) else other(how) for what, other in others.items()}
    rest = {what: _read(other, classes, skip_bad, how.rows) for what, other in later.items()}
    sets = {what: EvalSet(part.made.inputs, part.labels(classes)) for what, part in rest.items()}
    parts, labels = [first, *rest.values()], first.labels(classes)
    skipped = [sample for part in parts for sample in part.skipped]
    return Bundle(
        inputs=first.made.inputs,
        labels=labels,
        classes=classes,
        shape=how.shape,
        tests={what: part for what, part in sets.items() if what != "val"},
        val=sets.get("val"),
        ids=[shown(name) for name in left.names],
        notes=[
            *notes,
            *(note for listing in (train, *later.values()) for note in listing.notes),
            *first.made.notes,
            *(notes_on(labels, classes) if classes else ()),
            *skipped_note(skipped),
        ],
        skipped=skipped,
        recipe=suits(len(labels), how.side),
        digest=digest or json_digest(classes, [part.digest(classes) for part in parts]),
        texts=_texts(left, how),
        pictures=left.pictures,
        numbered=train.numbered,
        groups=None if left.groups is None else written_groups(left.groups.cells, left.groups.column),
        time=None if left.time is None else written_times(left.time.cells, left.time.column, left.where),
    )


class _Part(NamedTuple):
    """A listing of which all was read."""

    listing: Listing  # the samples that are left
    made: Made
    skipped: list[tuple[str, str]]  # (name, why)

    def labels(self, classes: Sequence[str]) -> Tensor:
        if self.listing.labels is None:
            return torch.zeros(len(self.listing.names), dtype=torch.int64)
        return encode(self.listing.labels, classes)

    def digest(self, classes: Sequence[str]) -> tuple[Any, ...]:
        return self.made.digest, [shown(name) for name in self.listing.names], self.labels(classes).tolist()


def _read(listing: Listing, classes: tuple[str, ...] | None, skip_bad: bool, make: Callable[[Listing], Made]) -> _Part:
    """The samples of a listing that can be used; bad ones are left out, or an error."""
    bad = {}
    if listing.labels is not None:
        bad = bad_labels(listing.labels, classes, listing.what, listing.where, skip_bad)
    if len(bad) == len(listing.names):
        raise InputError(f"{listing.what} must have a row that can be used; got none in {listing.source}.")
    good = listing.chosen([row for row in range(len(listing.names)) if row not in bad]) if bad else listing
    made = make(good)
    skipped = [(shown(listing.names[row]), _placed(reason, listing, row)) for row, reason in sorted(bad.items())]
    skipped += [(shown(good.names[row]), reason) for row, reason in made.bad]
    return _Part(good if made.kept is None else good.chosen(made.kept), made, skipped)


def _placed(reason: str, listing: Listing, row: int) -> str:
    where = listing.where(row)
    return reason if where == shown(listing.names[row]) else f"{reason}, {where}"


def _texts(listing: Listing, how: Preprocessor) -> Callable[[Sequence[int]], Mapping[str, Sequence[str]]] | None:
    """Columns of text for a person to look at, read again when they are asked for; also those that are no feature."""
    coding = getattr(how, "coding", None)
    if listing.texts is None or coding is None:
        return None
    free, coded = ([column.name for column in columns] for columns in (coding.texts, coding.categories))
    names = list(dict.fromkeys([*free, *listing.besides, *coded]))
    return partial(listing.texts, names) if names else None


def skipped_note(skipped: Sequence[tuple[str, str]]) -> list[str]:
    """The record of what was left out."""
    if not skipped:
        return []
    listed = ", ".join(f"{name} ({reason})" for name, reason in skipped[:RECORDED])
    more = f" and {len(skipped) - RECORDED} more" if len(skipped) > RECORDED else ""
    return [f"{len(skipped)} bad {'sample was' if len(skipped) == 1 else 'samples were'} left out: {listed}{more}"]
