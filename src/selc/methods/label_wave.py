"""Yuan, Feng and Liu: Early Stopping Against Label Noise Without Validation Data (Label Wave). ICLR 2024."""

from __future__ import annotations

import math

from torch import Tensor

from selc.callbacks import Callback, EpochRecord
from selc.losses.watcher import TOGETHER, Watcher, waited
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.selc import Until
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet


@METHODS.register("label-wave")
class LabelWave(Method):
    """Cross entropy that ends where the network changes its mind about its training samples least.

        c_e = share of training samples with argmax p_e != argmax p_(e - 1)      T = first minimum of the mean of c
        L = H(y, p) for T epochs

    Predictions change ever less while the pattern is learnt, and more often again when wrong labels are learnt by
    heart. No row is held out. Without a minimum the training goes on to its end.

    Deviations: predictions are those of the training pass. The mean is over three epochs, and a minimum counts once it
    was not undercut for a tenth of the epochs, at least two; then the training steps back to it.
    """

    family = "stopping"
    cost = 1.1

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        earliest = Watcher(0, plan.epochs).earliest
        if earliest <= plan.epochs:
            return None
        return f"no minimum can be seen: that takes {earliest} epochs at least, and there are {plan.epochs}."

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.watcher = Watcher(len(data), plan.epochs)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.watcher.feed(batch.index, outputs)
        return super().loss(outputs, batch)

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        self.watcher.ask()

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        back = math.ceil(waited(train.epochs)) + TOGETHER  # from where a minimum is known to where it was
        watched = train(self, data, callbacks=[Minimum(self)], back=back)
        turn, done = self.watcher.turn(), watched.history[-1]["epoch"] + 1
        if turn is None or round(turn.peak) >= done:
            return watched
        best = round(turn.peak)
        train.tell(f"Predictions changed least after {best} of {train.epochs} epochs: the training ends there.")
        return train(CE(), data, start_from=(watched, best - 1), callbacks=[Until(best)])


class Minimum(Callback):
    """Ends a training once the first minimum of its changes of mind is known."""

    def __init__(self, method: LabelWave) -> None:
        self.method = method

    def on_epoch_end(self, record: EpochRecord) -> bool:
        return self.method.watcher.turn() is not None
