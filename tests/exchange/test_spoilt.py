"""Exports that are not whole, or not what the tool wrote: an error with a sentence, and never a label nobody chose."""

from __future__ import annotations

import copy
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from selc.errors import InputError
from selc.review.exchange import TOOLS, export, read_decisions
from selc.review.exchange.tools.base import DROP
from selc.runs import RunFolder
from tests.exchange.answering import ANSWERED

STRANGE: tuple[Any, ...] = (None, True, 7, -1.5, "", "x", [], [7], ["x"], {}, {"x": 1})
GONE = object()


class Chosen(dict[str, str | None]):
    """What a person chose: of the first sample that is asked for its given label, of the second to drop it."""

    def __init__(self, run: RunFolder) -> None:
        self.labels = {sample: run.classes[k] for sample, k in zip(run.ids, run.given.tolist(), strict=True)}

    def __missing__(self, sample: str) -> str | None:
        self[sample] = DROP if self else self.labels[sample]
        return self[sample]


class Case(NamedTuple):
    """A run, what a tool exports of two of its samples, and what was chosen."""

    run: RunFolder
    text: str
    chosen: Chosen
    place: Path

    def read(self, text: str | bytes) -> bool:
        """Whether a file is refused with a sentence, or read without a verdict that nobody gave."""
        self.place.write_bytes(text.encode() if isinstance(text, str) else text)
        try:
            made, _ = read_decisions(self.place, self.run)
        except InputError as error:
            return len(error.for_command) > 40
        verdicts = {sample: verdict for sample, verdict in made.made.items() if verdict.verdict != "skip"}
        said = {sample: DROP if verdict.label is None else verdict.label for sample, verdict in verdicts.items()}
        return said.items() <= self.chosen.items()


@pytest.fixture
def case(tool: str, request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    run: RunFolder = request.getfixturevalue("reviews" if "images" not in TOOLS[tool].shows else "photos")
    chosen = Chosen(run)
    text = ANSWERED[tool](export(run, tool, tmp_path / "tasks", top=2).tasks.read_text(), chosen)
    return Case(run, text, chosen, tmp_path / "answers")


def changes(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place in a document, with each strange thing to be put there."""
    if where:
        yield from ((where, strange) for strange in (GONE, *STRANGE))
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in inner:
            yield from changes(below, (*where, key))


def changed(document: Any, where: tuple[Any, ...], strange: Any) -> Any:
    document = copy.deepcopy(document)
    place = document
    for key in where[:-1]:
        place = place[key]
    if strange is GONE:
        del place[where[-1]]
    else:
        place[where[-1]] = strange
    return document


@pytest.mark.parametrize("tool", TOOLS)
def test_a_file_that_was_cut_off_is_refused_or_says_less(case: Case) -> None:
    data = case.text.encode()
    for length in {*range(0, len(data), 37), *range(len(data) - 40, len(data) + 1)}:
        assert case.read(data[:length]), length


@pytest.mark.parametrize("tool", [name for name in TOOLS if TOOLS[name].ending != ".xml"])
def test_a_strange_value_anywhere_is_refused_or_changes_no_verdict(case: Case) -> None:
    lines = not case.text.startswith("[")
    document = [json.loads(line) for line in case.text.splitlines()] if lines else json.loads(case.text)
    for where, strange in changes(document):
        spoilt = changed(document, where, strange)
        written = "\n".join(json.dumps(row) for row in spoilt) if lines else json.dumps(spoilt)
        assert case.read(written), (where, strange)


@pytest.mark.parametrize("tool", [name for name in TOOLS if TOOLS[name].ending == ".xml"])
def test_a_strange_attribute_or_text_in_xml_is_refused_or_changes_no_verdict(case: Case) -> None:
    for place, element in enumerate(ET.fromstring(case.text).iter()):
        for name in (*element.keys(), "text", "below"):
            for strange in ("", "x", "7"):
                top = ET.fromstring(case.text)
                spoilt = list(top.iter())[place]
                if name == "text":
                    spoilt.text = strange
                elif name == "below":
                    del spoilt[:]
                else:
                    spoilt.set(name, strange)
                assert case.read(ET.tostring(top)), (place, element.tag, name, strange)
