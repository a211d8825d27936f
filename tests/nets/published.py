"""torchvision and timm for tests, where they are installed."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch

_stub: torch.library.Library | None = None  # it must stay alive


def published_library(name: str) -> Any:
    """``torchvision.models`` or ``timm``; skips the test without it.

    The torchvision wheel of the package index is built for CUDA. With a CPU torch its operators do not load, but its
    models need none of them: they only must have been declared.
    """
    global _stub
    if importlib.util.find_spec("torchvision") is None or importlib.util.find_spec(name.split(".")[0]) is None:
        pytest.skip(f"needs {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their own, about parts that are not used here
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            _stub = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                _stub.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module(name)
