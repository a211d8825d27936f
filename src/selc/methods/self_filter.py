"""Nguyen, Mummadi, Ngo, Nguyen, Beggel and Brox: SELF: Learning to Filter Noisy Labels with Self-Ensembling.
ICLR 2020."""

from __future__ import annotations

import copy
import math
from typing import Literal

import torch
from torch import Tensor, nn

from selc.callbacks import Callback, EpochRecord
from selc.errors import ConfigError
from selc.losses.cross_entropy import check_alpha, log_softmax
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Net, Train
from selc.methods.noisy_validation import agreement, check_leaves_rows, hold_out
from selc.methods.parts import epochs_of, follow, normalised, with_fixed_weights
from selc.types import Batch, Labels, Outcome, StagePlan, Step, Sweep, TrainSet

MEMORY = 80  # the teacher averages over a run's steps / 80: gamma 0.999 for 200 epochs of CIFAR in batches of 128


@METHODS.register("self")
class SELF(Method):
    """Self-ensemble filtering: a mean teacher, and only labels that its mean prediction shares are learnt from.

        L = [y = argmax z] H(y, p) + w sum_c (p_c - p'_c)^2      z <- alpha z + (1 - alpha) p'
        theta' <- gamma theta' + (1 - gamma) theta, the weights of the teacher, which predicts p'

    Training 0 learns from all labels. Each further one goes on from the best teacher and the z of the one before, whose
    filter is always applied to the given labels. A training ends when its teacher has not improved on held-out noisy
    labels (``val`` of the rows) for ``patience``. There are ``iterations`` filtered ones at most; they end with the
    first that is worse than the one before it, which is then the result. ``patience`` and ``ramp``, in which w grows to
    ``consistency``, are shares of the epochs below 1, else epochs.

    Deviations: a re-implementation from the paper's description, without public code; w, its ramp and gamma are those
    of Mean Teacher on CIFAR-10, which the paper builds on (its weight of 100 on the mean over ten classes is 10 on the
    sum, whose size does not depend on the number of classes); the other constants are our own. Student and teacher see
    the same view, and a class that would lose all of its labels keeps them.
    """

    family = "stages"
    needs = "mean teacher; a tenth of the rows is held out"
    cost = 2.6
    keeps_belief = True
    epochs: int  # of the stage
    labelled: Tensor | None = None  # [N] rows to learn the labels of; None: all
    held: Tensor | None = None  # rows that are held out
    earlier: Labels | None = None  # z of the training before
    best_accuracy: Tensor
    best_epoch: Tensor

    def __init__(
        self,
        *,
        alpha: float = 0.9,
        gamma: float | Literal["auto"] = "auto",
        consistency: float = 10.0,
        ramp: float = 5 / 180,
        val: float = 0.1,
        patience: float = 0.15,
        iterations: int = 5,
    ) -> None:
        super().__init__()
        if isinstance(gamma, str) and gamma != "auto":
            raise ConfigError(f"gamma must be a number in [0, 1) or 'auto'; got {gamma!r}.")
        if not (consistency >= 0 and ramp >= 0 and patience > 0):
            raise ConfigError(
                "consistency and ramp must be at least 0 and patience more than 0; got "
                f"{consistency}, {ramp} and {patience}."
            )
        if not 0 < val < 1 or iterations < 1:
            raise ConfigError(f"val must be in (0, 1) and iterations at least 1; got {val} and {iterations}.")
        self.alpha, self.gamma = check_alpha(alpha), gamma if isinstance(gamma, str) else check_alpha(gamma, "gamma")
        self.consistency, self.ramp, self.val = consistency, ramp, val
        self.patience, self.iterations = patience, iterations

    def build(self, net: Net, num_classes: int) -> nn.Module:
        return Taught(net(num_classes), 0.999 if isinstance(self.gamma, str) else self.gamma)

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given, self.epochs = data.labels, plan.epochs
        self.ensemble = data.new_store()  # z
        self.best = data.new_store()  # z after the best epoch
        if self.earlier is not None:
            for index, rows in self.earlier.blocks():
                self.ensemble.write(index, rows)
        self.register_buffer("best_accuracy", torch.tensor(-1.0))
        self.register_buffer("best_epoch", torch.tensor(0))

    def step(self, model: nn.Module, batch: Batch) -> Step:
        self.__dict__["model"] = model  # no part of the method; `end_epoch` has it keep its best weights
        return super().step(model, batch)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        log_p, p_teacher = log_softmax(outputs[0]), log_softmax(outputs[1]).exp().detach()
        supervised = -(batch.target * log_p).sum(dim=1)
        if self.labelled is not None:
            supervised = supervised * self.labelled[batch.index]
        apart = (log_p.exp() - p_teacher).square().sum(dim=1)
        return supervised + self._weight(batch.clock) * apart

    def log_probs(self, outputs: Tensor) -> Tensor:
        return super().log_probs(outputs[-1] if outputs.dim() == 3 else outputs)  # the teacher's

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        p = sweep()
        for index, rows in p.blocks():
            self.ensemble.ema(index, rows, self.alpha)
        accuracy = torch.tensor(float(epoch)) if self.held is None else agreement(p, self.given, self.held)
        if bool(accuracy >= self.best_accuracy):  # of several as good the last, as with trainings
            self.best_accuracy.copy_(accuracy)
            self.best_epoch.fill_(epoch)
            self.best.load_state_dict(self.ensemble.state_dict())
            if "model" in self.__dict__:
                self.__dict__["model"].keep()

    def belief(self, sweep: Sweep) -> Store:
        return normalised(self.best, self.given)

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if self.held is None:
            check_leaves_rows(data, self.val, "val")
        return None

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        rows = len(data) if data.rows is None else len(data.rows)
        gamma = self._gamma(train.epochs * math.ceil(rows / train.batch_size))
        held, data = hold_out(data, self.val, "self", train.seed)
        method = self._at(gamma, None, held, None)
        outcome = train(method, data, callbacks=[Patience(method)])
        for _ in range(self.iterations):
            best = float(method.best_accuracy)
            method = self._at(gamma, shared(outcome.target, data), held, Labels(outcome.target, data.num_classes))
            later = train(method, data, model=from_best(outcome.model), callbacks=[Patience(method)])
            if float(method.best_accuracy) < best:
                break
            outcome = later
        return outcome

    def _at(self, gamma: float, labelled: Tensor | None, held: Tensor, earlier: Labels | None) -> SELF:
        """The same method in one of its trainings."""
        method = copy.deepcopy(self)
        method.gamma = gamma
        method.labelled, method.held, method.earlier = labelled, held, earlier
        return method

    def _gamma(self, steps: int) -> float:
        """The momentum of the teacher in a run of so many steps."""
        return max(0.0, 1 - MEMORY / max(steps, 1)) if isinstance(self.gamma, str) else self.gamma

    def _weight(self, clock: float) -> float:
        """w = consistency exp(-5 (1 - t)^2), with t from 0 to 1 in the time ``ramp`` (Laine and Aila 2017)."""
        ramp = self.ramp * self.epochs if self.ramp < 1 else self.ramp
        return self.consistency * math.exp(-5 * (1 - min(clock / ramp, 1.0)) ** 2 if ramp > 0 else 0.0)


class Patience(Callback):
    """Ends a training of SELF when its best epoch lies too far back."""

    def __init__(self, method: SELF) -> None:
        self.method = method

    def on_epoch_end(self, record: EpochRecord) -> bool:
        method = self.method
        since = record.done - 1 - int(method.best_epoch)
        return since >= max(1, epochs_of(method.patience, method.epochs))


class Taught(nn.Module):
    """A student and its teacher, whose weights are the mean of the student's; in eval mode the teacher alone.

    In training the outputs are stacked, [2, B, C]. The teacher's weights are buffers, which no optimizer sees.
    """

    seen: Tensor

    def __init__(self, student: nn.Module, gamma: float) -> None:
        super().__init__()
        self.student, self.teacher, self.gamma = student, with_fixed_weights(student), gamma
        self.best = copy.deepcopy(self.teacher)
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.teacher(x)  # type: ignore[no-any-return]
        with torch.no_grad():
            self.follow()
            taught = self.teacher(x)
        return torch.stack([self.student(x), taught])

    def follow(self) -> None:
        """Move the teacher towards the student as the last step left it: a plain mean at first, then by ``gamma``."""
        share = (1 / (self.seen + 1)).clamp_min(1 - self.gamma)
        follow(self.teacher, self.student, share)
        self.seen.add_(1)

    def keep(self) -> None:
        """Note the teacher's weights as the best so far."""
        self.best.load_state_dict(self.teacher.state_dict())


def from_best(model: nn.Module) -> nn.Module:
    """A copy whose student and teacher both start from the best teacher."""
    result = copy.deepcopy(model)
    if isinstance(result, Taught):
        result.student.load_state_dict(result.best.state_dict())
        result.teacher.load_state_dict(result.best.state_dict())
    return result


def shared(target: Store, data: TrainSet) -> Tensor:
    """Which labels ``target`` finds likeliest too, [N]; a class that would lose all of its labels keeps them."""
    given = data.labels.hard
    agrees = (target.argmax() == given).float()
    rows = slice(None) if data.rows is None else data.rows
    kept = torch.bincount(given[rows], weights=agrees[rows], minlength=data.num_classes)
    return torch.where(kept[given] > 0, agrees, 1.0)
