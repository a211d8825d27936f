"""A local directory in Hugging Face's format with a vision transformer: ViT, DINOv2, SigLIP.

config.json, model.safetensors and, if it is there, preprocessor_config.json are read; no library of theirs is needed,
no code of the directory is run, and nothing is fetched. What a person downloads or has trained is given by its path.

ViT: A. Dosovitskiy et al., ICLR 2021. DINOv2: M. Oquab et al., TMLR 2024. SigLIP: X. Zhai et al., ICCV 2023.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selc._io.files import read_json, read_tensors
from selc.encoders.base import DIRECTORY, ENCODERS, About
from selc.encoders.network import IMAGENET, Statistics, Trained
from selc.errors import ConfigError, RunFolderError

KINDS = ("vit", "dinov2", "siglip", "siglip_vision_model")
FILES = ("config.json", "model.safetensors", "preprocessor_config.json")
_LICENCE = "that of what you bring: see its model card"


@ENCODERS.add(DIRECTORY, About(_LICENCE, "yours", "download one, and give --encoder PATH", lambda: True))
def directory(side: int, *, path: str = "", size: int = 0, flip: bool = False) -> Trained:
    """A local directory in Hugging Face's format (ViT, DINOv2, SigLIP): --encoder PATH."""
    folder = Path(path).expanduser()
    about, weights = _read(folder, FILES[0]), folder / FILES[1]
    kind = str(about.get("model_type"))
    if kind not in KINDS:
        raise ConfigError(
            f"{folder} must hold a vision transformer of the type {', '.join(KINDS)}; got {kind!r}. Another one can be "
            "brought by --encoder import:module:attribute."
        )
    if not weights.is_file():
        raise ConfigError(f"{folder} must hold {FILES[1]}; got no such file. Save the model with safetensors.")
    shape = _Shape.of(about.get("vision_config", about) if kind == "siglip" else about, kind)
    processor = _read(folder, FILES[2]) if (folder / FILES[2]).is_file() else {}
    shown = size or _processor_size(processor) or shape.image
    if shown % shape.patch:
        raise ConfigError(f"size must be a multiple of the {shape.patch} pixels of a patch; got {shown}.")
    net = VisionTransformer(shape)
    try:
        state = read_tensors(weights)
    except RunFolderError as error:
        raise ConfigError(str(error)) from None
    _fill(net, {ours: tensor for name, tensor in state.items() if (ours := _renamed(name)) is not None}, folder)
    return Trained(net, shown, _statistics(processor, kind), flip)


class _Shape(NamedTuple):
    """What config.json says of the network."""

    width: int
    depth: int
    heads: int
    hidden: int
    patch: int
    image: int
    epsilon: float
    tanh: bool  # the usual approximation of GELU
    scaled: bool  # DINOv2's factors behind each block
    pooled: bool  # SigLIP's head in the place of a class token

    @classmethod
    def of(cls, about: Mapping[str, Any], kind: str) -> _Shape:
        siglip = kind.startswith("siglip")
        width = int(about.get("hidden_size", 768))
        hidden = (
            int(about.get("mlp_ratio", 4) * width) if kind == "dinov2" else int(about.get("intermediate_size", 3072))
        )
        act = str(about.get("hidden_act", "gelu_pytorch_tanh" if siglip else "gelu"))
        if act not in ("gelu", "gelu_pytorch_tanh") or about.get("use_swiglu_ffn") or about.get("num_channels", 3) != 3:
            raise ConfigError(
                f"a vision transformer must have GELU and colour images; got {act!r}, or SwiGLU, or others."
            )
        return cls(
            width,
            int(about.get("num_hidden_layers", 12)),
            int(about.get("num_attention_heads", 12)),
            hidden,
            int(about.get("patch_size", 16)),
            int(about.get("image_size", 224)),
            float(about.get("layer_norm_eps", 1e-6 if siglip or kind == "dinov2" else 1e-12)),
            act != "gelu",
            kind == "dinov2",
            siglip,
        )


class VisionTransformer(nn.Module):
    """Images [B, 3, H, W] to what the network says of the whole: its class token, or its pooled patches."""

    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.pooled, width = shape.pooled, shape.width
        self.patches = nn.Conv2d(3, width, shape.patch, shape.patch)
        self.side = shape.image // shape.patch
        self.token = None if shape.pooled else nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, self.side**2 + (not shape.pooled), width))
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(width, shape.epsilon)
        if shape.pooled:
            self.probe = nn.Parameter(torch.zeros(1, 1, width))
            self.pool = nn.MultiheadAttention(width, shape.heads, batch_first=True)
            self.pool_norm = nn.LayerNorm(width, shape.epsilon)
            self.pool_mlp = _Mlp(shape)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        grid = (int(x.shape[2]), int(x.shape[3]))
        x = x.flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        x = x + self._positions(grid)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if not self.pooled:
            return x[:, 0]
        seen, _ = self.pool(self.probe.expand(len(x), -1, -1), x, x, need_weights=False)
        pooled: Tensor = seen + self.pool_mlp(self.pool_norm(seen))
        return pooled[:, 0]

    def _positions(self, grid: tuple[int, int]) -> Tensor:
        """Of each patch; for another number of patches than in training, what lies between those that were learnt."""
        if grid == (self.side, self.side):
            return self.position
        first = self.position.shape[1] - self.side**2
        learnt = self.position[:, first:].transpose(1, 2).unflatten(2, (self.side, self.side))
        between = F.interpolate(learnt, grid, mode="bicubic", align_corners=False)
        return torch.cat([self.position[:, :first], between.flatten(2).transpose(1, 2)], dim=1)


class _Block(nn.Module):
    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1, self.norm2 = (nn.LayerNorm(shape.width, shape.epsilon) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.mlp = _Mlp(shape)
        self.scale1, self.scale2 = (
            nn.Parameter(torch.ones(shape.width), requires_grad=False) if shape.scaled else None for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norm1(x)
        parts = [
            part(seen).unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        ]
        seen = self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        x = x + (seen if self.scale1 is None else seen * self.scale1)
        seen = self.mlp(self.norm2(x))
        result: Tensor = x + (seen if self.scale2 is None else seen * self.scale2)
        return result


class _Mlp(nn.Module):
    def __init__(self, shape: _Shape) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(shape.width, shape.hidden), nn.Linear(shape.hidden, shape.width)
        self.act = nn.GELU(approximate="tanh" if shape.tanh else "none")

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.act(self.first(x)))
        return result


# Their names of tensors, of a model alone or inside another, in ours.
_BLOCK = re.compile(r"(?:encoder\.)?layers?\.(\d+)\.(.+)")
_IN_BLOCK = {
    **dict.fromkeys(("layernorm_before", "norm1", "layer_norm1"), "norm1"),
    **dict.fromkeys(("layernorm_after", "norm2", "layer_norm2"), "norm2"),
    **{f"attention.attention.{name}": name for name in ("query", "key", "value")},
    **{f"attention.{short}_proj": name for short, name in zip("qkvo", ("query", "key", "value", "out"), strict=True)},
    **{f"self_attn.{short}_proj": name for short, name in zip("qkv", ("query", "key", "value"), strict=True)},
    **{"attention.output.dense": "out", "self_attn.out_proj": "out"},
    **{
        "intermediate.dense": "mlp.first",
        "output.dense": "mlp.second",
        "mlp.fc1": "mlp.first",
        "mlp.fc2": "mlp.second",
    },
}
_PLAIN = {
    "embeddings.cls_token": "token",
    "embeddings.position_embeddings": "position",
    "embeddings.position_embedding.weight": "position",
    **{f"embeddings.patch_embeddings.projection.{w}": f"patches.{w}" for w in ("weight", "bias")},
    **{f"embeddings.patch_embedding.{w}": f"patches.{w}" for w in ("weight", "bias")},
    **{f"{name}.{w}": f"norm.{w}" for name in ("layernorm", "post_layernorm") for w in ("weight", "bias")},
    "head.probe": "probe",
    **{f"head.attention.{name}": f"pool.{name}" for name in ("in_proj_weight", "in_proj_bias")},
    **{f"head.attention.out_proj.{w}": f"pool.out_proj.{w}" for w in ("weight", "bias")},
    **{f"head.layernorm.{w}": f"pool_norm.{w}" for w in ("weight", "bias")},
    **{
        f"head.mlp.fc{k}.{w}": f"pool_mlp.{n}.{w}" for k, n in ((1, "first"), (2, "second")) for w in ("weight", "bias")
    },
}


def _renamed(name: str) -> str | None:
    """Our name of a tensor; None for one that features do not need."""
    for prefix in ("vit.", "dinov2.", "vision_model.", "siglip."):
        name = name.removeprefix(prefix)
    if name in _PLAIN:
        return _PLAIN[name]
    if (match := _BLOCK.fullmatch(name)) is None:
        return None
    number, rest = match.groups()
    if scale := re.fullmatch(r"layer_scale([12])\.lambda1", rest):
        return f"blocks.{number}.scale{scale[1]}"
    part, _, kind = rest.rpartition(".")
    return f"blocks.{number}.{_IN_BLOCK[part]}.{kind}" if part in _IN_BLOCK else None


def _fill(net: nn.Module, given: dict[str, Tensor], folder: Path) -> None:
    own = net.state_dict()
    if "position" in given and given["position"].dim() == 2:
        given["position"] = given["position"][None]
    wrong = [name for name in own if name not in given or given[name].shape != own[name].shape]
    strange = sorted(given.keys() - own.keys())
    if wrong or strange:
        what = f"none of that shape for {wrong[0]!r}" if wrong else f"{strange[0]!r}, which it does not have"
        raise ConfigError(f"the weights in {folder} must be those of its config.json; got {what}.")
    net.load_state_dict({name: tensor.float() for name, tensor in given.items()})


def _read(folder: Path, name: str) -> dict[str, Any]:
    try:
        found = read_json(folder / name)
    except (OSError, RunFolderError, json.JSONDecodeError):
        raise ConfigError(
            f"an encoder must be a directory in Hugging Face's format; got {folder}, where {name} cannot be read."
        ) from None
    return dict(found)


def _processor_size(processor: Mapping[str, Any]) -> int:
    for key in ("crop_size", "size"):
        value = processor.get(key)
        if isinstance(value, Mapping):
            value = value.get("height") or value.get("shortest_edge")
        if isinstance(value, int):
            return value
    return 0


def _statistics(processor: Mapping[str, Any], kind: str) -> Statistics:
    usual: Statistics = IMAGENET if kind == "dinov2" else ((0.5,) * 3, (0.5,) * 3)
    mean, std = (processor.get(name) for name in ("image_mean", "image_std"))
    if not (isinstance(mean, list) and isinstance(std, list) and len(mean) == len(std) == 3):
        return usual
    return tuple(map(float, mean)), tuple(map(float, std))
