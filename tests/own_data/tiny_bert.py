"""A BERT of a few numbers, drawn by chance, in a folder as Hugging Face writes one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "film", "of", "this", "good", "bad", "wonderful", "awful", "boring"]
CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS),
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}


def tensors(seed: int = 0) -> dict[str, Tensor]:
    """Every weight by its published name."""
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), hidden),
        "embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
        "embeddings.LayerNorm.weight": (hidden,),
        "embeddings.LayerNorm.bias": (hidden,),
    }
    for layer in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{at}.{name}.weight": (hidden, hidden), f"{at}.{name}.bias": (hidden,)}
        shapes |= {f"{at}.intermediate.dense.weight": (inner, hidden), f"{at}.intermediate.dense.bias": (inner,)}
        shapes |= {f"{at}.output.dense.weight": (hidden, inner), f"{at}.output.dense.bias": (hidden,)}
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{at}.{norm}.weight": (hidden,), f"{at}.{norm}.bias": (hidden,)}
    drawn = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}


def write_bert(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """The folder, with a tokenizer that splits at spaces."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    save_file(tensors(seed), folder / "model.safetensors")
    steps = {"[CLS]": 2, "[SEP]": 3}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [k], "tokens": [name]} for name, k in steps.items()},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: k for k, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder
