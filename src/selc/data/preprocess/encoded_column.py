"""A column of free text as the sentence vectors of a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from selc.data.preprocess.features import Numbers
from selc.data.preprocess.text_column import Documents
from selc.data.preprocess.text_encoder import TextEncoder, encoder_by
from selc.errors import InputError


@dataclass(frozen=True)
class EncodedColumn:
    """Vectors, moved to mean zero and divided by one number: no direction is blown up to the size of another."""

    name: str
    model: str  # where it was
    digest: str  # of its weights
    title: str
    scale: float
    shift: Numbers  # [D]

    @property
    def width(self) -> int:
        return len(self.shift)

    @classmethod
    def learnt(cls, name: str, texts: Documents, encoder: TextEncoder) -> tuple[EncodedColumn, Numbers]:
        """The column of training rows, and what it makes of them."""
        x = encoder.remembered(texts.tolist())
        scale = float(np.sqrt(x.var(axis=0).mean()))
        if scale < 1e-9:
            raise InputError(f"the texts of column {name!r} must differ; got {len(x)} that are read as the same.")
        column = cls(name, str(encoder.folder), encoder.digest, encoder.name, scale, x.mean(axis=0) / scale)
        return column, x / scale - column.shift

    def apply(self, texts: Documents) -> Numbers:
        """Features [N, D]."""
        x = encoder_by(self.digest, self.model).remembered(texts.tolist())
        return x / self.scale - self.shift

    @property
    def what(self) -> str:
        return f"{self.width} features from the sentence vectors of {self.title} (--weights tf-idf: from its words)"

    def state(self) -> dict[str, Any]:
        """What of it is text, as JSON."""
        return {"name": self.name, "model": self.model, "sha256": self.digest, "title": self.title, "scale": self.scale}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What of it is numbers."""
        return {"shift": self.shift}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> EncodedColumn:
        name, model, digest, title = (str(state[key]) for key in ("name", "model", "sha256", "title"))
        return cls(name, model, digest, title, float(state["scale"]), arrays["shift"])
