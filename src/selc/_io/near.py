"""What lies beside a path that does not exist, for errors."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path


def near_by(place: Path) -> str:
    """What in the folder of ``place`` is called nearly so, as a question; "" if nothing is."""
    folder = place.parent
    try:
        there = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    except OSError:
        missing = next(parent for parent in folder.parents if parent.is_dir())
        return f" There is no {folder.relative_to(missing).parts[0]!r} in {missing}."
    near = get_close_matches(place.name, there, n=3, cutoff=0.6)
    lower = {name.lower(): name for name in there}
    if not near and place.name.lower() in lower:
        near = [lower[place.name.lower()]]
    if not near:
        return ""
    said = [f"the folder {name!r}" if (folder / name).is_dir() else f"the file {name!r}" for name in near]
    return f" Did you mean {' or '.join(said)}?"
