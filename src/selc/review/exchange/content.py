"""Files of annotation tools, read as text of three kinds: JSON, JSON lines, XML. They are not believed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from selc._io.files import in_short
from selc.errors import InputError
from selc.review.exchange.tools.base import Content


def read_content(path: Path) -> Content | None:
    """The objects or the XML of a file; None for any other JSON, such as the one object that the review page saves."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"decisions must be a file that can be read; got {path}: {error.strerror}.") from None
    if data[:2] == b"PK":
        raise InputError(f"decisions must be unpacked; got {path}, a zip file. Give the file that is inside.")
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip()[:1] == "<":
            return _xml(text)
        return _objects(text)
    except (ValueError, RecursionError, ET.ParseError) as error:
        raise InputError(
            f"decisions must be a whole file of JSON, JSON lines or XML, as the review page or an annotation tool "
            f"saves it; got {path}, which is none: {in_short(error)}. Save it again: the work is still in the browser "
            "or in the tool."
        ) from None


def _xml(text: str) -> ET.Element:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:  # definitions can make a small file grow without end
        raise ValueError("definitions of its own (DOCTYPE)")
    return ET.fromstring(text)


def _objects(text: str) -> list[dict[str, Any]] | None:
    try:
        content = json.loads(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]  # other ends of lines may stand in a text
        if len(lines) < 2:
            raise
        content = [json.loads(line) for line in lines]
    else:
        if isinstance(content, dict) and "decisions" not in content and "format" not in content:
            content = [content]  # JSON lines, of which there is one
    whole = isinstance(content, list) and all(isinstance(row, dict) for row in content)
    return content if whole else None
