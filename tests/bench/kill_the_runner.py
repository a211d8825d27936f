"""The runner that a test kills; apart, so that its process imports no test."""

from __future__ import annotations

from selc.bench.runner import Machine, Places, look, run
from tests.bench.miniature import cells


def fill_the_miniature(places: Places, epochs: int) -> None:
    run(look(cells(epochs), places), Machine(workers=2), places, say=lambda text: None)
