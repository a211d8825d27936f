"""A trained BERT that reads texts: the published architecture in plain torch, its weights from a local folder.

J. Devlin et al., BERT, NAACL 2019, in the form of Hugging Face's folders (config.json, model.safetensors,
tokenizer.json). Each layer is

    x = norm(x + attention(x))        x = norm(x + W gelu(V x))

with bias everywhere and post-norm; there is no dropout, as nothing is trained here. A text is the mean of its last
hidden states (or the first of them, if the folder says so), of length one: what sentence-transformers computes
(N. Reimers, I. Gurevych, Sentence-BERT, EMNLP 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selc._io.files import read_json, read_tensors
from selc.errors import ConfigError, RunFolderError

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}
WEIGHTS = "model.safetensors"
SIZES = (
    *("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "vocab_size"),
)


@dataclass(frozen=True)
class Bert:
    """Weights by the names of Hugging Face, and the sizes that belong to them."""

    tensors: Mapping[str, Tensor]
    layers: int
    heads: int
    eps: float
    activation: str
    longest: int  # tokens of a text

    @classmethod
    def read(cls, folder: Path) -> Bert:
        """The model in a folder, or an error that says why it is none that is known here."""
        config = _config(folder)
        kind = config.get("model_type")
        if kind != "bert" or config.get("position_embedding_type", "absolute") != "absolute":
            raise ConfigError(
                f"the text model in {folder} must be a BERT with absolute positions (model_type bert); got {kind!r}."
            )
        if (activation := str(config.get("hidden_act", "gelu"))) not in ACTIVATIONS:
            raise ConfigError(f"hidden_act of {folder} must be one of {', '.join(ACTIVATIONS)}; got {activation!r}.")
        try:
            tensors = {k.removeprefix("bert."): t.float() for k, t in read_tensors(folder / WEIGHTS).items()}
        except RunFolderError as error:
            raise ConfigError(str(error)) from None
        layers, hidden = int(config["num_hidden_layers"]), int(config["hidden_size"])
        for name, shape in _shapes(config, layers, hidden).items():
            if name not in tensors or tensors[name].shape != shape:
                got = list(tensors[name].shape) if name in tensors else "none"
                raise ConfigError(f"{folder / WEIGHTS} must hold {name} of shape {list(shape)}; got {got}.")
        return cls(
            tensors,
            layers,
            int(config["num_attention_heads"]),
            float(config.get("layer_norm_eps", 1e-12)),
            activation,
            int(config["max_position_embeddings"]),
        )

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The last hidden states [B, L, D] of tokens ``ids`` [B, L], of which ``mask`` [B, L] says which are there."""
        words = self.tensors["embeddings.word_embeddings.weight"][ids]
        places = self.tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._norm(words + places + self.tensors["embeddings.token_type_embeddings.weight"][0], "embeddings")
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}"
            x = self._norm(x + self._attention(x, mask, f"{at}.attention"), f"{at}.attention.output")
            inner = ACTIVATIONS[self.activation](self._linear(x, f"{at}.intermediate.dense"))
            x = self._norm(x + self._linear(inner, f"{at}.output.dense"), f"{at}.output")
        return x

    def _attention(self, x: Tensor, mask: Tensor, at: str) -> Tensor:
        B, L, D = x.shape
        q, k, v = (
            self._linear(x, f"{at}.self.{name}").view(B, L, self.heads, D // self.heads).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        score = q @ k.transpose(2, 3) / math.sqrt(D // self.heads)
        share = score.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=3)
        return self._linear((share @ v).transpose(1, 2).reshape(B, L, D), f"{at}.output.dense")

    def _linear(self, x: Tensor, at: str) -> Tensor:
        return F.linear(x, self.tensors[f"{at}.weight"], self.tensors[f"{at}.bias"])

    def _norm(self, x: Tensor, at: str) -> Tensor:
        weight, bias = self.tensors[f"{at}.LayerNorm.weight"], self.tensors[f"{at}.LayerNorm.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, self.eps)


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = read_json(folder / "config.json")
        if not isinstance(config, dict):
            raise RunFolderError("no settings by name")
    except RunFolderError as error:
        raise ConfigError(
            f"a text model must be a folder in Hugging Face's format (config.json, model.safetensors, tokenizer.json); "
            f"got {folder}: {error}"
        ) from None
    missing = [name for name in SIZES if not isinstance(config.get(name), int)]
    if missing and config.get("model_type") == "bert":
        raise ConfigError(f"{folder / 'config.json'} must give {missing[0]} as a number; got none.")
    return config


def _shapes(config: Mapping[str, Any], layers: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """Every tensor that is needed."""
    inner = int(config["intermediate_size"])
    vector = (hidden,)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), hidden),
        "embeddings.position_embeddings.weight": (int(config["max_position_embeddings"]), hidden),
        "embeddings.token_type_embeddings.weight": (int(config.get("type_vocab_size", 2)), hidden),
        **dict.fromkeys(("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"), vector),
    }
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        square = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
        for name in square:
            shapes |= {f"{at}.{name}.weight": (hidden, hidden), f"{at}.{name}.bias": vector}
        shapes |= {f"{at}.intermediate.dense.weight": (inner, hidden), f"{at}.intermediate.dense.bias": (inner,)}
        shapes |= {f"{at}.output.dense.weight": (hidden, inner), f"{at}.output.dense.bias": vector}
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}.{norm}.weight": vector, f"{at}.{norm}.bias": vector}
    return shapes
