"""How much work Python does: what a test may bound where a clock would measure the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """How many instructions Python executes for ``work`` in this thread; what a library does in C is not counted."""
    count = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return inside

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    before = sys.gettrace()  # of a debugger, or of what measures coverage
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
