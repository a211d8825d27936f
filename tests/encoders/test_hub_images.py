"""`selc.fit` on a Hugging Face dataset of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import selc
from selc.errors import ConfigError
from selc.runs.predict import predict
from tests.encoders.conftest import Means
from tests.own_data.miniature import COLOURS, encoded, folder, picture
from tests.own_data.test_hub import Dataset


def photographs() -> Dataset:
    labels = [name for name in COLOURS for _ in range(12)]
    images = [{"bytes": encoded(picture(n, k % 12, (40, 40))), "path": None} for k, n in enumerate(labels)]
    return Dataset(pa.table({"image": images, "label": labels}))


def test_images_are_seen_through_the_encoder_unless_a_network_is_given(
    encoder: str, cache: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"method": "ce", "epochs": 20, "lr": 0.05}
    selc.fit(photographs(), out=tmp_path / "run", **settings)
    assert Means.seen >= 36
    found = predict(tmp_path / "run", folder(tmp_path / "new", each=2, size=(40, 40), first=40))
    assert [found.classes[k] for k in found.probs.argmax(1).tolist()] == [name for name in COLOURS for _ in range(2)]
    Means.seen = 0
    selc.fit(photographs(), encoder="none", net="mlp", **{**settings, "epochs": 1})
    selc.fit(photographs(), net="mlp", **{**settings, "epochs": 1})
    assert Means.seen == 0


def test_an_encoder_is_for_images_of_such_datasets() -> None:
    with pytest.raises(ConfigError, match="images of a Hugging Face dataset; got x of type list"):
        selc.fit([[1.0], [2.0]], [0, 1], encoder="efficientnet-lite0")
