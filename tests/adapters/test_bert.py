"""The BERT that reads texts, against that of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from selc.data.preprocess.bert import Bert
from tests.own_data.tiny_bert import CONFIG, tensors, write_bert

pytestmark = pytest.mark.adapters


def test_hidden_states_are_those_of_transformers(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    ids, mask = torch.tensor([[2, 5, 8, 3], [2, 9, 3, 0]]), torch.tensor([[True] * 4, [True] * 3 + [False]])
    model = BertModel(BertConfig(**CONFIG), add_pooling_layer=False)
    missing, unexpected = model.load_state_dict(tensors(), strict=False)
    assert not unexpected
    assert not [name for name in missing if "position_ids" not in name]
    with torch.no_grad():
        theirs = model.eval()(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    ours = Bert.read(write_bert(tmp_path / "bert")).hidden(ids, mask)
    torch.testing.assert_close(ours[mask], theirs[mask], atol=1e-5, rtol=1e-5)
