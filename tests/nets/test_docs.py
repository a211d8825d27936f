"""docs/networks.md says what the registry holds, and its example runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from selc.nets import NETS, SMALLEST, create
from tests.nets.test_networks import STEMMED, count, on_meta

PAGE = (Path(__file__).parents[2] / "docs" / "networks.md").read_text()
TABLE = next(part for part in PAGE.split("\n\n") if part.startswith("| name |")).splitlines()[2:]
CELLS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE]
ROWS = {cells[0].strip("`"): cells[1:] for cells in CELLS}


def number(cell: str) -> int | None:
    return int(cell.replace(",", "")) if cell.replace(",", "").isdigit() else None


def test_the_table_names_every_network_once() -> None:
    assert sorted(ROWS) == list(NETS)
    assert len(CELLS) == len(NETS)


@pytest.mark.parametrize("name", NETS)
def test_the_table_has_its_parameters_and_smallest_image(name: str) -> None:
    parameters, with_imagenet_stem, smallest = (number(cell) for cell in ROWS[name][:3])
    side = max(32, SMALLEST.get(name, 0))
    assert parameters == count(on_meta(name, 10, (3, side, side)))
    expected = count(on_meta(name, 10, (3, 224, 224))) if name in STEMMED else None
    assert with_imagenet_stem == expected
    assert smallest == SMALLEST.get(name)


def test_the_example_of_an_own_network_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert code is not None
    (tmp_path / "mynets.py").write_text(code[1])
    monkeypatch.chdir(tmp_path)
    try:
        net = create("import:mynets:Small", 10, (1, 8, 8), {"width": 32})
    finally:
        sys.modules.pop("mynets", None)
    assert net(torch.zeros(3, 1, 8, 8)).shape == (3, 10)
