"""Labels by several annotators: what most of them say, the shares of their votes, and how far they disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from selc.data.image_cache.cache import json_digest
from selc.data.preprocess.features import Numbers
from selc.data.preprocess.labels import class_names, is_missing, tidied
from selc.data.sources.table_columns import (
    IDS,
    Columns,
    Table,
    existing_column,
    image_column,
    known_column,
    label_column,
    listed,
    named,
)
from selc.errors import InputError

LABEL = "label"  # the column of what most annotators say, where each has a column
NAMED = 3  # annotators that a sentence names


@dataclass(frozen=True)
class Votes:
    """What annotators say of each sample, [N]: label by annotator; who says nothing is not there."""

    said: Sequence[Mapping[str, str]]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All labels that anybody gave, in the order of classes."""
        return class_names(label for votes in self.said for label in votes.values())

    @cached_property
    def labels(self) -> list[str]:
        """What most say; of several that as many say, the first in the order of the classes. Empty: nobody says any."""
        place = {name: k for k, name in enumerate(self.order)}
        return [
            min(counts, key=lambda label: (-counts[label], place[label])) if (counts := Counter(votes.values())) else ""
            for votes in self.said
        ]

    def soft(self, classes: Sequence[str]) -> Tensor:
        """The shares of the votes for each class, [N, C]; votes for labels that no sample has by most do not count."""
        place = {name: k for k, name in enumerate(classes)}
        shares = torch.zeros(len(self.said), len(classes))
        for row, votes in enumerate(self.said):
            for label in votes.values():
                if label in place:
                    shares[row, place[label]] += 1
        return shares / shares.sum(dim=1, keepdim=True)

    def notes(self) -> list[str]:
        """How the labels came about, and how far annotators agree: a sentence each."""
        several = [votes for votes in self.said if len(votes) > 1]
        count = sum(map(len, self.said))
        found = [
            f"labels are what most of {len(self._names)} annotators say ({count:,} labels of {len(self.said):,} "
            "samples); they are trained on as soft labels, the shares of the votes"
        ]
        if not several:
            return [*found, "no sample has labels by two annotators: nothing shows how far they agree"]
        split = [votes for votes in several if len(set(votes.values())) > 1]
        tied = sum(_tied(votes) for votes in split)
        kappa = fleiss_kappa(several)
        agree = "" if kappa is None else f"; Fleiss' kappa {kappa:.2f}, where 1 is agreement and 0 is chance"
        found.append(
            f"annotators disagree on {len(split):,} of {len(several):,} samples ({len(split) / len(several):.1%}) that "
            f"have several labels{agree}"
        )
        if tied:
            found.append(f"on {tied:,} samples as many say one label as another: the first in order is taken")
        if worst := self._agreement()[:NAMED]:
            listed = ", ".join(f"{name!r} {share:.0%} of {votes:,}" for share, name, votes in worst)
            found.append(f"annotators that say least often what most of the others say: {listed}")
        if lost := sorted(set(self.order) - set(self.labels)):
            found.append(f"no sample is {', '.join(map(repr, lost[:5]))} by most annotators: such votes do not count")
        return found

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(sorted({name for votes in self.said for name in votes}))

    def _agreement(self) -> list[tuple[float, str, int]]:
        """How often each annotator says what most of the others say, where these agree on one; the lowest first."""
        agreed, asked = Counter[str](), Counter[str]()
        for votes in self.said:
            for name, label in votes.items():
                others = Counter(said for other, said in votes.items() if other != name)
                first = others.most_common(2)
                if first and (len(first) == 1 or first[0][1] > first[1][1]):
                    asked[name] += 1
                    agreed[name] += label == first[0][0]
        return sorted((agreed[name] / asked[name], name, asked[name]) for name in asked)


def fleiss_kappa(several: Iterable[Mapping[str, str]]) -> float | None:
    """Agreement beyond chance (Fleiss, 1971), for samples with two labels or more; None: all labels are the same.

    ``kappa = (P - P_e) / (1 - P_e)``: ``P`` is the mean share of agreeing pairs, ``P_e`` the same by chance.
    """
    pairs, total = [], Counter[str]()
    for votes in several:
        counts, n = Counter(votes.values()), len(votes)
        pairs.append(sum(c * (c - 1) for c in counts.values()) / (n * (n - 1)))
        total += counts
    chance = sum((count / total.total()) ** 2 for count in total.values())
    return None if chance == 1 else (float(np.mean(pairs)) - chance) / (1 - chance)


def _tied(votes: Mapping[str, str]) -> bool:
    first = Counter(votes.values()).most_common(2)
    return len(first) == 2 and first[0][1] == first[1][1]


def votes_by_column(columns: Mapping[str, Sequence[object]]) -> Votes:
    """Votes where each annotator has a column; a cell that is empty is no vote."""
    texts = {name: tidied(column) for name, column in columns.items()}
    rows = range(len(next(iter(texts.values()))))
    return Votes([{name: t[row] for name, t in texts.items() if not is_missing(t[row])} for row in rows])


class AnnotatedTable:
    """A table as one with a row for each sample and one label: what most annotators say.

    ``annotators`` are their columns; or one column that names the annotator of each row, where a sample has a row for
    each of them.
    """

    def __init__(self, table: Table, columns: Columns, annotators: Sequence[str]) -> None:
        self.table, self.name = table, table.name
        given = [existing_column(table, name, "annotator_column") for name in dict.fromkeys(annotators)]
        self._digest = json_digest([table.digest(), *given])
        if len(given) == 1:
            self.rows, self.votes, self.label = self._by_rows(given[0], columns)
        else:
            texts, _ = table.load(given, [])
            self.votes = votes_by_column({name: _named(table, name, texts[name]) for name in given})
            self.rows, self.label = list(range(len(self.votes.said))), columns.label or LABEL
            if self.label in set(table.names) - set(given):
                raise InputError(
                    f"where annotators have columns, the label is what most of them say; got the column {self.label!r} "
                    f"in {table.name} besides. Name it as an annotator, or take it out."
                )
        hidden = {*given, self.label}
        self.names = [*(name for name in table.names if name not in hidden), self.label]

    def example(self, name: str) -> str:
        return next(iter(self.votes.labels), "") if name == self.label else self.table.example(name)

    def where(self, row: int) -> str:
        return self.table.where(self.rows[row])

    def digest(self) -> str:
        return self._digest

    def classes(self, name: str) -> tuple[str, ...] | None:
        return None if name == self.label else self.table.classes(name)

    def images(self, name: str) -> Sequence[str | bytes] | None:
        found = None if name == self.label else self.table.images(name)
        return None if found is None else [found[row] for row in self.rows]

    def load(self, texts: Sequence[str], numbers: Sequence[str]) -> tuple[dict[str, list[str]], Numbers]:
        others = [name for name in texts if name != self.label]
        x: Numbers = np.empty((len(self.rows), 0))
        read: dict[str, list[str]] = {}
        if others or numbers:
            whole, x = self.table.load(others, numbers)
            read = {name: [column[row] for row in self.rows] for name, column in whole.items()}
            x = x[self.rows] if len(numbers) else x
        return read | ({self.label: self.votes.labels} if self.label in texts else {}), x

    def _by_rows(self, annotator: str, columns: Columns) -> tuple[list[int], Votes, str]:
        table = self.table
        label = label_column(table, columns.label)
        known = columns.id or known_column(table, IDS) or image_column(table, columns.path)
        if known is None:
            raise InputError(
                f"rows of several annotators need a column that names the sample, as --id-column; got "
                f"{listed(table.names)} in {table.name}. If each annotator has a column, name all of these."
            )
        key = existing_column(table, known, "id_column")
        texts, _ = table.load([key, annotator, label], [])
        labels = _named(table, label, texts[label])
        first: dict[str, int] = {}
        said: dict[str, dict[str, str]] = {}
        for row, (sample, name, vote) in enumerate(zip(texts[key], tidied(texts[annotator]), labels, strict=True)):
            first.setdefault(sample, row)
            votes = said.setdefault(sample, {})
            if is_missing(vote):
                continue
            if name in votes:
                raise InputError(
                    f"an annotator must label a sample once; got {name!r} twice for {sample!r} in {table.name}, the "
                    f"second time {table.where(row)}. Keep one row of each."
                )
            votes[name] = vote
        return list(first.values()), Votes(list(said.values())), label


def _named(table: Table, column: str, labels: Sequence[str]) -> list[str]:
    """Labels by the names of their classes, where the table knows these."""
    written, classes = tidied(labels), table.classes(column)
    return named(written, classes) if classes else written
