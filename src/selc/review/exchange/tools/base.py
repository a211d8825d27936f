"""What an annotation tool is asked for, and what passes to it and back."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

from selc.errors import InputError
from selc.registry import Registry

DROP = "(drop)"  # the choice beside the classes: the sample is of none of them, or of no use
SET_UP = ".setup"  # the settings of a project go beside its tasks, as NAME.setup.ENDING
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Content = list[dict[str, Any]] | ET.Element  # of an export: objects, one per sample, or XML


class Item(NamedTuple):
    """A sample as a tool shows it: its ``view`` is a text, or the address of an image."""

    sample_id: str
    view: str
    given: str
    suggested: str
    confidence: float  # of the suggestion
    quality: float  # of the given label, in [0, 1]; low is bad
    size: tuple[int, int] = (0, 0)  # width and height of an image, for tools that ask for it

    def about(self) -> dict[str, Any]:
        """What a tool hands back with the answer, or shows beside the sample."""
        return {"sample_id": self.sample_id, "given_label": self.given, "label_quality": self.quality}


class Sheet(NamedTuple):
    """The samples of one export."""

    run: str  # fingerprint of the labels, so that answers are not taken for those on others
    classes: Sequence[str]
    items: Sequence[Item]
    images: bool  # whether the views are images

    @property
    def choices(self) -> list[str]:
        return [*self.classes, DROP]


class Answer(NamedTuple):
    """What was chosen for a sample; no label: nobody has judged it."""

    sample_id: str
    labels: tuple[str, ...]
    run: str | None = None  # None: the tool does not hand it back
    given: str | None = None


@dataclass(frozen=True)
class Answers:
    """All of a file, with what a person should know of how it was read."""

    made: Sequence[Answer]
    notes: Sequence[str] = ()


class Tool(ABC):
    """How one annotation tool reads tasks and writes answers."""

    shows: ClassVar[str] = "images and texts"
    ending: ClassVar[str]  # of the file of tasks
    setup_ending: ClassVar[str] = ""  # of the file with the settings; empty: it needs none
    needs_size: ClassVar[bool] = False  # whether each image must have its width and height
    needs_files: ClassVar[bool] = False  # whether images must be files, and not part of the tasks
    steps: ClassVar[str]  # what to do with the files, in a line

    def prefix(self, root: Path) -> str:
        """What stands before the path of an image in the folder ``root``, unless the user says otherwise."""
        return ""

    @abstractmethod
    def tasks(self, sheet: Sheet) -> str:
        """The file that the tool imports."""

    def setup(self, sheet: Sheet) -> str:
        """The settings of a project for these tasks, to be pasted or imported."""
        return ""

    @abstractmethod
    def wrote(self, content: Content) -> bool:
        """Whether ``content`` is an export of this tool."""

    @abstractmethod
    def answers(self, content: Content, where: str) -> Answers:
        """What the export says; ``where`` names the file in errors."""


TOOLS: Registry[type[Tool]] = Registry("the tool")


def address(prefix: str, path: str) -> str:
    """The place of a file as a tool asks for it; in a web address, letters with a meaning of their own are escaped."""
    return prefix + (quote(path) if prefix.startswith(("http://", "https://")) or "?" in prefix else path)


def as_list(rows: Sequence[Any]) -> str:
    """A JSON list with an entry in each line."""
    return "[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]\n"


def as_xml(top: ET.Element) -> str:
    """The text of XML, or an error where a name has a letter that XML cannot hold."""
    ET.indent(top)
    text = ET.tostring(top, encoding="unicode")
    if strange := _NOT_IN_XML.search(text):
        raise InputError(f"names of classes and samples must be printable to be exported; got {strange[0]!r} in one.")
    return text + "\n"


def text_of(entry: Any, key: str, where: str) -> str:
    """A text in an object that came from elsewhere."""
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise InputError(
            f"{where} must have the text {key!r} that `selc export` wrote; got {value!r:.80}. Give the export of a "
            "project with these tasks only."
        )
    return value


def chosen_of(labels: Any, where: str) -> tuple[str, ...]:
    """The labels that were chosen, each once."""
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"{where} must have a list of labels; got {labels!r:.80}.")
    return tuple(dict.fromkeys(labels))
