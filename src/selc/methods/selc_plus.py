"""Lu and He: SELC: Self-Ensemble Label Correction Improves Learning with Noisy Labels. IJCAI 2022 (SELC+)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from torch import nn

from selc.errors import ConfigError
from selc.losses.cross_entropy import soft_cross_entropy
from selc.methods.base import METHODS, Method, Train
from selc.methods.parts import mixup
from selc.methods.selc import SELC
from selc.types import Batch, Outcome, Step, TrainSet


@METHODS.register("selc+")
class SELCPlus(Method):
    """SELC, then a fresh network trained with mixup on the corrected labels.

        x' = l x_i + (1 - l) x_j      L = l H(t_i, p') + (1 - l) H(t_j, p')      l ~ Beta(a, a)

    Deviations: partners are drawn within a shard of the data, so that the result does not depend on the number
    of processes. The corrected labels are hard by default, as in the authors' code; their text can be read as
    soft. Their code also sends each unmixed batch through the network, which changes only batch norm; we do not.
    """

    family = "stages"
    cost = 2.3
    parallel = True

    def __init__(
        self,
        *,
        start: float | Literal["auto", "pilot"] = "auto",
        alpha: float | Literal["auto"] = "auto",
        labels: Literal["hard", "soft"] = "hard",
        concentration: float = 0.9,
    ) -> None:
        super().__init__()
        if not concentration >= 0:
            raise ConfigError(
                f"concentration must be at least 0; got {concentration}. It is the parameter of mixup's Beta "
                "distribution; 0 means no mixing, the authors use 0.9."
            )
        if labels not in ("hard", "soft"):
            raise ConfigError(f"labels must be 'hard' or 'soft'; got {labels!r}. The authors' code uses hard ones.")
        SELC(start=start, alpha=alpha)  # checks them now, not after the first stage was set up
        self.start, self.alpha, self.labels, self.concentration = start, alpha, labels, concentration

    def step(self, model: nn.Module, batch: Batch) -> Step:
        x, target = mixup(batch, self.concentration)
        return Step(soft_cross_entropy(model(x), target), None)

    def fit(self, data: TrainSet, train: Train) -> Outcome:
        first = SELC(start=self.start, alpha=self.alpha).fit(data, train)
        # What SELC believes, as in the paper: what it hands out keeps every given label whose change is not trusted.
        corrected = first.believed_labels if self.labels == "hard" else first.target
        second = train(self, data.relabel(corrected))
        return replace(second, target=first.target, decided=first.decided)
