"""The verbs of a method, and the registry. The defaults are plain cross entropy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from selc.callbacks import Callback
from selc.losses.cross_entropy import log_softmax, soft_cross_entropy
from selc.memory.store import Store
from selc.registry import Registry
from selc.types import Batch, Decided, EvalSet, Outcome, StagePlan, Step, Sweep, TrainSet

Net = Callable[[int], nn.Module]  # number of outputs -> a fresh network


class Train(Protocol):
    """Runs one stage of training; a method with several stages calls it several times."""

    @property
    def seed(self) -> int:
        """The seed of the run. What a method draws in ``fit`` comes from ``generator(its name, seed, what for)``."""

    @property
    def epochs(self) -> int:
        """The epochs of a stage, unless it is told otherwise."""

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""

    @property
    def val(self) -> EvalSet | None:
        """The validation set of the user, if there is one."""

    def tell(self, text: str) -> None:
        """Say what happens next."""

    def decided(self, decided: Decided) -> None:
        """Note what was decided, and by what; the outcome of ``fit`` carries it, too."""

    def forecast(self, data: TrainSet) -> float:
        """Seconds that one training takes, by counting what it computes."""

    def __call__(
        self,
        method: Method,
        data: TrainSet,
        *,
        model: nn.Module | None = None,
        looks: EvalSet | None = None,
        per_epoch: int = 1,
        callbacks: Sequence[Callback] = (),
        back: float = 0.0,
        start_from: tuple[Outcome, float] | None = None,
        aside: str = "",
        **changes: Any,
    ) -> Outcome:
        """Train ``method`` on ``data``, in a fresh network, on with ``model``, or on from a state of an outcome.

        ``looks`` are shown to the network ``per_epoch`` times in an epoch and never trained on; the outcome keeps what
        it predicted of them. ``callbacks`` are those of this stage, such as one that ends it before its last epoch.
        ``start_from`` is an outcome and the clock to step back to; its stage must have been told how many epochs
        ``back`` that may be. ``changes`` replace settings of the run's plan for this stage: ``epochs``, ``lr``,
        ``schedule``, ... ``aside`` says what a stage is for that is no part of the result.
        """


class Method(nn.Module):
    """What the loss is and what is remembered. It never owns an optimizer, a device, a loader or a log.

    Extend it and write the verbs that differ from cross entropy; most methods are ``setup``, ``loss`` and ``belief``.

    Notes
    -----
    A constructor stores its arguments under their names and nothing else; all of them are keyword-only, have a
    default that a configuration file can hold, and are the method's options. State that changes is a buffer
    or a `Store` made in ``setup``.

    Examples
    --------
    Cross entropy of which no sample can cost more than a limit:

    >>> import torch
    >>> import selc
    >>> class Bounded(selc.Method):
    ...     def __init__(self, *, limit: float = 2.0):
    ...         super().__init__()
    ...         self.limit = limit
    ...
    ...     def loss(self, outputs, batch):
    ...         return self.limit * torch.tanh(selc.soft_cross_entropy(outputs, batch.target) / self.limit)
    >>> x = torch.tensor([[-1.0], [1.0]] * 20)
    >>> selc.fit(x, [0, 1] * 20, method=Bounded(limit=1.5), epochs=1, batch_size=20).losses.shape
    torch.Size([1, 40])
    """

    family: ClassVar[str] = "loss"
    needs: ClassVar[str] = ""  # what must be given or estimated beside the labels: "noise rate", ...
    cost: ClassVar[float] = 1.0  # time of a training relative to CE; measured in benchmarks/methods.py
    keeps_belief: ClassVar[bool] = False  # ``belief`` reads what the method keeps and needs no sweep
    window: int = 0  # epochs whose predictions it keeps, a table [N, C] each; those that do so have an option
    parallel: ClassVar[bool] = False  # right in several processes: each sees only its rows of a batch and of the tables

    def __init__(self) -> None:
        super().__init__()

    def build(self, net: Net, num_classes: int) -> nn.Module:
        """The network or networks to train, and how many outputs they have."""
        return net(num_classes)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        """Allocate per-sample state, and keep what is needed later of the data and the plan of the stage."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The loss of each sample, [B], or of the whole batch, []."""
        return soft_cross_entropy(outputs, batch.target)

    def step(self, model: nn.Module, batch: Batch) -> Step:
        """How a batch meets the model."""
        outputs = model(batch.x)
        return Step(self.loss(outputs, batch), outputs)

    def idle(self, outputs: Tensor, clock: float) -> None:
        """What a process without a row in a batch does so that the others can go on; ``outputs`` are [0, C]."""

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        """Hook after each epoch, such as to update targets or the selection of samples."""

    def select(self) -> Tensor | None:
        """The rows of the next epoch; None = all."""
        return None

    def log_probs(self, outputs: Tensor) -> Tensor:
        """Outputs to log class probabilities, [B, C]: safe to take a loss of, where probabilities are not."""
        return log_softmax(outputs)

    def probs(self, outputs: Tensor) -> Tensor:
        """Outputs to class probabilities, [B, C]; rows sum to one."""
        return self.log_probs(outputs).exp()

    def belief(self, sweep: Sweep) -> Store:
        """The labels that the method now believes, [N, C]; by default the network's probabilities."""
        return sweep()

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        """Raise before a training that cannot work; else what the user should know first, or None.

        It is called before ``setup``, more than once, and changes nothing.
        """
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        """The whole training: one stage, unless a method says otherwise."""
        return train(self, data)


METHODS: Registry[Callable[..., Method]] = Registry("method")


def create(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with checked options."""
    return METHODS[name](**METHODS.checked(name, options or {}))


def detached_probs(method: Method, outputs: Tensor) -> Tensor:
    """Class probabilities for the memory: no gradient passes through what is remembered."""
    with torch.no_grad():
        return method.probs(outputs)
