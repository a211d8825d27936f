"""The Trainer of Hugging Face, on a tiny BERT with random weights."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from selc import Recorder, SELCLoss
from selc._io.files import read_tensors
from selc.analysis import Why
from selc.errors import ConfigError, InputError
from tests.adapters.texts import CLASSES, LENGTH, OUT, ROWS, WORDS, sentences
from tests.adapters.together import assert_two_end_as_one

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
EPOCHS, BATCH = 4, 32


def model(dropout: float = 0.1) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS + 5 * CLASSES,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=LENGTH,
            num_labels=CLASSES,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    )


def texts(rows: slice, *, index: bool) -> Any:
    from datasets import Dataset

    words, _, given = (part[rows] for part in sentences())
    columns = {"input_ids": words.tolist(), "label": given.tolist()}
    return Dataset.from_dict(columns | ({"index": list(range(len(given)))} if index else {}))


def arguments(folder: Path, **settings: Any) -> Any:
    from transformers import TrainingArguments

    plain = {
        "per_device_train_batch_size": BATCH,
        "per_device_eval_batch_size": 64,
        "num_train_epochs": EPOCHS,
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return TrainingArguments(str(folder), **{**plain, **settings})


def trainer(folder: Path, dropout: float = 0.1, evaluated: bool = False, parts: Any = None, **settings: Any) -> Any:
    from selc.integrations.transformers import SELCTrainer

    settings = {"eval_strategy": "epoch", **settings} if evaluated else settings
    return SELCTrainer(
        model(dropout),
        arguments(folder, **settings),
        train_dataset=texts(slice(0, ROWS), index=True),
        eval_dataset=texts(slice(ROWS, None), index=False) if evaluated else None,
        **parts,
    )


def given() -> Tensor:
    return sentences()[2][:ROWS]


def weights(of: Any) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in of.model.state_dict().items()}


def assert_same_bits(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name].nan_to_num(), theirs[name].nan_to_num()) for name in ours)


def test_selc_corrects_labels_of_a_text_model(tmp_path: Path) -> None:
    criterion = SELCLoss(given(), CLASSES, 0.7, start=4)
    trainer(tmp_path, parts={"criterion": criterion}, num_train_epochs=14).train()
    true = sentences()[1][:ROWS]
    before, after = ((labels == true).float().mean() for labels in (given(), criterion.corrected_labels))
    assert before < 0.7
    assert after > before + 0.1
    assert criterion.epoch == 13
    assert bool((criterion.updates == 14).all())


def test_before_selc_starts_a_training_is_the_plain_one_to_the_same_bits(tmp_path: Path) -> None:
    from transformers import Trainer

    ours = trainer(tmp_path, parts={"criterion": SELCLoss(given(), CLASSES, start=99)})
    ours.train()
    plain = Trainer(model(), arguments(tmp_path), train_dataset=texts(slice(0, ROWS), index=False))
    plain.train()
    for name, value in weights(plain).items():
        assert torch.allclose(value, weights(ours)[name], atol=1e-5), name


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation_steps": 4}, {"label_smoothing_factor": 0.1}])
def test_a_recorder_changes_no_bit_of_the_training(tmp_path: Path, settings: dict[str, Any]) -> None:
    from transformers import Trainer

    recorder = Recorder(given(), CLASSES)
    ours = trainer(tmp_path, parts={"recorder": recorder}, **settings)
    ours.train()
    plain = Trainer(model(), arguments(tmp_path, **settings), train_dataset=texts(slice(0, ROWS), index=False))
    plain.train()
    assert_same_bits(weights(ours), weights(plain))
    kept = recorder.state_dict()
    assert kept["epochs"].tolist() == list(range(EPOCHS))
    assert bool((kept["epochs.predictions"] >= 0).all())
    found = recorder.analysis()
    assert found.why_unchanged is Why.NOT_HELD_OUT
    assert torch.equal(found.corrected, given())


def test_a_recorder_is_shown_the_evaluation_of_each_epoch_and_of_nothing_else(tmp_path: Path) -> None:
    recorder = Recorder(given(), CLASSES)
    ours = trainer(tmp_path, evaluated=True, parts={"recorder": recorder}, eval_on_start=True)
    ours.train()
    before = recorder.state_dict()
    assert before["looks"].tolist() == list(range(EPOCHS))
    ours.evaluate()
    assert_same_bits(recorder.state_dict(), before)
    said = ours.predict(texts(slice(ROWS, None), index=True))  # with an index, which the model must not see
    assert said.predictions.shape == (OUT, CLASSES)
    assert before["looks.predictions"][-1].tolist() == said.predictions.argmax(axis=1).tolist()
    decision = recorder.analysis().decision
    assert decision is not None
    assert decision.accuracy > 1 / CLASSES


def test_accumulated_batches_have_the_gradient_of_one(tmp_path: Path) -> None:
    """Without dropout and with plain SGD, four batches of 8 step as one of 32 does."""
    results = []
    for batch, steps in ((32, 1), (8, 4)):
        criterion = SELCLoss(given()[:ROWS], CLASSES, 0.8, start=1)
        ours = trainer(
            tmp_path,
            0.0,
            parts={"criterion": criterion},
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=steps,
            optim="sgd",
            learning_rate=0.3,
            max_grad_norm=0.0,
            dataloader_drop_last=True,  # 240 = 7 * 32 + 16: the last batch would be of another size
            max_steps=7,
        )
        ours.train()
        results.append((weights(ours), criterion.targets))
    for name, value in results[0][0].items():
        assert torch.allclose(value, results[1][0][name], atol=1e-5), name
    assert torch.allclose(results[0][1], results[1][1], atol=1e-5)


def test_evaluation_keeps_the_loss_of_the_model(tmp_path: Path) -> None:
    ours = trainer(tmp_path, evaluated=True, parts={"criterion": SELCLoss(given(), CLASSES, start=0)})
    words, _, labels = (part[ROWS:] for part in sentences())
    ours.model.eval()
    with torch.no_grad():
        p = ours.model(input_ids=words).logits.double().softmax(dim=1)
    expected = -p[torch.arange(OUT), labels].log().mean()
    assert ours.evaluate()["eval_loss"] == pytest.approx(float(expected), abs=1e-5)


def test_label_smoothing_is_switched_off_with_a_sentence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "selc"):
        ours = trainer(tmp_path, parts={"criterion": SELCLoss(given(), CLASSES, start=1)}, label_smoothing_factor=0.1)
    assert "label smoothing is off" in caplog.text
    assert ours.label_smoother is None


@pytest.mark.parametrize("at", ["the end of an epoch", "the middle of an epoch"])
def test_a_training_resumed_from_a_checkpoint_ends_with_the_same_bits(tmp_path: Path, at: str) -> None:
    saves: dict[str, Any] = {"save_strategy": "steps", "save_steps": 11}
    if at == "the end of an epoch":  # after its evaluation, which draws random numbers
        saves = {"save_strategy": "epoch"}

    def parts() -> dict[str, Any]:
        return {"criterion": SELCLoss(given(), CLASSES, 0.7, start=1), "recorder": Recorder(given(), CLASSES)}

    whole = trainer(tmp_path, evaluated=True, parts=parts(), **saves)
    whole.train()
    checkpoint = tmp_path / f"checkpoint-{saves.get('save_steps', 8)}"
    saved = read_tensors(checkpoint / "selc.safetensors")
    assert saved["criterion.store.table"].shape == (ROWS, CLASSES)
    again = trainer(tmp_path, evaluated=True, parts=parts(), **saves)
    again.train(resume_from_checkpoint=str(checkpoint))
    assert_same_bits(weights(again), weights(whole))
    for ours, theirs in ((again.criterion, whole.criterion), (again.recorder, whole.recorder)):
        assert_same_bits(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_two_processes_that_accumulate_gradients_end_with_the_targets_of_one(tmp_path: Path) -> None:
    assert_two_end_as_one("tests.adapters.work", tmp_path)


def test_a_checkpoint_of_another_trainer_is_refused(tmp_path: Path) -> None:
    from transformers import Trainer

    saves: dict[str, Any] = {"save_strategy": "steps", "save_steps": 8}
    Trainer(model(), arguments(tmp_path, **saves), train_dataset=texts(slice(0, ROWS), index=False)).train()
    ours = trainer(tmp_path, parts={"recorder": Recorder(given(), CLASSES)}, **saves)
    with pytest.raises(InputError, match=r"must hold selc\.safetensors"):
        ours.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))


def test_a_training_set_without_an_index_is_told_how_to_get_one(tmp_path: Path) -> None:
    from selc.integrations.transformers import SELCTrainer

    recorder = Recorder(given(), CLASSES)
    ours = SELCTrainer(
        model(), arguments(tmp_path), train_dataset=texts(slice(0, ROWS), index=False), recorder=recorder
    )
    with pytest.raises(InputError, match=r"must have a column 'index'.*add_column\('index', range"):
        ours.train()


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a criterion or a recorder must be given"):
        trainer(tmp_path, parts={})
    parts = {"criterion": SELCLoss(given(), CLASSES, start=1), "compute_loss_func": lambda *_: None}
    with pytest.raises(ConfigError, match="takes the place of compute_loss_func"):
        trainer(tmp_path, parts=parts)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "selc.integrations.transformers", raising=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises((ConfigError, ModuleNotFoundError), match="transformers"):
        import selc.integrations.transformers  # noqa: F401
