"""SELC, or findings alone, in the Trainer of Lightning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from selc.errors import ConfigError, InputError
from selc.losses.selc_loss import SELCLoss
from selc.recorder import Recorder
from selc.world import current

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError as error:
    if error.name != "lightning":
        raise
    raise ConfigError(
        "selc.integrations.lightning needs the package lightning; got none. Install it: pip install 'selc[lightning]'."
    ) from None


class SELCCallback(Callback):  # type: ignore[misc]
    """Gives a module SELC's loss as ``self.criterion`` while it is trained, and saves it with each checkpoint.

    Parameters
    ----------
    criterion : SELCLoss
        The loss, with the labels of the whole training set.
    name : str, default "criterion"
        The attribute of the module.

    Notes
    -----
    The callback owns the loss. To the module it is a plain attribute: it is neither in its ``state_dict`` nor wrapped
    by DDP, which would send the table around at each step. The state is in Lightning's checkpoint, which is a pickle;
    of ours it holds tensors only. Sanity checks are no epochs, and ``fast_dev_run`` leaves the table as it was.

    Examples
    --------
    ::

        def training_step(self, batch, _):
            x, y, index = batch  # of an IndexedDataset
            return self.criterion(self(x), y, index)

        callback = SELCCallback(SELCLoss(labels, num_classes, epochs=30))
        L.Trainer(max_epochs=30, callbacks=[callback]).fit(module, loader)
        callback.criterion.corrected_labels
    """

    def __init__(self, criterion: SELCLoss, name: str = "criterion") -> None:
        self.criterion, self.name = criterion, name
        self._hook: Any = None
        self._called = False  # the loss, in this training

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        object.__setattr__(pl_module, self.name, self.criterion)  # past nn.Module, which would register it
        self.criterion.train(not trainer.fast_dev_run)
        self._called, self._hook = False, self.criterion.register_forward_pre_hook(self._hear)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.criterion.set_epoch(trainer.current_epoch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if outputs and not self._called:  # no outputs: the step skipped this batch
            raise InputError(
                f"training_step must return self.{self.name}(logits, y, index); got a step that did not call it, so "
                "that SELC would change nothing. The index is the place of each sample in the dataset: wrap it in "
                "selc.IndexedDataset."
            )

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        pl_module.__dict__.pop(self.name, None)
        if self._hook is not None:
            self._hook.remove()

    def _hear(self, *_: Any) -> None:
        self._called = True

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.criterion.state_dict())

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        self.criterion.load_state_dict(state_dict)


class RecorderCallback(Callback):  # type: ignore[misc]
    """Takes down a training without changing it, and saves what it has with each checkpoint.

    Parameters
    ----------
    recorder : Recorder
        With the labels of the whole training set.

    Notes
    -----
    ``training_step`` returns a dict with ``loss``, ``logits`` and ``index``, and ``labels`` if they are to be compared
    with those of the recorder. If ``validation_step`` returns one with ``logits`` and ``labels``, the recorder decides
    by these samples. Sanity checks and ``fast_dev_run`` are not recorded.

    Examples
    --------
    ::

        def training_step(self, batch, _):
            x, y, index = batch  # of an IndexedDataset
            logits = self(x)
            return {"loss": F.cross_entropy(logits, y), "logits": logits, "index": index}

        callback = RecorderCallback(Recorder(labels, num_classes))
        L.Trainer(max_epochs=30, callbacks=[callback]).fit(module, loader)
        callback.recorder.analysis().frame()
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._shown: list[tuple[Tensor, Tensor]] = []  # of this pass over the validation set

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.fast_dev_run:
            self.recorder.set_epoch(trainer.current_epoch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not isinstance(outputs, Mapping) or not {"logits", "index"} <= outputs.keys():
            got = ", ".join(sorted(outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise InputError(
                f"training_step must return a dict with loss, logits and index; got {got}. The index is the place of "
                "each sample in the dataset: wrap it in selc.IndexedDataset."
            )
        if not trainer.fast_dev_run:
            self.recorder(outputs["index"], outputs["logits"], outputs.get("labels"))

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._shown = []

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        shows = isinstance(outputs, Mapping) and {"logits", "labels"} <= outputs.keys()
        if shows and dataloader_idx == 0 and not (trainer.sanity_checking or trainer.fast_dev_run):
            self._shown.append((outputs["logits"].detach().float(), outputs["labels"]))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if not self._shown or trainer.state.fn != "fit":  # a validation of its own is no epoch
            return
        logits, labels = (torch.cat(current().gather(torch.cat(parts))) for parts in zip(*self._shown, strict=True))
        self._shown = []
        self.recorder.validation(logits, labels)

    def state_dict(self) -> dict[str, Tensor]:
        self.recorder.gather()  # Lightning asks every process
        return self.recorder.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        self.recorder.load_state_dict(state_dict)


__all__ = ["RecorderCallback", "SELCCallback"]
