"""Two small sets that need no download: real scans of digits, and two moons."""

from __future__ import annotations

import math

import torch

from selc.data.base import Bundle, Facts, Recipe, dataset
from selc.data.inputs.arrays import ArrayInputs
from selc.errors import ConfigError
from selc.seeding import generator
from selc.types import EvalSet

# One thread: the work is small, and threads that wait for each other on shared cores cost many times its time.
_PLAIN = {"batch_size": 128, "schedule": "constant", "weight_decay": 0.0, "threads": 1}


@dataset("digits", Recipe(net="mlp", plan={"epochs": 60, "lr": 0.002, **_PLAIN}), Facts(1257, 0, 540, 10, "8 x 8"))
def digits() -> Bundle:
    """1,797 scans of handwritten digits, 8 x 8 pixels, 10 classes (from scikit-learn)."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigError(
            "data 'digits' needs scikit-learn, whose wheel holds the scans; got no such package. "
            "Install it: pip install 'selc[sklearn]'."
        ) from None
    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(images).float().view(-1, 1, 8, 8)  # values 0 to 16, as scikit-learn hands them out
    y = torch.from_numpy(labels).long()
    order = torch.randperm(len(y), generator=generator("digits", "split"))
    test, train = order[:540], order[540:]
    return Bundle(
        inputs=ArrayInputs(x[train]),
        labels=y[train],
        true=y[train],
        classes=tuple("0123456789"),
        shape=(1, 8, 8),
        tests={"test": EvalSet(ArrayInputs(x[test]), y[test])},
    )


@dataset("moons", Recipe(net="mlp", plan={"epochs": 40, "lr": 0.01, **_PLAIN}), Facts(2000, 0, 1000, 2, "2"))
def moons() -> Bundle:
    """2,000 points on two interleaved half circles, 2 classes (drawn by selc)."""

    def half_circles(count: int, part: str) -> tuple[torch.Tensor, torch.Tensor]:
        rng = generator("moons", part)
        y = torch.arange(count) % 2
        angle = torch.rand(count, generator=rng) * math.pi
        x = torch.stack([angle.cos(), angle.sin()], 1)
        x = torch.where(y[:, None] == 1, torch.tensor([1.0, 0.5]) - x, x)
        return x + 0.15 * torch.randn(count, 2, generator=rng), y

    x, y = half_circles(2000, "train")
    x_test, y_test = half_circles(1000, "test")
    return Bundle(
        inputs=ArrayInputs(x),
        labels=y,
        true=y,
        classes=("upper", "lower"),
        shape=(2,),
        tests={"test": EvalSet(ArrayInputs(x_test), y_test)},
    )
