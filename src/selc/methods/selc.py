"""Lu and He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import Tensor

from selc.callbacks import Callback, EpochRecord
from selc.errors import ConfigError
from selc.losses.cross_entropy import (
    Option,
    check_alpha,
    check_option,
    check_start,
    confidence_weights,
    ensembled,
    soft_cross_entropy,
    usual_alpha,
)
from selc.memory.store import Store
from selc.methods.base import METHODS, Method, Train
from selc.methods.ce import CE
from selc.methods.judge import Judged, judge
from selc.methods.parts import cannot_flip, normalised
from selc.methods.retraining import Retraining, by_both, handed_on
from selc.turning.decision import worse
from selc.turning.paper import Metric, turning_point
from selc.turning.point import TurningPoint
from selc.types import Batch, Outcome, StagePlan, Sweep, TrainSet
from selc.world import current


@METHODS.register("selc")
class SELC(Method):
    """Self-ensemble label correction: targets are a running average of the given label and own predictions.

        t <- alpha t + (1 - alpha) p      L = -sum_c t_c log p_c

    ``start``, the number of epochs of plain CE (it may have a fraction), is by default (``"auto"``) decided by rows
    that were not trained on (see `selc.turning.decision`): the earliest epoch by which their given labels were
    predicted as well as ever; and where held-out networks and the targets can both be believed, the network that is
    handed out is a fresh one on the mean of both. ``"pilot"`` is Algorithm 1 of the paper: a whole CE training, then a
    fresh one that starts ``margin`` epochs before the largest M1. ``alpha="auto"`` follows from the start
    (`usual_alpha`).

    Deviations: none from the paper's Eq. 4 and 6; the paper's constants are ``start="pilot", alpha=0.9``.
    ``weighted`` adds the weight of self-adaptive training. The authors' code takes log(softmax), which is not finite
    for large logits, and looks ``start`` up by the true noise rate.
    """

    family = "memory"
    cost = 1.3
    parallel = True
    keeps_belief = True

    def __init__(
        self,
        *,
        start: float | Literal["auto", "pilot"] = "auto",
        alpha: float | Literal["auto"] = "auto",
        option: Option = "II",
        weighted: bool = False,
        metric: Metric = "M1",
        margin: int = 10,
    ) -> None:
        super().__init__()
        if isinstance(start, str) and start not in ("auto", "pilot"):
            raise ConfigError(f"start must be a number of epochs, 'auto' or 'pilot'; got {start!r}.")
        if isinstance(alpha, str) and alpha != "auto":
            raise ConfigError(f"alpha must be a number in [0, 1) or 'auto'; got {alpha!r}.")
        self.start = start if isinstance(start, str) else check_start(start)
        self.alpha = alpha if isinstance(alpha, str) else check_alpha(alpha)
        self.option, self.weighted = check_option(option), weighted
        self.metric, self.margin = metric, margin

    def setup(self, data: TrainSet, plan: StagePlan) -> None:
        self.given = data.labels
        self.store = data.new_store(labels=self.option == "II")  # Option I starts at zero

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        start, alpha = self._numbers()
        if batch.clock < start:
            return soft_cross_entropy(outputs, batch.target)
        loss, target = ensembled(outputs, lambda p: self.store.ema(batch.index, p, alpha))  # Eq. 6 and 4
        return confidence_weights(target, current()) * loss if self.weighted else loss

    def idle(self, outputs: Tensor, clock: float) -> None:
        if self.weighted and clock >= self._numbers()[0]:
            confidence_weights(outputs, current())

    def check(self, data: TrainSet, plan: StagePlan) -> str | None:
        if self.start in ("auto", "pilot"):
            return None
        start, alpha = self._numbers()
        return cannot_flip(plan.epochs - start, alpha)

    def belief(self, sweep: Sweep) -> Store:
        return self.store if self.option == "II" else normalised(self.store, self.given)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        if self.start == "auto":
            return self.by_evidence(judge(data, train), train)
        if self.start == "pilot":
            pilot = train(CE(), data)
            start = max(turning_point(pilot.losses, self.metric) - self.margin, 0)
            return train(self._at(start, 0.9), data)  # the paper's
        return train(self, data)

    def by_evidence(self, judged: Judged, train: Train) -> Outcome:
        """What is trained once the evidence is there."""
        first = self.by_decision(judged, train)
        known = by_both(first, judged)
        if known is None:
            return first
        train.tell(
            "Training a fresh network on the labels as they are now believed: one that saw wrong ones keeps some."
        )
        return handed_on(first, train(Retraining(), judged.data.relabel(known)))

    def by_decision(self, judged: Judged, train: Train) -> Outcome:
        """The training that counts, by what was decided."""
        evidence, decision, data, watched, looks, _ = judged
        decided = TurningPoint(evidence, decision)
        train.decided(decided)
        if decision.start is None or train.epochs - decision.start < 1:  # nothing was learnt, or no epoch is left
            outcome = train(CE(), data) if watched is None else watched
            return replace(outcome, target=data.new_store(labels=True), decided=decided)
        method = self._at(decision.start, decision.alpha)
        if watched is None:
            return replace(train(method, data), decided=decided)
        assert evidence is not None
        often = evidence.looks_per_epoch
        outcome = train(method, data, looks=looks, per_epoch=often, start_from=(watched, decision.start))
        if outcome.looks is not None and worse(evidence, outcome.looks.predictions):
            best = max(1, round(decision.best))  # it is asked after each epoch: so it begins at least one before
            as_it_was = train(CE(), data, start_from=(watched, best - 1), callbacks=[Until(best)])
            outcome = replace(as_it_was, target=outcome.target)
        return replace(outcome, decided=decided)

    def _at(self, start: float, alpha: float) -> SELC:
        """The same method with numbers in the place of "auto"."""
        chosen = alpha if self.alpha == "auto" else self.alpha
        return SELC(start=start, alpha=chosen, option=self.option, weighted=self.weighted)

    def _numbers(self) -> tuple[float, float]:
        start = self.start if not isinstance(self.start, str) else 0.0
        return start, self.alpha if not isinstance(self.alpha, str) else usual_alpha(start)


class Until(Callback):
    """Ends a stage after so many epochs, where its schedule is that of a longer one."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, record: EpochRecord) -> bool:
        return record.done >= self.epochs
