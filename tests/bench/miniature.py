"""A table of two methods, two columns and two seeds that trains in a second, and lines of results by hand."""

from __future__ import annotations

from typing import Any

from selc.bench.table import Cell, laid_over

ROWS: dict[str, dict[str, Any]] = {"CE": {"name": "ce"}, "SELC": {"name": "selc", "start": 1, "alpha": 0.5}}
RATES = {"moons 20%": 0.2, "moons 40%": 0.4}


def cell(row: str = "CE", column: str = "moons 20%", seed: int = 0, epochs: int = 2, **fields: Any) -> Cell:
    settings: dict[str, Any] = {
        "data": {"name": "moons"},
        "noise": {"name": "symmetric", "rate": RATES[column]},
        "method": dict(ROWS[row]),
        "net": {"name": "mlp", "hidden": [8]},
        "train": {"epochs": epochs, "seed": seed, "threads": 1},
    }
    return Cell("mini", "cpu", row, column, seed, settings, **fields)


def cells(epochs: int = 2) -> list[Cell]:
    return [cell(row, column, seed, epochs) for column in RATES for row in ROWS for seed in (0, 1)]


def line(of: Cell, accuracy: float, **more: Any) -> dict[str, Any]:
    """As much of a line of results as the renderer reads."""
    sets = {"test": {"top1": accuracy}}
    return {"key": of.key(), "accuracy": sets, "seconds": 1.0, "commit": "abc", "selc": "0", "torch": "2", **more}


def shrunk(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings for the miniatures: fewer rows, and no weights from the network."""
    smaller = laid_over({}, settings)
    for key, few in (("rows", 20), ("test_rows", 5)):
        if smaller["data"].get(key):
            smaller["data"][key] = few
    if "weights" in smaller.get("net", {}):
        smaller["net"]["weights"] = "none"
    return smaller
