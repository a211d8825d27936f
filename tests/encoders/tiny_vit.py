"""A small random ViT in Hugging Face's format."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.encoders.test_directory import W, vit


def write_vit(place: Path) -> Path:
    """Two layers, for images of 16 pixels; always the same weights."""
    place.mkdir()
    generator = torch.Generator().manual_seed(0)
    weights = {k: 0.2 * torch.randn(*s, generator=generator) for k, s in vit().items()}
    save_file(weights, place / "model.safetensors")
    about = {"model_type": "vit", "hidden_size": W, "num_hidden_layers": 2, "num_attention_heads": 2}
    about |= {"intermediate_size": 12, "patch_size": 8, "image_size": 16}
    (place / "config.json").write_text(json.dumps(about))
    return place
