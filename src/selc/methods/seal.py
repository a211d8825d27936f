"""Chen, Ye, Chen, Zhao and Heng: Beyond Class-Conditional Assumption: A Primary Attempt to Combat Instance-Dependent
Label Noise. AAAI 2021."""

from __future__ import annotations

from typing import Literal

from selc.errors import ConfigError
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.parts import normalised
from selc.types import Outcome, StagePlan, Sweep, TrainSet


@METHODS.register("seal")
class SEAL(Method):
    """Self-evolution average label: predictions averaged over a whole training are the labels of the next one.

        S_i = mean over the epochs of p_i      L = H(S_i, p_i), with S_i = Y_i in the first training

    After each epoch a pass over the training set adds to the average; ``iterations`` trainings follow the first, each
    of all epochs.

    Deviations: the pass sees the inputs as they are; the authors' code augments them. The optimizer keeps its state
    from epoch to epoch. ``init`` "previous" goes on with the network before, as the authors do on Clothing1M (from
    its best epoch); "fresh" is for all else.
    """

    family = "stages"
    keeps_belief = True
    cost = 4.9
    parallel = True

    def __init__(self, *, iterations: int = 3, init: Literal["fresh", "previous"] = "fresh") -> None:
        super().__init__()
        if iterations < 1:
            raise ConfigError(f"iterations must be at least 1; got {iterations}. The paper uses 3, and 10 on MNIST.")
        if init not in ("fresh", "previous"):
            raise ConfigError(f"init must be 'fresh' or 'previous'; got {init!r}.")
        self.iterations, self.init = iterations, init

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given = data.labels
        self.mean = data.new_store()

    def end_epoch(self, epoch: int, sweep: Sweep) -> None:
        for index, rows in sweep().blocks():
            self.mean.ema(index, rows, momentum=epoch / (epoch + 1))

    def belief(self, sweep: Sweep) -> Store:
        return normalised(self.mean, self.given)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        outcome = train(self, data)
        for _ in range(self.iterations):
            model = outcome.model if self.init == "previous" else None
            outcome = train(self, data.relabel(outcome.target), model=model)
        return outcome
