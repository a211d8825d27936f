"""Who is told how far the reading of data has come. By default nobody is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int], None]  # (done, total)

report: Report | None = None  # whoever shows progress puts a function here


@contextmanager
def reporting(to: Report) -> Iterator[None]:
    """Tell ``to`` about everything that is read inside."""
    global report
    before, report = report, to
    try:
        yield
    finally:
        report = before


def tell(done: int, total: int, to: Report | None = None) -> None:
    """Tell ``to``, or else whoever listens."""
    listener = to or report
    if listener is not None:
        listener(done, total)
