"""The pictures of docs/architecture.md are those of the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.test_layers import LAYERS, SOURCE, part

PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
ARROWS = re.findall(r"^  (\w+) -->\|(\w+)\| (\w+)$", PAGE, re.MULTILINE)


@cache
def names_of(room: str) -> set[str]:
    """Every class that a room defines or imports from another room of ours."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if part(path) != room:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("selc."):
                found |= {alias.name for alias in node.names}
    return found


def test_every_arrow_is_a_type_that_both_its_ends_know() -> None:
    assert len(ARROWS) == PAGE.count("-->") > 10
    known = {room: names_of(room) for arrow in ARROWS for room in (arrow[0], arrow[2])}
    wrong = [arrow for arrow in ARROWS if not {arrow[1]} <= known[arrow[0]] & known[arrow[2]]]
    assert not wrong, wrong


def test_the_rooms_are_those_of_the_layers_in_their_order() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == LAYERS
