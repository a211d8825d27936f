"""Predictions of a finished run for new data, which are treated as the training data were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selc._io.files import read_tensors
from selc._io.table_files import write_table
from selc.classifiers import create, fitted_again, is_classifier_name
from selc.classifiers.folds import probabilities as class_probabilities
from selc.errors import InputError, RunFolderError
from selc.losses.cross_entropy import log_softmax
from selc.methods import METHODS, Method
from selc.methods import create as create_method
from selc.methods.ce import CE
from selc.methods.co_teaching import mean_of_two
from selc.nets import NETS
from selc.nets import create as create_net
from selc.runs.classifier_job import as_table
from selc.runs.config import ARRAYS, Choice
from selc.runs.folder import RunFolder
from selc.runs.job import load
from selc.runs.new_data import Ids, new_samples
from selc.runs.preprocessing import state_of, stored_inputs
from selc.training import Plan
from selc.training.evaluate import Evaluator
from selc.types import Inputs

BATCH = 256  # rows at a time; the network runs without gradients


@dataclass(frozen=True)
class Predictions:
    """Class probabilities of new samples."""

    ids: Sequence[str]
    classes: tuple[str, ...]
    probs: Tensor  # [N, C]; rows sum to one
    skipped: Sequence[tuple[str, str]] = field(default=())  # samples that could not be read, with the reason

    def columns(self) -> dict[str, Any]:
        """sample_id, predicted_label, confidence, and the probability of each class as p_NAME."""
        confidence, label = self.probs.max(dim=1)
        names = np.array(self.classes, dtype=np.str_)
        probs = self.probs.numpy().round(6)
        return {
            "sample_id": np.array(self.ids, dtype=np.str_),
            "predicted_label": names[label.numpy()],
            "confidence": confidence.numpy().round(6),
            **{f"p_{name}": probs[:, k] for k, name in enumerate(self.classes)},
        }

    def write(self, path: Path) -> None:
        """As CSV, or as Parquet if the file is called so."""
        write_table(path, self.columns())


def predict(
    run: RunFolder | Path | str,
    data: Path | str,
    *,
    id_column: str = "",
    path_column: str = "",
    skip_bad: bool = False,
    device: str = "auto",
    trust: bool = False,
) -> Predictions:
    """What the network of a finished run says of new data: a table, an .npz file, or a folder of images.

    ``trust`` lets the module be imported that the folder names as its network (see `Config.check_trusted`).
    """
    run = run if isinstance(run, RunFolder) else RunFolder.open(run)
    run.summary  # noqa: B018  a run that is not finished has no network yet, and says so
    state = read_inputs(run)
    check_encoder(run, state, trust)
    ids = Ids(id_column, str(run.config.data.options.get("id_column") or ""))
    samples = new_samples(state, data, ids, path_column, skip_bad)
    if is_classifier_name(run.config.net.name):
        config = run.config
        classifier = fitted_again(run.path, create(config.net.name, config.net.options, config.train.seed))
        probs = torch.from_numpy(class_probabilities(classifier, as_table(samples.inputs), len(run.classes)))
        return Predictions(samples.ids, run.classes, probs, samples.skipped)
    shape = tuple(next(iter(samples.inputs.stream([torch.tensor([0])], None))).shape[1:])
    run.config.check_trusted(run.path, trust)
    model, method = model_of(run, shape)
    plan = run.config.train
    probs = probabilities(model, method, samples.inputs, len(run.classes), plan.batch_size, device)
    return Predictions(samples.ids, run.classes, probs, samples.skipped)


def check_encoder(run: RunFolder, state: Mapping[str, Any], trust: bool) -> None:
    """Refuse to import an encoder that the folder names, unless the user trusts it."""
    name = str(state.get("encoding", {}).get("encoder", {}).get("name", "none"))
    run.config.model_copy(update={"encoder": Choice(name=name)}).check_trusted(run.path, trust)


def read_inputs(run: RunFolder) -> dict[str, Any]:
    """How data become inputs; where a run has not written it, by its data, if they are still there and the same."""
    if (stored := stored_inputs(run.path)) is not None:
        return stored
    if run.config.data.name == ARRAYS:
        return {"kind": "arrays", "shape": None}
    try:
        bundle = load(run.config)
    except InputError as error:
        raise RunFolderError(
            f"{run.path} does not say how its data became inputs, and they must be read: {error.for_command}"
        ) from None
    run.check_data(bundle.digest, len(bundle.labels))
    return state_of(bundle.inputs)


# The network


def model_of(run: RunFolder, shape: tuple[int, ...]) -> tuple[nn.Module, Method]:
    """The trained network of a finished run for inputs of ``shape``, and the method that reads its outputs."""
    config = run.config
    if config.net.name not in NETS or config.method.name not in METHODS:
        raise RunFolderError(
            f"{run.path} must be a run with a network and a method by name; got {config.net.name!r} and "
            f"{config.method.name!r}, which only the program knows that made it. Load model.safetensors there."
        )
    options = {key: value for key, value in config.net.options.items() if key != "weights"}  # they are replaced anyway
    return rebuilt(
        create_method(config.method.name, config.method.options),
        lambda outputs: create_net(config.net.name, outputs, shape, options),
        len(run.classes),
        read_tensors(run.path / "model.safetensors"),
    )


def rebuilt(
    method: Method, net: Callable[[int], nn.Module], num_classes: int, weights: Mapping[str, Tensor]
) -> tuple[nn.Module, Method]:
    """A network that takes ``weights``: that of the method, or of a plain last stage."""
    for candidate in (method, CE()):
        model = candidate.build(net, num_classes)
        own = model.state_dict()
        if own.keys() == weights.keys() and all(own[k].shape == weights[k].shape for k in own):
            model.load_state_dict(dict(weights))
            return model, candidate
    raise RunFolderError(
        "the data must be inputs as in the training; got some for which the network has other weights than were saved."
    )


def probabilities(
    model: nn.Module, method: Method, inputs: Inputs, num_classes: int, batch_size: int = BATCH, device: str = "auto"
) -> Tensor:
    """Class probabilities [N, C] in float64; rows sum to one."""
    place = Plan(device=device).torch_device()
    evaluator = Evaluator(model.to(place), method, place, None, batch_size)
    rows = [
        class_log_probs(method, outputs, num_classes).exp() for outputs, _ in evaluator.outputs(inputs.to(place), None)
    ]
    probs = torch.cat(rows).double().cpu()
    return probs / probs.sum(dim=1, keepdim=True)


def class_log_probs(method: Method, outputs: Tensor, num_classes: int) -> Tensor:
    """Outputs to log probabilities [B, C]: by the method; where its last stage was of another kind, by their shape."""
    for read in (method.log_probs, log_softmax, mean_of_two):
        log_p = read(outputs)
        if log_p.dim() == 2 and log_p.shape[1] == num_classes:
            return log_p
    raise RunFolderError(f"the network must have {num_classes} outputs; got outputs of shape {list(outputs.shape)}.")
