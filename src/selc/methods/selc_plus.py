"""Lu and He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022 (SELC+)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from selc.errors import ConfigError
from selc.methods.base import METHODS, Train
from selc.methods.judge import judge
from selc.methods.retraining import Retraining, by_both, handed_on, retrained
from selc.methods.selc import SELC
from selc.types import Outcome, TrainSet

Kind = Literal["auto", "hard", "soft"]


@METHODS.register("selc+")
class SELCPlus(Retraining):
    """SELC, then a fresh network trained with mixup on the corrected labels.

        x' = l x_i + (1 - l) x_j      L = l H(t_i, p') + (1 - l) H(t_j, p')      l ~ Beta(a, a)

    Where the start is decided by held-out rows (the default), the second network learns from soft targets, the mean of
    SELC's and of what held-out networks say where both are to be believed; mixup is used unless held-out rows are
    predicted worse with it than without; and where the first network has learnt nothing there is no second one.
    With a ``start`` of one's own or the paper's it is the published second stage.

    Deviations: partners are drawn within a shard of the data, so that the result does not depend on the number
    of processes. The corrected labels are then hard by default, as in the authors' code; their text can be read as
    soft. Their code also sends each unmixed batch through the network, which changes only batch norm; we do not.
    """

    family = "stages"
    cost = 3.3

    def __init__(
        self,
        *,
        start: float | Literal["auto", "pilot"] = "auto",
        alpha: float | Literal["auto"] = "auto",
        labels: Kind = "auto",
        concentration: float = 0.9,
    ) -> None:
        super().__init__(concentration=concentration)
        if not concentration >= 0:
            raise ConfigError(
                f"concentration must be at least 0; got {concentration}. It is the parameter of mixup's Beta "
                "distribution; 0 means no mixing, the authors use 0.9."
            )
        if labels not in ("auto", "hard", "soft"):
            raise ConfigError(
                f"labels must be 'auto', 'hard' or 'soft'; got {labels!r}. The authors' code uses hard ones."
            )
        SELC(start=start, alpha=alpha)  # checks them now, not after the first stage was set up
        self.start, self.alpha, self.labels = start, alpha, labels

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        method = SELC(start=self.start, alpha=self.alpha)
        if self.start != "auto":
            first = method.fit(data, train)
            # What SELC believes, as in the paper: what it hands out keeps every label whose change is not trusted.
            believed = first.target if self.labels == "soft" else first.believed_labels
            return replace(train(self, data.relabel(believed)), target=first.target, decided=first.decided)
        judged = judge(data, train)
        first = method.by_decision(judged, train)
        if judged.decision.start is None:
            return first
        both = by_both(first, judged)
        targets = first.target if both is None else both
        labels = targets.argmax() if self.labels == "hard" else targets
        return handed_on(first, retrained(judged.data.relabel(labels), judged, train, self.concentration))
