"""What needs a GPU; on the list of tests that may skip."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import selc
from selc.data import Bundle, moons

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SETTINGS: dict[str, Any] = {"epochs": 5, "lr": 0.05, "schedule": "constant", "options": {"start": 2}}


def points(bundle: Bundle) -> Tensor:
    return torch.cat(list(bundle.inputs.stream([torch.arange(len(bundle.inputs))], None)))


@needs_gpu
def test_a_gpu_trains_to_the_same_accuracy_as_the_cpu() -> None:
    bundle = moons()
    accuracies = []
    for device in ("cpu", "cuda"):
        outcome = selc.fit(points(bundle), bundle.labels, device=device, precision="fp32", **SETTINGS)
        accuracies.append((outcome.corrected_labels.cpu() == bundle.labels).float().mean().item())
    assert abs(accuracies[0] - accuracies[1]) < 0.02


@needs_gpu
def test_mixed_precision_on_a_gpu_records_finite_losses() -> None:
    bundle = moons()
    outcome = selc.fit(points(bundle), bundle.labels, device="cuda", precision="bf16", **SETTINGS)
    assert bool(torch.isfinite(outcome.losses).all())
    assert outcome.losses.dtype == torch.float32
