"""An encoder that a person can follow, in the place of the trained ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from selc.encoders import ENCODERS, Trained
from selc.encoders.base import About, shown_at
from tests.own_data.miniature import folder


class Means(nn.Module):
    """The mean and the largest value of each channel."""

    seen = 0  # images that went through it

    def forward(self, x: Tensor) -> Tensor:
        Means.seen += len(x)
        return torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)


def means(side: int, *, size: int = 0, flip: bool = False) -> Trained:
    """The means of the channels."""
    return Trained(Means(), shown_at(size, side, 224), ((0.0,) * 3, (1.0,) * 3), flip)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the encoder that is best here."""
    monkeypatch.setitem(ENCODERS._entries, "means", means)
    monkeypatch.setitem(ENCODERS.about, "means", About("none needed", "here", "nothing", lambda: True, 99))
    Means.seen = 0
    return "means"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv("SELC_CACHE", str(place))
    return place


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """36 images of 40 x 60 pixels in three classes."""
    return folder(tmp_path / "photos", each=12, size=(40, 60))
