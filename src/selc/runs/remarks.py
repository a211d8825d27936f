"""What was noticed about data before a training: told to the user, and kept as ``data.json`` of a run folder has it."""

from __future__ import annotations

from typing import Any

from selc.callbacks import Callbacks
from selc.data import Bundle
from selc.runs.unusual import Unusual, unusual
from selc.world import current


def remarked(bundle: Bundle, callbacks: Callbacks, *, arrays: bool = False) -> dict[str, Any]:
    """Tell what was noticed about ``bundle``; returns the same to be kept, {} for nothing.

    ``arrays`` as of `unusual`, which one of several processes looks for.
    """
    odd = unusual(bundle, arrays=arrays) if current().leads else Unusual([], {})
    notes = [*bundle.notes, *odd.notes]
    for note in notes:
        callbacks.notice(note)
    if not (notes or bundle.skipped):
        return {}
    remarks = {"notes": notes, "skipped": [list(sample) for sample in bundle.skipped]}
    return remarks | ({"unusual": odd.record} if odd.record else {})
