"""Lightning's Trainer, on a small network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from selc import IndexedDataset, Recorder, SELCLoss
from selc._io.files import read_tensors
from selc.analysis import Why
from selc.errors import InputError
from tests.adapters.texts import CLASSES, LENGTH, OUT, ROWS, WORDS, sentences
from tests.adapters.together import assert_two_end_as_one

pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]
EPOCHS = 4


def given() -> Tensor:
    return sentences()[2][:ROWS]


def counts() -> Tensor:
    """How often each word is in a sentence."""
    return F.one_hot(sentences()[0], WORDS + 5 * CLASSES).sum(dim=1).float() / LENGTH


class Order(Sampler[int]):
    """Depends on the epoch, which Lightning tells it, and on nothing else: random numbers are not in a checkpoint.

    Of several processes each has its part. Lightning's own way to deal would not tell it the epoch.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size, self.epoch = rank, size, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return ROWS // self.size

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order[self.rank :: self.size].tolist())


def loaders(batch: int = 32, rank: int = 0, size: int = 1) -> tuple[Any, Any]:
    x, y = counts(), sentences()[2]
    mine = slice(ROWS + rank, None, size)
    train = IndexedDataset(TensorDataset(x[:ROWS], y[:ROWS]))
    return DataLoader(train, batch_size=batch, sampler=Order(rank, size)), DataLoader(
        TensorDataset(x[mine], y[mine]), batch_size=25
    )


def module(step: str, *, plain: bool = False) -> Any:
    import lightning

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(WORDS + 5 * CLASSES, 32), nn.ReLU(), nn.Linear(32, CLASSES))

        def training_step(self, batch: Any, _: int) -> Any:
            x, y, index = batch
            logits = self.net(x)
            if step == "selc":
                return self.criterion(logits, y, index)
            loss = F.cross_entropy(logits, y)
            return loss if step == "plain" else {"loss": loss, "logits": logits, "index": index, "labels": y}

        def validation_step(self, batch: Any, _: int) -> Any:
            return {"logits": self.net(batch[0]), "labels": batch[1]}

        def configure_optimizers(self) -> Any:
            # Adam makes much of the last bits of a small gradient, which differ between numbers of processes.
            return torch.optim.SGD(self.parameters(), lr=0.5) if plain else torch.optim.Adam(self.parameters(), lr=0.03)

    torch.manual_seed(0)
    return Net()


def fitted(
    folder: Path,
    step: str,
    callbacks: list[Any],
    *,
    checkpoint: str | None = None,
    validated: bool = True,
    plain: bool = False,
    part: tuple[int, int] = (0, 1),
    **set_: Any,
) -> Any:
    """A training; with ``checkpoint`` it goes on from there, ``plain`` is by SGD, ``part`` is (rank, processes)."""
    import lightning

    net = module(step, plain=plain)
    settings: dict[str, Any] = {"max_epochs": EPOCHS, "logger": False, "enable_checkpointing": False, **set_}
    trainer = lightning.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )
    train, held_out = loaders(32 // part[1], *part)
    trainer.fit(net, train, held_out if validated else None, ckpt_path=checkpoint)
    return net


def selc(**options: Any) -> Any:
    from selc.integrations.lightning import SELCCallback

    return SELCCallback(SELCLoss(given(), CLASSES, 0.7, start=options.pop("start", 2), **options))


def recorder() -> Any:
    from selc.integrations.lightning import RecorderCallback

    return RecorderCallback(Recorder(given(), CLASSES))


def assert_same_bits(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name].nan_to_num(), theirs[name].nan_to_num()) for name in ours)


def test_selc_corrects_labels(tmp_path: Path) -> None:
    callback = selc()
    net = fitted(tmp_path, "selc", [callback], max_epochs=12)
    true = sentences()[1][:ROWS]
    before, after = ((labels == true).float().mean() for labels in (given(), callback.criterion.corrected_labels))
    assert after > before + 0.15
    assert bool((callback.criterion.updates == 12).all())
    assert not any("criterion" in name for name in net.state_dict())
    assert "criterion" not in dict(net.named_modules())
    assert "criterion" not in net.__dict__  # it was lent for the training only


def test_before_selc_starts_a_training_is_the_plain_one(tmp_path: Path) -> None:
    ours, plain = fitted(tmp_path, "selc", [selc(start=99)]), fitted(tmp_path, "plain", [])
    for name, value in plain.state_dict().items():
        assert torch.allclose(value, ours.state_dict()[name], atol=1e-5)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_recorder_changes_no_bit_of_the_training(tmp_path: Path, accumulate: int) -> None:
    callback = recorder()
    ours = fitted(tmp_path, "recorded", [callback], validated=False, accumulate_grad_batches=accumulate)
    plain = fitted(tmp_path, "plain", [], validated=False, accumulate_grad_batches=accumulate)
    assert_same_bits(ours.state_dict(), plain.state_dict())
    kept = callback.recorder.state_dict()
    assert kept["epochs"].tolist() == list(range(EPOCHS))
    assert bool((kept["epochs.predictions"] >= 0).all())
    assert callback.recorder.analysis().why_unchanged is Why.NOT_HELD_OUT


def test_a_recorder_is_shown_validation_once_an_epoch_and_no_sanity_check(tmp_path: Path) -> None:
    callback = recorder()
    net = fitted(tmp_path, "recorded", [callback], num_sanity_val_steps=2)
    kept = callback.recorder.state_dict()
    assert kept["looks"].tolist() == kept["epochs"].tolist() == list(range(EPOCHS))
    assert kept["looks.predictions"].shape == (EPOCHS, OUT)
    with torch.no_grad():
        said = net.net(counts()[ROWS:]).argmax(dim=1)
    assert torch.equal(kept["looks.predictions"][-1], said)
    assert callback.recorder.analysis().decision is not None


def test_sanity_checks_count_as_no_epoch(tmp_path: Path) -> None:
    callback = selc()
    fitted(tmp_path, "selc", [callback], num_sanity_val_steps=-1, max_epochs=3)
    assert callback.criterion.epoch == 2
    assert bool((callback.criterion.updates == 3).all())


@pytest.mark.parametrize("step", ["selc", "recorded"])
def test_a_fast_dev_run_leaves_no_trace(tmp_path: Path, step: str) -> None:
    callback = selc() if step == "selc" else recorder()
    before = {name: value.clone() for name, value in callback.state_dict().items()}
    fitted(tmp_path, step, [callback], fast_dev_run=True)
    assert_same_bits(callback.state_dict(), before)
    fitted(tmp_path, step, [callback])  # and the training after it is not disturbed
    assert callback.criterion.training if step == "selc" else callback.recorder.epoch == EPOCHS - 1


@pytest.mark.parametrize("step", ["selc", "recorded"])
def test_a_training_resumed_from_a_checkpoint_ends_with_the_same_bits(tmp_path: Path, step: str) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    def run(checkpoint: str | None = None) -> tuple[Any, Any]:
        callback = selc(start=1) if step == "selc" else recorder()
        saving = ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1)
        return fitted(tmp_path, step, [callback, saving], checkpoint=checkpoint, enable_checkpointing=True), callback

    whole, first = run()
    again, second = run(str(tmp_path / "epoch=1.ckpt"))
    assert_same_bits(again.state_dict(), whole.state_dict())
    assert_same_bits(second.state_dict(), first.state_dict())


def test_two_processes_that_accumulate_gradients_end_with_the_targets_and_the_record_of_one(tmp_path: Path) -> None:
    assert_two_end_as_one("tests.adapters.work_lightning", tmp_path)
    alone, *together = (read_tensors(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    assert all(one["looks"].shape == alone["looks"].shape for one in together)


def test_a_step_that_returns_no_index_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="training_step must return a dict with loss, logits and index; got loss"):
        fitted(tmp_path, "plain", [recorder()])


@pytest.mark.parametrize("fast", [True, False])
def test_a_step_that_does_not_call_the_loss_is_told_so(fast: bool, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training_step must return self\.criterion\(logits, y, index\)"):
        fitted(tmp_path, "plain", [selc()], fast_dev_run=fast)
