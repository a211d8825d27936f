"""Reed, Lee, Anguelov, Szegedy, Erhan and Rabinovich: Training Deep Neural Networks on Noisy Labels with
Bootstrapping. ICLR Workshop 2015."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from selc.errors import ConfigError
from selc.methods.base import METHODS, Method
from selc.types import Batch

PUBLISHED = {"soft": 0.95, "hard": 0.8}  # the weight of the given label


@METHODS.register("bootstrap")
class Bootstrap(Method):
    """Targets are a fixed mix of the given label and the network's own prediction.

        soft: L = H(beta y + (1 - beta) p, p)      hard: L = H(beta y + (1 - beta) onehot(argmax p), p)

    The soft target is not held constant: its gradient is what makes the second term push the entropy of the
    predictions down. Held constant, it would have no gradient at all, and the loss would be beta times CE.

    The soft kind is the default, as that is the Bootstrap to which the paper on SELC compares itself (its Eq. 2).

    Deviations: none. ``beta="auto"`` is the published value of each kind: 0.95 for soft, 0.8 for hard.
    """

    parallel = True

    def __init__(self, *, kind: Literal["soft", "hard"] = "soft", beta: float | Literal["auto"] = "auto") -> None:
        super().__init__()
        if kind not in PUBLISHED:
            raise ConfigError(f"kind must be 'soft' or 'hard'; got {kind!r}.")
        if beta != "auto" and (isinstance(beta, str) or not 0 <= beta <= 1):
            raise ConfigError(f"beta must be in [0, 1] or 'auto'; got {beta!r}. It is the weight of the given label.")
        self.kind, self.beta = kind, beta

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        beta = PUBLISHED[self.kind] if isinstance(self.beta, str) else self.beta
        log_p = self.log_probs(outputs)
        if self.kind == "soft":
            own = log_p.exp()  # p log p is 0 where p is 0, for log p is finite
        else:
            own = torch.zeros_like(log_p).scatter_(1, log_p.argmax(dim=1, keepdim=True), 1.0)
        return -((beta * batch.target + (1 - beta) * own) * log_p).sum(dim=1)
