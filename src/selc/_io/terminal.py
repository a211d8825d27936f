"""Long lines in a terminal: broken between words, which a terminal itself does not do."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import IO

_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z(])|(?<=:) (?=\()")


def folded(text: str, stream: IO[str], sentences: bool = False) -> str:
    """``text`` in lines that fit the terminal that ``stream`` is; elsewhere, such as in a pipe, as it is.

    A word that is longer than the screen, such as a path, stays whole. ``sentences``: each begins a line of its own.
    """
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 40)
    parts = _SENTENCE.split(text) if sentences else [text]
    lines = [
        line
        for place, part in enumerate(parts)
        for line in textwrap.wrap(
            part,
            width,
            initial_indent="  " if place else "",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
    return "\n".join(lines)
