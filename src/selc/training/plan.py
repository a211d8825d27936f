"""The settings of a training, and the learning rate that follows from them."""

from __future__ import annotations

import inspect
import math
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, field_validator

from selc.errors import ConfigError, unknown
from selc.training.metrics import usual
from selc.training.uncompiled import uncompiled
from selc.types import StagePlan
from selc.world import current, local_rank

FUSED = ("cpu", "cuda", "mps")  # devices on which torch's optimizers have a fused step


class Plan(BaseModel):
    """How to train. The defaults are the paper's for CIFAR (ResNet-34), unless noted; `selc.fit` and the commands take
    what suits the data.

    Parameters
    ----------
    epochs, batch_size : int
        200 and 128.
    lr : float
        0.02.
    optimizer : str
        Any class of ``torch.optim`` (SGD), with ``momentum`` 0.9 and ``weight_decay`` 0.001 where it has such, and
        ``optimizer_options`` on top.
    schedule : "constant", "step" or "cosine"
        Of the learning rate; ``step`` multiplies it by ``gamma`` after each of the epochs in ``milestones``.
    clip_norm : float
        Largest norm of the gradient; 0: not clipped.
    samples_per_epoch : int
        So many rows in an epoch, balanced over the given classes; 0: all rows. ``stratified`` balances each batch.
    seed : int
        Of everything that is drawn; ``shards``, in how many pieces the data are dealt, belongs to it.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``; ``threads`` of the CPU, 0 leaves torch's number.
    precision : "auto", "fp32" or "bf16"
        ``auto`` is bf16 on a GPU that has it. ``compile`` is ``torch.compile``.
    store : "auto", "dense", "half", "disk" or "top-k"
        Form of per-sample tables, see `selc.Store`.
    engine : "ddp" or "fsdp"
        Of several processes; ``sync_batchnorm`` takes batch statistics over all of them.
    losses : "training" or "sweep"
        Recorded in the training pass, or in eval mode after each epoch.
    pick : "last" or "best-val"
        Which epoch's network is the result; ``val_fraction`` is held out of the training set for it.
    metrics : list of str
        Measured on every named set, beside ``top1``.

    Examples
    --------
    >>> from selc import Plan
    >>> plan = Plan(epochs=100, lr=0.1, milestones=[50])
    >>> plan.rate(49), round(plan.rate(50), 3)
    (0.1, 0.01)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=200, ge=1)
    batch_size: int = Field(default=128, ge=1)
    lr: float = Field(default=0.02, gt=0)
    optimizer: str = "SGD"  # any class of torch.optim
    optimizer_options: dict[str, Any] = Field(default_factory=dict)  # on top of the two below
    momentum: float = Field(default=0.9, ge=0, lt=1)  # for optimizers that have one
    weight_decay: float = Field(default=0.001, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    milestones: list[int] = [40, 80]  # epochs after which the step schedule multiplies the rate by gamma
    gamma: float = Field(default=0.1, gt=0)
    clip_norm: float = Field(default=0.0, ge=0)  # largest norm of the gradient of a network; 0: not clipped
    samples_per_epoch: int = Field(default=0, ge=0)  # so many rows, balanced over the given classes; 0: all rows
    stratified: bool = False  # every batch has about the same share of each given class
    shards: int = Field(default=8, ge=1)  # pieces in which the data are dealt; the order of the data depends on it
    seed: int = Field(default=0, ge=0)
    device: str = "auto"
    threads: int = Field(default=0, ge=0)  # of the CPU; 0 leaves torch's own number
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU that has it, else fp32
    compile: bool = False  # torch.compile: pays on long runs only
    store: Literal["auto", "dense", "half", "disk", "top-k"] = "auto"  # form of the tables of methods; auto: what fits
    engine: Literal["ddp", "fsdp"] = "ddp"  # of several processes: each holds the network, or a part of it (FSDP2)
    sync_batchnorm: bool = False  # of several processes on GPUs: batch norm over the whole batch, not a process's part
    losses: Literal["training", "sweep"] = "training"  # recorded in the training pass, or in eval mode after each epoch
    pick: Literal["last", "best-val"] = "last"  # which epoch's network is the result
    metrics: list[str] = Field(default_factory=usual)  # measured on every named set, beside top1
    val_fraction: float = Field(default=0.0, ge=0, lt=1)  # held out of the noisy training set

    @field_validator("optimizer")
    @classmethod
    def _known_optimizer(cls, name: str) -> str:
        known = {n.lower(): n for n in dir(torch.optim) if isinstance(getattr(torch.optim, n), type)}
        for not_one in ("optimizer", "lbfgs", "sparseadam"):  # the base class; needs a closure; needs sparse gradients
            known.pop(not_one, None)
        if name.lower() not in known:
            raise unknown("optimizer", name, known)
        return known[name.lower()]

    def of_stage(self) -> StagePlan:
        """What a method may know of it."""
        return StagePlan(self.epochs, self.batch_size, self.seed)

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        if self.schedule == "step":
            return self.lr * self.gamma ** sum(epoch >= m for m in self.milestones)
        if self.schedule == "cosine":
            return 0.5 * self.lr * (1 + math.cos(math.pi * epoch / self.epochs))
        return self.lr

    def make_optimizer(self, model: torch.nn.Module, fused: bool = True) -> torch.optim.Optimizer:
        kind = getattr(torch.optim, self.optimizer)
        known = inspect.signature(kind).parameters
        ours = {"lr": self.lr, "weight_decay": self.weight_decay, "momentum": self.momentum}
        options: dict[str, Any] = {name: value for name, value in ours.items() if name in known}
        fits = all(p.is_floating_point() and p.device.type in FUSED for p in model.parameters())
        if fused and fits and "fused" in known:
            options["fused"] = True  # one pass over the weights instead of four: half the time of SGD on a CPU
        try:
            with uncompiled(torch.optim.Optimizer.add_param_group):
                optimizer: torch.optim.Optimizer = kind(groups(model), **(options | self.optimizer_options))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"optimizer_options must fit torch.optim.{self.optimizer}; got: {error}.") from None
        return optimizer

    def torch_device(self) -> torch.device:
        """The device, after "auto" was decided and availability checked."""
        name, alone = self.device, current().size == 1
        if name == "auto":
            mps = torch.backends.mps.is_available() and alone  # its weights cannot be sent
            usable = {"cuda": torch.cuda.is_available(), "mps": mps, "cpu": True}
            name = next(kind for kind, there in usable.items() if there)
        try:
            device = torch.device(name)
        except RuntimeError:
            raise ConfigError(f"device must be auto, cpu, cuda, cuda:N or mps; got {name!r}.") from None
        missing = (device.type == "cuda" and not torch.cuda.is_available()) or (
            device.type == "mps" and not torch.backends.mps.is_available()
        )
        if missing:
            raise ConfigError(
                f"device must be one that torch can use here; got {name!r}, which it cannot. Use --device auto."
            )
        if device.type == "mps" and not alone:
            raise ConfigError("device must be cpu or cuda for several processes; got 'mps'. Use --device cpu.")
        if device.type == "cuda" and device.index is None and not alone:
            return torch.device("cuda", local_rank())
        return device

    def autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        """bf16 where asked for, or by default on a GPU that has it; fp32 needs no autocast."""
        if self.precision == "auto":
            return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else None
        return torch.bfloat16 if self.precision == "bf16" else None


def groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """The parameters in groups by the part of the rate that they train at; a module may say so by ``rate_factor``."""
    factors: dict[int, float] = {}
    for module in model.modules():
        if (factor := getattr(module, "rate_factor", None)) is not None:
            factors |= {id(parameter): float(factor) for parameter in module.parameters()}
    by_factor: dict[float, list[torch.nn.Parameter]] = {}
    for parameter in model.parameters():
        by_factor.setdefault(factors.get(id(parameter), 1.0), []).append(parameter)
    return [{"params": parameters, "rate_factor": factor} for factor, parameters in by_factor.items()]
