"""docs/annotation-tools.md shows what is written, and names every tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from selc.errors import InputError
from selc.review.exchange import TOOLS
from selc.review.exchange.tools.base import Sheet

PAGE = (Path(__file__).parents[2] / "docs" / "annotation-tools.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def setup(tool: str) -> str:
    return TOOLS[tool]().setup(Sheet("", ["cat", "dog"], [], images="images" in TOOLS[tool].shows))


def test_the_page_shows_the_setup_of_each_tool() -> None:
    assert blocks("xml") == [setup("label-studio")]
    doccano, cvat = blocks("json")
    assert doccano == setup("doccano")
    assert json.loads(cvat) == json.loads(setup("cvat"))[0]
    for tool in TOOLS:
        assert tool in PAGE.lower()


@pytest.mark.parametrize("tool", ["label-studio", "cvat"])
def test_names_that_xml_cannot_hold_are_refused(tool: str) -> None:
    from selc.review.exchange.tools.base import Item

    item = Item("a\x01.png", "a\x01.png", "cat\x01", "cat\x01", 0.9, 0.1, (4, 4))
    sheet = Sheet("", ["cat\x01", "dog"], [item], images=True)
    write = TOOLS[tool]().setup if tool == "label-studio" else TOOLS[tool]().tasks
    with pytest.raises(InputError, match="printable"):
        write(sheet)
