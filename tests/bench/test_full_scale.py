"""What docs/reproduction.md expects of the full scale follows from the results that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from selc.bench.table import load

ROOT = Path(__file__).parents[2]
# Of each row: the published table, and the columns of the tables and of all methods that stand for it at the scale cpu.
ROWS = {
    "CIFAR-10 sym 20%": ("table1", "digits sym 20%", "digits, symmetric 0.2"),
    "CIFAR-10 sym 40%": ("table1", "digits sym 40%", "digits, symmetric 0.4"),
    "CIFAR-10 sym 60%": ("table1", "digits sym 60%", "digits, symmetric 0.6"),
    "CIFAR-10 asym 40%": ("table1", "digits pair 40%", "digits, pair 0.4"),
    "SEAL 20%": ("table2", "features SEAL 20%", "features, seal_0.2"),
}


def table_with(path: str, *columns: str) -> list[list[str]]:
    """The first table whose head names the columns, head and rows as cells."""
    lines = [line for line in (ROOT / path).read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    first = next(i for i, head in enumerate(cells) if all(any(c == h.split("<")[0] for h in head) for c in columns))
    last = next((i for i in range(first + 2, len(cells)) if set(cells[i][0]) == {"-"}), len(cells) + 1) - 1
    return [cells[first], *cells[first + 2 : last]]


def number(table: list[list[str]], named: str, row: str, column: str) -> float:
    head = [name.split("<")[0] for name in table[0]]
    names = head.index(named)
    line = next(cells for cells in table[1:] if cells[names].strip("*") == row)
    return float(line[head.index(column)].strip("*").split()[0].strip("*"))


@pytest.mark.parametrize("name", ROWS)
def test_expected_numbers_follow_from_the_small_scale(name: str) -> None:
    of, small, methods = ROWS[name]
    page = table_with("docs/reproduction.md", "noise", "automatic SELC, expected")
    assert {cells[0] for cells in page[1:]} == set(ROWS)
    said = next(cells for cells in page[1:] if cells[0] == name)

    plain, ours = (load(of).published(row, name) for row in ("Cross Entropy", "SELC"))
    assert plain is not None
    assert ours is not None
    table = table_with("benchmarks/results/tables-cpu.md", "method", small)
    before, constants = (number(table, "method", row, small) for row in ("Cross Entropy", "SELC"))
    automatic = number(table_with("benchmarks/results/methods.md", "method", methods), "method", "selc", methods)
    share = (automatic - before) / (constants - before)
    expected = plain.mean + share * (ours.mean - plain.mean)
    assert said[1:] == [f"{plain.mean:.2f}", f"{ours.mean:.2f}", f"{share:.2f}", f"{expected:.1f}"], (
        "the results have changed: mend the table of docs/reproduction.md, and its words"
    )
