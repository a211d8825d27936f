"""A table or figure of the paper as data: rows, columns, published numbers, and the runs that fill it.

A file of ``tables/`` holds the numbers as they are printed and the settings at each scale. Settings are laid over
each other from the general to the particular: the scale's, the column's, the row's, then every rule that fits.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from selc.errors import ConfigError, unknown
from selc.runs.config import Config
from selc.training.metrics import FACTS, HEADLINE

SCALES = ("paper", "small", "cpu")  # the paper's; an hour of one GPU; two cores
VARIANTS = ("text", "code")  # where the authors' code differs from what their text says
# What a result does not depend on: where the data lie, and where and how fast it is computed.
FREE = {
    "data": ("root", "workers", "cache", "cache_gb"),
    "train": ("device", "threads", "compile", "metrics"),
}
UNSEEN = "unseen: nothing was chosen by it"
# The fields of a rule that say where it holds.
WHERE = ("scale", "variant", "row", "column")


class Published(NamedTuple):
    """A number as it is printed."""

    mean: float
    spread: float | None


@dataclass(frozen=True)
class Cell:
    """One run, for one number of a table or one curve of a figure.

    Cells with the same key are the same run: tables share them with figures, and Table 6 reads four numbers,
    told apart by ``test`` and ``measure``, off one.
    """

    table: str
    scale: str
    row: str
    column: str
    seed: int
    settings: dict[str, Any]  # for Config.resolve: what `selc train --config` could run alone
    published: float | None = None
    published_spread: float | None = None
    note: str = ""
    skip: str = ""  # why it cannot run here; empty if it can
    test: str = "test"  # which of the data's test sets the number is measured on
    measure: str = HEADLINE  # any metric of which 1 is best: tables are in %, and the largest number is bold

    def config(self) -> Config:
        """The configuration with every setting spelled out."""
        return _resolved(json.dumps(self.settings, sort_keys=True))

    def key(self) -> str:
        """A hash of everything that the result depends on, the seed included."""
        return _key(json.dumps(self.settings, sort_keys=True))


@cache  # a runner asks for a thousand again and again, and to check one takes milliseconds
def _resolved(settings: str) -> Config:
    return Config.resolve(json.loads(settings))


@cache
def _key(settings: str) -> str:
    content = _resolved(settings).model_dump(mode="json")
    for section, names in FREE.items():
        for name in names:
            content[section].pop(name, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Scale:
    """How much of a table is run, and how: ``what`` is the sentence for the caption."""

    name: str
    what: str
    settings: dict[str, Any]
    blocks: tuple[dict[str, Any], ...]  # rows x columns x seeds


@dataclass(frozen=True)
class Table:
    """A table or figure: ``rows`` and ``columns`` are those that are printed in the paper.

    A printed row without cells has published numbers only; a cell may be of a row or column of ours.
    """

    name: str
    title: str
    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    scales: dict[str, Scale]
    kind: str = "table"  # or "figure", or "suite": not of the paper
    numbers: dict[str, dict[str, str]] = field(default_factory=dict)  # row -> column -> as printed
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)  # row -> [method]
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # column -> settings, `of`, `test`, `measure`
    rules: tuple[dict[str, Any], ...] = ()
    theirs: str = "paper's"  # whose the numbers are; or "published", if they are of another publication
    unseen: tuple[str, ...] = ()  # columns by which nothing may be chosen

    def cells(self, scale: str, variant: str = "text") -> list[Cell]:
        """The runs at a scale, in the order of the table; those that cannot run here say why."""
        if scale not in self.scales:
            raise unknown(f"a scale of {self.name}", scale, self.scales)
        if variant not in VARIANTS:
            raise unknown("a variant", variant, VARIANTS)
        return list(self._cells(self.scales[scale], variant))

    def published(self, row: str, column: str) -> Published | None:
        """What the paper prints there; for a column on other data, what it prints for the same noise."""
        found = re.fullmatch(r"([\d.]+)(?: ± ([\d.]+))?", self.printed(row, column))
        return found and Published(float(found[1]), float(found[2]) if found[2] else None)

    def printed(self, row: str, column: str) -> str:
        """The same as the paper's characters: a number, "fail", or "" for a dash."""
        text = self.numbers.get(row, {}).get(self.of(column), "-")
        return "" if text == "-" else text

    def of(self, column: str) -> str:
        """The printed column that a column stands for; itself if it is one."""
        return str(self.settings.get(column, {}).get("of", column))

    def _cells(self, scale: Scale, variant: str) -> Iterator[Cell]:
        for block in scale.blocks:
            for column in block["columns"]:
                for row in block["rows"]:
                    yield from self._runs(scale, variant, row, column, block)

    def _runs(self, scale: Scale, variant: str, row: str, column: str, block: Mapping[str, Any]) -> Iterator[Cell]:
        own = dict(self.settings.get(column, {}))
        own.pop("of", None)
        test, measure, notes = own.pop("test", "test"), own.pop("measure", HEADLINE), [own.pop("note", "")]
        notes.append(block.get("note", ""))
        settings = laid_over(copy.deepcopy(scale.settings), own)
        settings = laid_over(settings, {"method": self.methods[row]})
        if column in self.unseen:
            notes.append(UNSEEN)
        skip = block.get("skip", "") or lacking(own)
        here = {"scale": scale.name, "variant": variant, "row": row, "column": column}
        for rule in self.rules:
            if fits(rule, here):
                settings = laid_over(settings, rule.get("settings", {}))
                notes.append(rule.get("note", ""))
                skip = rule.get("skip", skip)
        if lost := missing(own, settings):
            raise ConfigError(
                f"the settings of column {column!r} of {self.name} must reach its cells; got a rule that gives the "
                f"section of {lost[0]} another name, which drops it. Set it in a later rule."
            )
        number = self.published(row, column)
        for seed in block["seeds"]:
            yield Cell(
                table=self.name,
                scale=scale.name,
                row=row,
                column=column,
                seed=seed,
                settings=laid_over(copy.deepcopy(settings), {"train": {"seed": seed}}),
                published=number.mean if number else None,
                published_spread=number.spread if number else None,
                note="; ".join(note for note in notes if note),
                skip=skip,
                test=test,
                measure=measure,
            )


def laid_over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``, section by section; a section that gets another name starts anew."""
    for key, value in above.items():
        old = below.get(key)
        if isinstance(value, Mapping) and isinstance(old, dict) and not _renamed(old, value):
            below[key] = laid_over(old, value)
        else:
            below[key] = copy.deepcopy(value)
    return below


def lacking(column: Mapping[str, Any]) -> str:
    """The files of a column's data that are not here, in a few words; empty if there are all."""
    data = column.get("data", {})
    gone = [data[name] for name in ("path", "test") if name in data and not Path(data[name]).exists()]
    return f"needs {gone[0]}" if gone else ""


def missing(wanted: Mapping[str, Any], settings: Mapping[str, Any], above: str = "") -> list[str]:
    """The settings, such as data.labels, that are wanted and not there in any form."""
    found: list[str] = []
    for key, value in wanted.items():
        if key not in settings:
            found.append(above + key)
        elif isinstance(value, Mapping):
            found += missing(value, settings[key], f"{above}{key}.")
    return found


def _renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return "name" in old and "name" in new and old["name"] != new["name"]


def fits(rule: Mapping[str, Any], here: Mapping[str, str]) -> bool:
    """Whether every pattern of the rule (one, or several of which one must match) matches."""
    for where in WHERE:
        patterns = rule.get(where, "*")
        if not any(fnmatchcase(here[where], p) for p in ([patterns] if isinstance(patterns, str) else patterns)):
            return False
    return True


def names() -> list[str]:
    """All tables and figures, tables first."""
    found = [entry.name.removesuffix(".toml") for entry in (files("selc.bench") / "tables").iterdir()]
    kinds = ("table", "figure", "human", "suite")
    return sorted(found, key=lambda name: (next(k for k, kind in enumerate(kinds) if name.startswith(kind)), name))


@cache
def load(name: str) -> Table:
    """A table or figure by name."""
    if name not in names():
        raise unknown("a table or figure", name, names())
    return parse(_read(f"tables/{name}.toml"), _read("methods.toml")["rows"])


def parse(content: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]) -> Table:
    """The content of a file as a table; ``methods`` says what the rows are that it does not define itself."""
    own = content.get("methods", {})
    rows, columns = tuple(content["rows"]), tuple(content["columns"])
    numbers: dict[str, dict[str, str]] = {}
    for row, printed in content.get("published", {}).items():
        if len(printed) != len(columns):
            raise ConfigError(f"{content['name']}: {row!r} must have {len(columns)} numbers; got {len(printed)}.")
        numbers[row] = dict(zip(columns, printed, strict=True))
    known = [name for name in FACTS if FACTS[name].best == 1]
    for column, settings in content.get("settings", {}).items():
        if (measure := settings.get("measure", HEADLINE)) not in known:
            raise unknown(f"the measure of {column!r}", measure, known)
    scales = {}
    for name, scale in content["scales"].items():
        blocks = tuple({"rows": rows, "columns": columns, "seeds": [0], **block} for block in scale["blocks"])
        scales[name] = Scale(name, scale["what"], scale.get("settings", {}), blocks)
    used = dict.fromkeys(row for scale in scales.values() for block in scale.blocks for row in block["rows"])
    return Table(
        name=content["name"],
        title=content["title"],
        caption=content["caption"],
        rows=rows,
        columns=columns,
        scales=scales,
        kind=content.get("kind", "table"),
        numbers=numbers,
        methods={row: dict(own.get(row) or methods[row]) for row in used},
        settings={name: dict(column) for name, column in content.get("settings", {}).items()},
        rules=tuple(content.get("rules", ())),
        theirs=content.get("theirs", "paper's"),
        unseen=tuple(content.get("unseen", ())),
    )


def _read(path: str) -> dict[str, Any]:
    return tomllib.loads(files("selc.bench").joinpath(path).read_text(encoding="utf-8"))
