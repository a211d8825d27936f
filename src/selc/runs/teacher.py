"""What noise that depends on the instance needs: probabilities of a network trained on the labels, and raw inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from selc.callbacks import Callback
from selc.data import Bundle
from selc.data.inputs.images import ImageInputs
from selc.memory.store import Store
from selc.methods.base import Method, Net, detached_probs
from selc.noise import Supply
from selc.training import Plan, Trainer
from selc.types import Batch, Labels, StagePlan, Sweep, TrainSet

BATCH = 1024  # rows that are read at once


class Teacher(Method):
    """Cross entropy that remembers a row of probabilities for each sample."""

    parallel = True
    store: Store

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.store = data.new_store()


class Averaged(Teacher):
    """The probabilities after each epoch, in eval mode, averaged over all epochs: SEAL's S.

    Deviation: the inputs are not augmented in that pass; the authors' code leaves the augmentation of training on.
    """

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        for index, rows in sweep().blocks():
            self.store.ema(index, rows, momentum=epoch / (epoch + 1))


class Running(Teacher):
    """The probabilities of the training pass, of the last epoch: PMD's eta."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.store.write(batch.index, detached_probs(self, outputs))
        return super().loss(outputs, batch)


def mean_probs(data: TrainSet, net: Net, plan: Plan, callbacks: Sequence[Callback] = ()) -> Tensor:
    """Class probabilities of each sample, averaged over the epochs of a training on its labels, [N, C]."""
    return _taught(Averaged(), data, net, plan, callbacks)


def last_probs(data: TrainSet, net: Net, plan: Plan, callbacks: Sequence[Callback] = ()) -> Tensor:
    """Class probabilities of each sample in the last epoch of a training on its labels, [N, C]."""
    return _taught(Running(), data, net, plan, callbacks)


def raw_inputs(bundle: Bundle) -> Tensor:
    """The inputs as they are stored, a row per sample, [N, D]: of images their pixels from 0 to 255."""
    rows = torch.arange(len(bundle.labels)).split(BATCH)
    inputs = bundle.inputs
    stream = inputs.pixels.stream(rows) if isinstance(inputs, ImageInputs) else inputs.stream(rows, None)
    return torch.cat([x.flatten(1).cpu() for x in stream])


def supply_for(bundle: Bundle, net: Net, plan: Plan, callbacks: Sequence[Callback] = (), epochs: int = 0) -> Supply:
    """What `draw_noise` may ask for, made when it is asked for and at most once.

    The teacher learns the labels on which the noise is drawn, in networks that ``net`` makes, by ``plan``, for
    ``epochs`` where they are given.
    """
    if epochs > 0:
        plan = plan.model_copy(update={"epochs": epochs})

    def taught(teach: Callable[[TrainSet, Net, Plan, Sequence[Callback]], Tensor]) -> Callable[[], Tensor]:
        def make() -> Tensor:
            data = TrainSet(bundle.inputs, Labels(bundle.labels, len(bundle.classes)))
            return teach(data, net, plan, callbacks)

        return cache(make)

    return {"mean_probs": taught(mean_probs), "last_probs": taught(last_probs), "x": cache(lambda: raw_inputs(bundle))}


def _taught(teacher: Teacher, data: TrainSet, net: Net, plan: Plan, callbacks: Sequence[Callback]) -> Tensor:
    whole = plan.model_copy(update={"val_fraction": 0.0, "pick": "last"})  # every sample gets a row
    Trainer(whole, net, callbacks=callbacks).fit(teacher, data)
    return teacher.store.full().cpu()
