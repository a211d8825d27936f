"""Real photographs, where they can be had: SELC_DATA names the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from selc.data import ImageInputs
from selc.data.sources.tables import table


def test_real_jpegs_in_parquet_have_the_published_mean_and_deviation() -> None:
    """CIFAR-10's channels: 0.4914 0.4822 0.4465 and 0.2470 0.2435 0.2616 over its training images."""
    source = Path(os.environ.get("SELC_DATA", ".")) / "cifar10" / "test.parquet"
    if not source.exists():
        pytest.skip("needs real images in SELC_DATA")
    bundle = table(path=str(source), workers=2)
    assert bundle.shape == (3, 32, 32)
    assert bundle.labels.bincount().tolist() == [1_000] * 10
    assert isinstance(bundle.inputs, ImageInputs)
    assert bundle.inputs.view.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=0.01)
    assert bundle.inputs.view.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=0.01)
