"""The BERT that reads texts: against torch's own encoder layers, and as a column of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import selc
from selc._io.files import read_json, sha256
from selc.data.preprocess.bert import Bert
from selc.data.preprocess.encoded_column import EncodedColumn
from selc.data.preprocess.text_encoder import (
    MINILM_DIGEST,
    PACKAGES,
    TextEncoder,
    chosen_encoder,
    encoder_by,
    installed,
)
from selc.errors import ConfigError
from selc.runs import Config, RunFolder, execute
from selc.runs.predict import predict
from tests.own_data.reviews import reviews, write_reviews
from tests.own_data.tiny_bert import CONFIG, WORDS, tensors, write_bert
from tests.test_text_runs import Quiet

IDS = torch.tensor([[2, 5, 8, 3], [2, 9, 3, 0]])
MASK = torch.tensor([[True] * 4, [True] * 3 + [False]])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELC_CACHE", str(tmp_path / "cache"))
    return write_bert(tmp_path / "bert")


def by_torch(weights: dict[str, Tensor], ids: Tensor, mask: Tensor) -> Tensor:
    """The same model of torch's TransformerEncoderLayer, which is written by others."""
    hidden = CONFIG["hidden_size"]
    words, places, kinds = (
        weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    norm = nn.LayerNorm(hidden, eps=1e-12)
    norm.load_state_dict({key: weights[f"embeddings.LayerNorm.{key}"] for key in ("weight", "bias")})
    x: Tensor = norm(words[ids] + places[: ids.shape[1]] + kinds[0])
    for k in range(CONFIG["num_hidden_layers"]):
        at = f"encoder.layer.{k}"
        layer = nn.TransformerEncoderLayer(
            hidden, CONFIG["num_attention_heads"], CONFIG["intermediate_size"], 0.0, "gelu", 1e-12, batch_first=True
        )
        state = {}
        for key in ("weight", "bias"):
            three = [weights[f"{at}.attention.self.{name}.{key}"] for name in ("query", "key", "value")]
            state[f"self_attn.in_proj_{key}"] = torch.cat(three)
            state[f"self_attn.out_proj.{key}"] = weights[f"{at}.attention.output.dense.{key}"]
            state[f"linear1.{key}"] = weights[f"{at}.intermediate.dense.{key}"]
            state[f"linear2.{key}"] = weights[f"{at}.output.dense.{key}"]
            state[f"norm1.{key}"] = weights[f"{at}.attention.output.LayerNorm.{key}"]
            state[f"norm2.{key}"] = weights[f"{at}.output.LayerNorm.{key}"]
        layer.load_state_dict(state)
        x = layer.train()(x, src_key_padding_mask=~mask)  # without dropout; eval would take a faster path
    return x


def test_hidden_states_are_those_of_torch(folder: Path) -> None:
    ours = Bert.read(folder).hidden(IDS, MASK)
    theirs = by_torch(tensors(), IDS, MASK).detach()
    torch.testing.assert_close(ours[MASK], theirs[MASK], atol=1e-5, rtol=1e-5)


def test_a_vector_is_the_mean_of_a_text_whatever_stands_beside_it(folder: Path) -> None:
    encoder = chosen_encoder(str(folder))
    assert encoder is not None
    texts = ["good", "this film of a wonderful film", "", "unheard words"]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1)
    ids = torch.tensor([[2, WORDS.index("good"), 3]])
    mean = by_torch(tensors(), ids, torch.ones_like(ids, dtype=torch.bool)).mean(dim=1)[0].detach().double()
    np.testing.assert_allclose(together[0], (mean / mean.norm()).numpy(), atol=1e-5)
    long = encoder.encode([" ".join(["good"] * 14), " ".join(["good"] * 500)])
    np.testing.assert_allclose(long[0], long[1])  # sixteen tokens are all there is room for
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    first = TextEncoder(folder, encoder.digest).encode(["good"])
    hidden = by_torch(tensors(), ids, torch.ones_like(ids, dtype=torch.bool))[0, 0].detach().double()
    np.testing.assert_allclose(first[0], (hidden / hidden.norm()).numpy(), atol=1e-5)


def test_a_run_reads_new_rows_as_it_read_the_old(folder: Path, tmp_path: Path) -> None:
    data = {"name": "table", "path": str(write_reviews(tmp_path / "r.csv")), "text_model": str(folder)}
    quick: dict[str, Any] = {"method": {"name": "ce"}, "train": {"epochs": 2, "batch_size": 16}}
    run = execute(Config.resolve({"data": data, **quick}), tmp_path / "run", [Quiet()])
    assert isinstance(run, RunFolder)
    (column,) = read_json(run.path / "inputs.json")["coding"]["texts"]
    assert column["sha256"] == sha256(folder / "model.safetensors")
    assert "sentence vectors of bert" in read_json(run.path / "data.json")["notes"][0]
    again = predict(run, write_reviews(tmp_path / "again.csv"))
    np.testing.assert_allclose(again.probs.numpy(), run.table("probs").full().numpy(), atol=1e-5)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"were read by the model that was in .*got none there"):
        predict(run, write_reviews(tmp_path / "new.csv", 10, seed=1))


def test_vectors_are_made_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = chosen_encoder(str(folder))
    assert encoder is not None
    texts = np.array(["a good film", "a bad film"], dtype=object)
    column, made = EncodedColumn.learnt("text", texts, encoder)
    monkeypatch.setattr(TextEncoder, "encode", lambda *_: pytest.fail("read again"))
    np.testing.assert_allclose(column.apply(texts), made)
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-6)
    assert np.sqrt(made.var(axis=0).mean()) == pytest.approx(1)
    assert EncodedColumn.from_state(column.state(), column.arrays()).state() == column.state()


@pytest.mark.filterwarnings("ignore::UserWarning")  # what is noticed about such texts
def test_fit_takes_a_model_for_texts(folder: Path) -> None:
    texts, labels = reviews(40)
    outcome = selc.fit(texts, labels, text_model=str(folder), method="ce", epochs=2, batch_size=16)
    assert next(iter(outcome.model.parameters())).shape[1] == CONFIG["hidden_size"]


def test_a_folder_that_is_no_such_model_gets_a_sentence(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"text_model must be auto, tf-idf, minilm, or a folder"):
        chosen_encoder(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"must be a BERT with absolute positions .*got 'roberta'"):
        chosen_encoder(str(write_bert(tmp_path / "other", model_type="roberta")))
    with pytest.raises(ConfigError, match=r"must hold encoder\.layer\.2\.attention\.self\.query\.weight .*got none"):
        chosen_encoder(str(write_bert(tmp_path / "deep", num_hidden_layers=3)))
    with pytest.raises(ConfigError, match=r"hidden_act of .* must be one of .*got 'swish'"):
        chosen_encoder(str(write_bert(tmp_path / "act", hidden_act="swish")))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"must have a tokenizer\.json; got none"):
        chosen_encoder(str(folder))


def test_weights_in_a_package_count_by_their_hash_and_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, inside), *_ = PACKAGES.items()
    place = tmp_path / name
    write_bert(place / inside)
    (place / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    try:
        found = installed()
        assert found is None or found.folder != place / inside  # another hash
        monkeypatch.setattr(
            "selc.data.preprocess.text_encoder.MINILM_DIGEST", sha256(place / inside / "model.safetensors")
        )
        installed.cache_clear()
        found = installed()
        assert found is not None
        assert found.folder == place / inside
        assert encoder_by(found.digest, "/nowhere") == found
    finally:
        installed.cache_clear()
    assert len(MINILM_DIGEST) == 64
