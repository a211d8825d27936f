"""SELC, or findings alone, in the Trainer of Hugging Face.

The dataset needs a column with the place of each sample: ``dataset.add_column("index", range(len(dataset)))``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selc._io.files import read_tensors, write_tensors
from selc.errors import ConfigError, InputError
from selc.losses.selc_loss import SELCLoss
from selc.recorder import Recorder

try:
    from transformers import Trainer, TrainerCallback
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ConfigError(
        "selc.integrations.transformers needs the package transformers; got none. "
        "Install it: pip install 'selc[transformers]'."
    ) from None

log = logging.getLogger("selc")
FILE = "selc.safetensors"  # in each checkpoint


class SELCMixin:
    """Adds SELC or a recorder to a `transformers.Trainer`: ``class MyTrainer(SELCMixin, TheirTrainer)``.

    Parameters
    ----------
    *args, **kwargs
        Those of the trainer.
    criterion : SELCLoss, optional
        The loss that is trained with, in the place of the model's. Evaluation keeps the model's own loss.
    recorder : Recorder, optional
        Takes down the training; without a ``criterion`` nothing about the training changes. If there is one set for
        evaluation and it is evaluated after each epoch, the recorder decides by it.
    index_column : str, default "index"
        The column of the training set that holds the place of each sample. Other sets need none.

    Notes
    -----
    Each checkpoint has the state of both in ``selc.safetensors``, and ``train(resume_from_checkpoint=...)`` goes on
    from it. The rest of a checkpoint is the Trainer's, which saves its optimizer as a pickle.
    """

    def __init__(
        self,
        *args: Any,
        criterion: SELCLoss | None = None,
        recorder: Recorder | None = None,
        index_column: str = "index",
        **kwargs: Any,
    ) -> None:
        if criterion is None and recorder is None:
            raise ConfigError("a criterion or a recorder must be given; got neither. Pass criterion=SELCLoss(...).")
        if criterion is not None and kwargs.get("compute_loss_func") is not None:
            raise ConfigError("criterion takes the place of compute_loss_func; got both. Drop one of them.")
        self.criterion, self.recorder, self.index_column = criterion, recorder, index_column
        super().__init__(*args, **kwargs)
        trainer: Any = self
        trainer.add_callback(_Epochs(self))
        if criterion is None:
            return
        trainer.model_accepts_loss_kwargs = False  # ours is a mean over a batch: the Trainer divides it by their number
        if trainer.label_smoother is not None:
            log.warning("SELCTrainer: label smoothing is off, as SELC's targets are soft themselves.")
            trainer.label_smoother = None

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None, **kwargs: Any
    ) -> Any:
        """The criterion's loss of a training batch; of any other batch, or without a criterion, the model's own."""
        rest, index = self._parted(inputs)
        trains = model.training and torch.is_grad_enabled()
        if trains and index is None:
            raise InputError(
                f"the training set must have a column {self.index_column!r} with the place of each sample; got "
                f"{', '.join(sorted(rest))}. Add it: dataset.add_column({self.index_column!r}, range(len(dataset)))."
            )
        labels = rest.get("labels")
        if not trains or self.criterion is None:
            parent: Any = super()
            loss, outputs = parent.compute_loss(
                model, rest, return_outputs=True, num_items_in_batch=num_items_in_batch, **kwargs
            )
        else:
            if labels is None:
                raise InputError(f"a training batch must have labels; got {', '.join(sorted(rest))}.")
            outputs = model(**{name: value for name, value in rest.items() if name != "labels"})
            loss = self.criterion(_logits(outputs), labels, index)
        if trains and self.recorder is not None and index is not None:
            self.recorder(index, _logits(outputs), labels)
        return (loss, outputs) if return_outputs else loss

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As the Trainer's; the model is never handed the index."""
        parent: Any = super()
        return parent.prediction_step(model, self._parted(inputs)[0], *args, **kwargs)

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """As the Trainer's; what is predicted while it trains is shown to the recorder."""
        trainer: Any = self
        parent: Any = super()
        recorder = self.recorder if trainer.is_in_train and metric_key_prefix == "eval" else None
        if trainer.state.global_step == 0:  # before the training
            recorder = None
        only_loss = prediction_loss_only if recorder is None else False
        output = parent.evaluation_loop(dataloader, description, only_loss, ignore_keys, metric_key_prefix)
        if recorder is not None and output.label_ids is not None:
            said = output.predictions[0] if isinstance(output.predictions, tuple) else output.predictions
            recorder.validation(torch.as_tensor(said), torch.as_tensor(output.label_ids))
        return output

    def _set_signature_columns_if_needed(self) -> None:
        """The Trainer drops columns that the model does not take; the index is taken by us."""
        trainer: Any = self
        parent: Any = super()
        parent._set_signature_columns_if_needed()
        if self.index_column not in trainer._signature_columns:
            trainer._signature_columns.append(self.index_column)

    # What belongs to the training goes where the optimizer goes: the Trainer calls both in every process.

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        trainer: Any = self
        parent: Any = super()
        parent._save_optimizer_and_scheduler(output_dir)
        if self.recorder is not None:
            self.recorder.gather()
        if trainer.args.should_save:
            write_tensors(Path(output_dir) / FILE, self._state())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        parent: Any = super()
        parent._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / FILE
        if not path.is_file():
            raise InputError(
                f"{checkpoint} must hold {FILE} to go on from; got none. It was not saved by a SELCTrainer."
            )
        saved = read_tensors(path)
        for name, part in self._parts().items():
            state = {key.removeprefix(f"{name}."): value for key, value in saved.items() if key.startswith(f"{name}.")}
            if not state:
                raise InputError(f"{path} must hold the state of the {name}; got none. It was saved without one.")
            part.load_state_dict(state)

    def _state(self) -> dict[str, Tensor]:
        return {
            f"{name}.{key}": value.detach().cpu().contiguous()
            for name, part in self._parts().items()
            for key, value in part.state_dict().items()
        }

    def _parts(self) -> dict[str, Any]:
        parts = {"criterion": self.criterion, "recorder": self.recorder}
        return {name: part for name, part in parts.items() if part is not None}

    def _parted(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Tensor | None]:
        """The inputs of the model, and the index."""
        rest = dict(inputs)
        index = rest.pop(self.index_column, None)
        return rest, index


class _Epochs(TrainerCallback):  # type: ignore[misc]
    """Tells which epoch comes; also of a training that goes on in the middle of one."""

    def __init__(self, owner: SELCMixin) -> None:
        self.owner = owner

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for part in self.owner._parts().values():
            part.set_epoch(int(state.epoch or 0))


class SELCTrainer(SELCMixin, Trainer):  # type: ignore[misc]
    """The Trainer of Hugging Face with SELC's loss, or with a recorder that changes nothing; see `SELCMixin`.

    Examples
    --------
    Train with SELC, on a classification model and a dataset with the columns ``label`` and ``index``::

        criterion = SELCLoss(torch.tensor(dataset["label"]), num_classes, epochs=5)
        trainer = SELCTrainer(model, args, train_dataset=dataset, criterion=criterion)
        trainer.train()
        criterion.corrected_labels

    Train as before, and learn which labels look wrong::

        recorder = Recorder(torch.tensor(dataset["label"]), num_classes)
        SELCTrainer(model, args, train_dataset=dataset, eval_dataset=held_out, recorder=recorder).train()
        recorder.analysis().frame()
    """


def _logits(outputs: Any) -> Tensor:
    """The class scores [B, C] of a model's outputs, which are a mapping or a tuple, with or without a loss."""
    found: Tensor | None
    if isinstance(outputs, Mapping):
        found = outputs.get("logits")
    else:
        found = next((part for part in outputs if isinstance(part, Tensor) and part.dim() > 0), None)
    if found is None:
        raise InputError(
            f"the model must return logits; got {type(outputs).__name__} without. Use one for classification."
        )
    return found


__all__ = ["SELCMixin", "SELCTrainer"]
