"""Directories in Hugging Face's format, read without their library: tiny models whose answers transformers gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from selc.encoders import ENCODERS, choice_of, create
from selc.errors import ConfigError

Shapes = dict[str, Sequence[int]]
W = 8  # width


def linear(name: str, inputs: int = W, outputs: int = W) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": (W,), f"{name}.bias": (W,)}


def vit() -> Shapes:
    """The tensors of ViTModel, two layers, in the file that it saves."""
    shapes: Shapes = {"embeddings.cls_token": (1, 1, W), "embeddings.position_embeddings": (1, 5, W)}
    shapes |= {f"embeddings.patch_embeddings.projection.{k}": s for k, s in (("weight", (W, 3, 8, 8)), ("bias", (W,)))}
    for k in range(2):
        layer = f"encoder.layer.{k}"
        for part in ("attention.attention.query", "attention.attention.key", "attention.attention.value"):
            shapes |= linear(f"{layer}.{part}")
        shapes |= linear(f"{layer}.attention.output.dense")
        shapes |= linear(f"{layer}.intermediate.dense", W, 12) | linear(f"{layer}.output.dense", 12, W)
        shapes |= norm(f"{layer}.layernorm_before") | norm(f"{layer}.layernorm_after")
    return shapes | norm("layernorm")


def dinov2() -> Shapes:
    rename = {"layernorm_before": "norm1", "layernorm_after": "norm2"}
    shapes = {
        name: shape for name, shape in vit().items() if "intermediate" not in name and ".output.dense" not in name
    }
    for old, new in rename.items():
        shapes = {name.replace(old, new): shape for name, shape in shapes.items()}
    shapes["embeddings.mask_token"] = (1, W)
    for k in range(2):
        layer = f"encoder.layer.{k}"
        shapes |= linear(f"{layer}.attention.output.dense")
        shapes |= linear(f"{layer}.mlp.fc1", W, 16) | linear(f"{layer}.mlp.fc2", 16, W)
        shapes |= {f"{layer}.layer_scale{n}.lambda1": (W,) for n in (1, 2)}
    return shapes


def siglip() -> Shapes:
    shapes: Shapes = {"embeddings.position_embedding.weight": (4, W), "head.probe": (1, 1, W)}
    shapes |= {"embeddings.patch_embedding.weight": (W, 3, 8, 8), "embeddings.patch_embedding.bias": (W,)}
    for k in range(2):
        layer = f"encoder.layers.{k}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= linear(f"{layer}.self_attn.{part}")
        shapes |= linear(f"{layer}.mlp.fc1", W, 12) | linear(f"{layer}.mlp.fc2", 12, W)
        shapes |= norm(f"{layer}.layer_norm1") | norm(f"{layer}.layer_norm2")
    shapes |= {"head.attention.in_proj_weight": (3 * W, W), "head.attention.in_proj_bias": (3 * W,)}
    shapes |= linear("head.attention.out_proj") | norm("head.layernorm") | norm("post_layernorm")
    return shapes | linear("head.mlp.fc1", W, 12) | linear("head.mlp.fc2", 12, W)


TINY = {"hidden_size": W, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
MODELS: dict[str, tuple[Shapes, dict[str, Any]]] = {
    "vit": (vit(), {"intermediate_size": 12, "hidden_act": "gelu", "layer_norm_eps": 1e-12}),
    "dinov2": (dinov2(), {"mlp_ratio": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-6}),
    "siglip_vision_model": (siglip(), {"intermediate_size": 12}),
}
# transformers 5.23.0: the class token of the last hidden state (SigLIP: pooler_output), for 16 and 24 pixels.
ANSWERS = {
    "vit": (
        [0.0, 0.56289, 1.16066, 0.20007, 0.09833, 0.11141, -0.19548, -0.37745],
        [0.0, 0.5627, 1.16124, 0.19978, 0.09818, 0.11206, -0.19605, -0.37733],
    ),
    "dinov2": (
        [0.0, 0.20319, 1.54431, 0.25401, 0.01058, -0.1719, -0.07326, -0.34702],
        [0.0, 0.2027, 1.54566, 0.25417, 0.01113, -0.17413, -0.0737, -0.34641],
    ),
    "siglip_vision_model": (
        [0.7136, -1.63141, 1.77468, 2.4439, -2.70847, -1.83712, 2.22133, -0.60277],
        [0.71351, -1.63124, 1.77455, 2.44372, -2.70808, -1.83713, 2.22078, -0.60242],
    ),
}


def waves(count: int, step: float) -> Tensor:
    return torch.arange(count, dtype=torch.float64) * step


def saved(folder: Path, kind: str, prefix: str = "", **more: Any) -> Path:
    shapes, about = MODELS[kind]
    folder.mkdir()
    state = {}
    for name, shape in shapes.items():
        values = waves(int(torch.tensor(shape).prod()), 0.7 + 0.01 * len(name)).sin() * 0.5
        state[prefix + name] = values.float().reshape(tuple(shape))
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": kind, **TINY, **about, **more}))
    return folder


def image(side: int) -> Tensor:
    return (waves(3 * side * side, 0.37)).cos().float().reshape(1, 3, side, side)


@pytest.mark.parametrize("kind", MODELS)
def test_features_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", kind)
    made = ENCODERS["directory"](500, path=str(folder))
    assert made.size == 16
    for side, expected in zip((16, 24), ANSWERS[kind], strict=True):
        with torch.no_grad():
            found = made.net.eval()(image(side))
        torch.testing.assert_close(found, torch.tensor([expected]), atol=2e-5, rtol=0)


def test_a_model_inside_another_is_found_by_its_prefix(tmp_path: Path) -> None:
    plain, inside = saved(tmp_path / "a", "vit"), saved(tmp_path / "b", "vit", prefix="")
    state = {f"vit.{name}": tensor for name, tensor in _tensors(inside).items()}
    save_file(state | {"classifier.weight": torch.ones(2, W)}, inside / "model.safetensors")
    nets = [ENCODERS["directory"](500, path=str(folder)).net.eval() for folder in (plain, inside)]
    with torch.no_grad():
        assert torch.equal(nets[0](image(16)), nets[1](image(16)))


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_the_processor_says_size_and_colours(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "dinov2")
    settings = {"crop_size": {"height": 24, "width": 24}, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    encoder = create("directory", {"path": str(folder)}, 500, torch.device("cpu"))
    assert (encoder.size, encoder.mean, encoder.std) == (24, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert encoder.dims == W
    assert choice_of(str(folder)) == {"name": "directory", "path": str(folder)}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: (f / "config.json").write_text("{}"), "must hold a vision transformer of the type vit"),
        (lambda f: (f / "config.json").unlink(), "config.json cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), "must hold model.safetensors"),
        (lambda f: (f / "model.safetensors").write_bytes(b"no"), "model.safetensors"),
        (lambda f: save_file({"x": torch.ones(1)}, f / "model.safetensors"), "must be those of its config.json"),
    ],
)
def test_a_directory_that_is_none_gets_a_sentence(spoil: Any, says: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "vit")
    spoil(folder)
    with pytest.raises(ConfigError, match=says):
        create("directory", {"path": str(folder)}, 500, torch.device("cpu"))
